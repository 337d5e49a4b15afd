"""Where control sockets lie: their names, who may reach them, and the removal of those that dead processes left."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.errors import RelayError, RequestRejected, WorkerUnreachable
from relayctl.host.lock import FileLock

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.host.state import StateDir

GUARD = "control.lock"
CONNECT_WITHIN_S = 3.0
_ACCEPT_WITHIN_S = 1.0
_PREFIX, _SUFFIX = "control-", ".sock"


def socket_name(token: str) -> str:
    """The file name of a process's socket; tokens have one length, so that all sockets lie in one directory."""
    return f"{_PREFIX}{token}{_SUFFIX}"


def sockets_of(state: StateDir, clock: Clock) -> list[Path]:
    """The sockets of the processes that live on this state directory; what dead ones left is removed."""
    if not _is_there(state.path):
        return []
    directory = state.short_socket_path(socket_name("0" * 8)).parent
    try:
        found = sorted(directory.glob(f"{_PREFIX}*{_SUFFIX}"))
    except PermissionError:
        raise foreign(directory) from None
    if not found:
        return []
    return sweep(directory, FileLock(state.path / GUARD, clock))


def sweep(directory: Path, guard: FileLock) -> list[Path]:
    """Remove the sockets nobody listens on any more, never a live one; those that stay."""
    found = sorted(directory.glob(f"{_PREFIX}*{_SUFFIX}"))
    stale = [path for path in found if _is_stale(path)]
    if not stale or not guard.try_acquire():
        return [path for path in found if path not in stale]
    try:
        for path in stale:
            # Asked again under the lock: one that was about to listen does so by now.
            if _is_stale(path):
                path.unlink(missing_ok=True)
    finally:
        guard.release()
    return [path for path in found if path not in stale and path.exists()]


def owner_text(uid: int) -> str:
    """A user as `name (uid)`."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return f"uid {uid}"


def listen(path: Path, backlog: int) -> socket.socket:
    """A listening socket at `path`, for the owner alone. Raises OSError, and leaves nothing behind then."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        try:
            path.chmod(0o600)
            listener.listen(backlog)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except BaseException:
        listener.close()
        raise
    # Closing a socket does not wake a blocked accept everywhere.
    listener.settimeout(_ACCEPT_WITHIN_S)
    return listener


def peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end, or None where this system does not tell (then the file's mode alone guards it)."""
    if sys.platform != "linux":
        return None
    _, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def foreign_owner(path: Path, owner: str) -> RequestRejected:
    """The error of asking another user's worker."""
    return RequestRejected(
        f"the control socket {path} belongs to {owner}, and you are {owner_text(os.geteuid())}",
        help="only its owner may ask a worker; run this as that user",
    )


def foreign(path: Path) -> RelayError:
    """Why `path` may not be reached: the nearest place on the way that can be looked at names its owner."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            uid = place.stat().st_uid
            if uid != os.geteuid():
                return foreign_owner(path, owner_text(uid))
            break
    return WorkerUnreachable(f"{path} may not be opened by {owner_text(os.geteuid())}", help="check its permissions")


def _is_stale(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_WITHIN_S)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            # A full backlog or another user's socket says nothing about its owner's life.
            return False
    return False


def _is_there(path: Path) -> bool:
    try:
        next(path.iterdir(), None)
    except PermissionError:
        raise foreign(path) from None
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
