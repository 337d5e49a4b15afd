"""Who gives an order on this machine, as user@host: for the record, never for a decision."""

from __future__ import annotations

import os
import platform
import pwd


def operator() -> str:
    """The user that this process runs as, and the machine's short name."""
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    return f"{user}@{platform.node().partition('.')[0] or 'localhost'}"
