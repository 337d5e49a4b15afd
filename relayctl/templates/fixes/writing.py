"""Puts a mended template in the place of the old one: whole or not at all, with its mode, and behind its link."""

from __future__ import annotations

import os
from pathlib import Path

from relayctl.errors import FileFailure, os_reason
from relayctl.host.wholefile import write_whole


def overwrite(path: Path, old: bytes, new: bytes) -> None:
    """Write `new` where `old` was read; a file that has changed since then is left as it is."""
    real = Path(os.path.realpath(path))
    try:
        if real.read_bytes() != old:
            raise FileFailure(f"{path}: it was changed while it was being fixed", help="run the command again")
        write_whole(real, new, like=real.stat(), is_synced=True)
    except OSError as error:
        raise FileFailure(f"{path}: cannot be written: {os_reason(error)}") from None
