"""Files that a reader sees as they were or as they are to be, never half: written as a draft beside, then renamed.

What a process leaves that dies in between is a draft with its number in the name, for whoever sweeps. Which failure
means what to a user is the caller's to say.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_LONGEST = 200


def write_whole(
    path: Path, data: bytes, *, mode: int = 0o600, like: os.stat_result | None = None, is_synced: bool = False
) -> None:
    """Put a file there or replace it; of two at once the later one counts. Raises OSError and leaves what was there.

    `like` has the mode and, as far as may be, the owner of another file. With `is_synced` it outlives a power failure
    from here on: to be asked for wherever somebody is told that it was kept.
    """
    # The longest name that a file may have leaves no room for more.
    name = path.name if len(os.fsencode(path.name)) <= _LONGEST else "long"
    handle, made = tempfile.mkstemp(prefix=f".{name}.", suffix=f".{os.getpid()}", dir=path.parent)
    draft = Path(made)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        if like is not None:
            with suppress(PermissionError):
                # Only root can give a file away; for others the new one is theirs already.
                os.chown(draft, like.st_uid, like.st_gid)
        # After the owner, since a change of that may take bits away.
        draft.chmod(mode if like is None else stat.S_IMODE(like.st_mode))
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    if is_synced:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Keep the new name too. Some file systems know no such thing for a directory, and the file itself is safe."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sweep_unfinished(folder: Path, name: str = "*") -> None:
    """Delete the drafts, of that file or of all, whose writers are dead. Raises OSError."""
    for draft in folder.glob(f".{name}.*"):
        pid = draft.suffix[1:]
        if not (pid.isdecimal() and is_alive(int(pid))):
            draft.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
