"""The state directory: what this machine keeps for one apps directory, where each thing lies and who may read it.

It names and creates places; it opens no database and keeps no content.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from relayctl.errors import FileFailure, os_reason
from relayctl.host.wholefile import write_whole

# Room in sockaddr_un, without the closing zero byte.
MAX_SOCKET_BYTES = 103 if sys.platform == "darwin" else 107

_BROKER_SOCKET = "broker.sock"
_OTHER_STATE_DIR = "give another one with --state-dir (or RELAYCTL_STATE_DIR), or mend its owner and free space"


class StateDir:
    """One state directory. Paths are plain attributes; only the methods touch the disk."""

    __slots__ = (
        "broker_config",
        "broker_data",
        "broker_lock",
        "broker_log",
        "broker_stamp",
        "broker_users",
        "environments",
        "last_good",
        "outbox",
        "path",
        "runtime_record",
        "secrets",
    )

    def __init__(self, path: Path | str) -> None:
        self.path = _resolved(Path(path))
        self.broker_data = self.path / "broker"
        self.broker_lock = self.path / "broker.lock"
        self.broker_config = self.path / "broker.conf"
        self.broker_log = self.path / "broker.log"
        self.broker_stamp = self.path / "broker.json"
        self.broker_users = self.path / "broker.users"
        self.outbox = self.path / "state.db"
        self.last_good = self.path / "last-good"
        self.environments = self.path / "environments"
        self.secrets = self.path / "secrets"
        self.runtime_record = self.path / "runtime-dir"

    def __repr__(self) -> str:
        return f"StateDir({str(self.path)!r})"

    def create(self) -> StateDir:
        """Make it and the broker's data directory, for the owner alone and invisible to git. Safe to repeat."""
        try:
            _make_private(self.path)
            _make_private(self.broker_data)
            ignore = self.path / ".gitignore"
            if not ignore.exists():
                # Whole: an empty one would be left as it is, and git would see the secrets.
                write_whole(ignore, b"*\n", mode=0o644)
        except OSError as error:
            raise FileFailure(
                f"the state directory {self.path} cannot be used: {os_reason(error)}", help=_OTHER_STATE_DIR
            ) from error
        return self

    def exists(self) -> bool:
        """Whether it is there. FileFailure where that cannot be seen, as beneath another user's directory."""
        try:
            return self.path.is_dir()
        except OSError as error:
            raise FileFailure(
                f"the state directory {self.path} cannot be looked at: {os_reason(error)}", help=_OTHER_STATE_DIR
            ) from error

    def short_socket_path(self, name: str = _BROKER_SOCKET) -> Path:
        """Where the socket `name` goes: here, or where a path would be too long for a socket, in a short private
        directory that is recorded here so that every process finds the same one."""
        wanted = self.path / name
        if len(os.fsencode(wanted)) <= MAX_SOCKET_BYTES:
            return wanted
        short = self._runtime_dir() / name
        if len(os.fsencode(short)) > MAX_SOCKET_BYTES:
            raise FileFailure(
                f"the path of the socket {short} is longer than {MAX_SOCKET_BYTES} bytes",
                help="give a state directory with a shorter path (--state-dir), or a shorter TMPDIR",
            )
        return short

    def _runtime_dir(self) -> Path:
        try:
            recorded = self._recorded_runtime_dir()
            if recorded is not None:
                return recorded
            self.create()
            return self._record_runtime_dir()
        except OSError as error:
            raise FileFailure(
                f"no short directory for sockets can be made for {self.path}: {os_reason(error)}",
                help="give a state directory with a shorter path (--state-dir)",
            ) from error

    def _recorded_runtime_dir(self) -> Path | None:
        try:
            recorded = Path(os.fsdecode(self.runtime_record.read_bytes()))
        except FileNotFoundError:
            return None
        # A cleaner of temporary files may have taken it; the same name again keeps old readers right.
        with suppress(FileExistsError):
            recorded.mkdir(mode=0o700)
        if _is_private(recorded):
            return recorded
        self.runtime_record.unlink(missing_ok=True)
        return None

    def _record_runtime_dir(self) -> Path:
        fresh = Path(tempfile.mkdtemp(prefix="relayctl-"))
        handle, name = tempfile.mkstemp(prefix="runtime-dir.", dir=self.path)
        draft = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(os.fsencode(fresh))
        try:
            # A link fails where a rename would replace: of several that start together the first decides.
            os.link(draft, self.runtime_record)
        except FileExistsError:
            fresh.rmdir()
            return Path(os.fsdecode(self.runtime_record.read_bytes()))
        finally:
            draft.unlink()
        return fresh


def _resolved(path: Path) -> Path:
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # a link that may not be read or leads to itself, a user who is not there
        raise FileFailure(
            f"the state directory {path} cannot be found: {os_reason(error)}", help=_OTHER_STATE_DIR
        ) from error


def _make_private(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError(None, f"it belongs to user {status.st_uid}, not to {os.geteuid()}")
    if stat.S_IMODE(status.st_mode) != 0o700:
        path.chmod(0o700)


def _is_private(path: Path) -> bool:
    # lstat: a link that another user planted in a shared directory is not ours.
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077 == 0
