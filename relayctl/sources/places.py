"""The folders of what is fetched in one state directory, one for each place: who uses one, and what nobody follows.

What is in them is not looked at.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.errors import FileFailure
from relayctl.host.lock import FileLock

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

KEPT_FOR = timedelta(days=7)
"""A setting that is taken back within this time finds what it had, also where the place is away."""
_USERS = ".users"


class Place:
    """One of them, in use for as long as this is held. Workers that share the state directory share it.

    A shared lock on `<folder>.users` means: somebody follows it. The kernel frees it, however that one ends.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Where a full disk has no room for the lock, it is followed all the same."""
        self.folder = folder
        self._clock = clock
        self._lock = _users(folder, clock)
        with suppress(OSError, FileFailure):
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.share()

    def sweep(self) -> None:
        """Remove the folders beside it that nobody has followed for a while. What cannot be removed stays."""
        with suppress(OSError):
            for folder in list(self.folder.parent.iterdir()):
                if folder.is_dir() and folder != self.folder and self._is_old(folder):
                    self._remove(folder)

    def _remove(self, folder: Path) -> None:
        lock = _users(folder, self._clock)
        with suppress(FileFailure):
            # Whoever begins to follow it now waits for this, and makes it anew.
            if lock.try_acquire():
                shutil.rmtree(folder, ignore_errors=True)
                lock.remove()

    def _is_old(self, folder: Path) -> bool:
        # Every fetch writes one of the files in it, and every end of use the lock.
        users = folder.with_name(folder.name + _USERS)
        times = [entry.stat().st_mtime for entry in (folder, users, *folder.iterdir()) if entry.exists()]
        return self._clock.now().timestamp() - max(times) > KEPT_FOR.total_seconds()

    def close(self) -> None:
        """Nobody follows it here any more. Safe to repeat."""
        self._lock.release()


def _users(folder: Path, clock: Clock) -> FileLock:
    return FileLock(folder.with_name(folder.name + _USERS), clock)
