"""The embedded server's configuration file: durable, owner-only, on one unix socket.

Text only; whoever starts the server writes it. No directive here is for tuning.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

AOF_DIRECTORY = "aof"
_PRINTABLE = range(0x20, 0x7F)


def render_config(*, data: Path, socket: Path, log: Path) -> str:
    """The configuration that serves `data` on `socket` alone."""
    directives = {
        "port": "0",
        "unixsocket": quote_path(socket),
        "unixsocketperm": "600",
        "dir": quote_path(data),
        "daemonize": "no",
        "logfile": quote_path(log),
        "always-show-logo": "no",
        "appendonly": "yes",
        "appenddirname": AOF_DIRECTORY,
        "appendfilename": "relay.aof",
        # Not `everysec`: while such a sync is under way the server answers before it writes, and a kill would take what
        # it acknowledged. With `no` it always writes first; its owner syncs once a second (`syncing`).
        "appendfsync": "no",
        "aof-load-truncated": "yes",
        # A binary preamble ties the data to one server version, and an older one may start empty.
        "aof-use-rdb-preamble": "no",
        "save": '""',
        # A stop must not wait for replicas nor be refused; the append-only file is flushed in any case.
        "shutdown-on-sigterm": "nosave now force",
        # Evicting a key would forget that an instant was published.
        "maxmemory-policy": "noeviction",
        "enable-debug-command": "no",
        "enable-module-command": "no",
    }
    return "".join(f"{name} {value}\n" for name, value in directives.items())


def quote_path(path: Path) -> str:
    """`path` as one configuration word, whatever bytes it has."""
    escaped = "".join(
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if byte in _PRINTABLE else f"\\x{byte:02x}"
        for byte in os.fsencode(path)
    )
    return f'"{escaped}"'
