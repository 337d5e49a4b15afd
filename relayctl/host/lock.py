"""One holder at a time on this machine, by `flock`: released by the kernel however the holder ends.

The record inside (pid, since when, command) is for people, and never evidence that the lock is held: only the kernel
knows.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from relayctl.core.occurrence import second_text
from relayctl.errors import FileFailure, StateBusy, os_reason

if TYPE_CHECKING:
    from pathlib import Path

    from relayctl.host.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who wrote the record last; true of the present only after an acquisition was just refused."""

    pid: int
    since_at: datetime
    command: str = ""

    @property
    def words(self) -> str:
        """All of it, for people."""
        command = f" ({self.command})" if self.command else ""
        return f"process {self.pid}{command} since {second_text(self.since_at)}"


class FileLock:
    """An exclusive advisory lock on a file.

    Only an exclusive holder removes the file, and whoever locks a file looks whether it is still the one at the path:
    otherwise two could hold the lock, each on a file of its own.
    """

    __slots__ = ("_clock", "_command", "_fd", "path")

    def __init__(self, path: Path, clock: Clock, *, command: str = "") -> None:
        """`command` goes into the record, to tell people what holds it."""
        self.path = path
        self._clock = clock
        self._command = command
        self._fd: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free; False at once if another holds it, also another object of this process."""
        if self._fd is not None:
            return False
        fd = self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB)
        if fd is None:
            return False
        self._fd = fd
        self.record(os.getpid())
        return True

    def share(self) -> None:
        """Hold the lock together with others who share it: a sign of presence, without a record.

        Waits for an exclusive holder; use it for files that are locked exclusively for an instant at most.
        """
        if self._fd is None:
            self._fd = self._locked(fcntl.LOCK_SH)

    def release(self) -> None:
        """Free the lock, for a process that inherited it too. Harmless when not held."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        with suppress(OSError):
            os.ftruncate(fd, 0)
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)

    def remove(self) -> None:
        """Leave no file behind if nobody holds the lock now; one held here is freed first. Harmless to repeat."""
        self.release()
        if self.path.exists() and self.try_acquire():
            with suppress(OSError):
                self.path.unlink()
            self.release()

    def hand_over(self) -> None:
        """Forget the lock without freeing it: it now lasts as long as the child that inherited `fileno`."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def fileno(self) -> int:
        """The descriptor to pass to a child (`pass_fds`) that shall hold the lock from then on."""
        if self._fd is None:
            raise StateBusy(f"{self.path} is not locked by this process")
        return self._fd

    def record(self, pid: int) -> None:
        """Name `pid` as the holder. A full disk loses the record, never the lock."""
        text = f"{pid} {self._clock.now().isoformat()} {self._command}".rstrip().encode() + b"\n"
        with suppress(OSError):
            os.ftruncate(self.fileno(), 0)
            os.pwrite(self.fileno(), text, 0)

    def holder(self) -> Holder | None:
        """What the record says, or None if it is empty or torn."""
        try:
            pid, since, *command = self.path.read_text().rstrip("\n").split(" ", 2)
            return Holder(pid=int(pid), since_at=datetime.fromisoformat(since), command="".join(command))
        except (OSError, ValueError):
            return None

    def is_held(self, *, counting_shared: bool = False) -> bool:
        """Ask the kernel whether somebody holds it exclusively (or, if asked, shares it).

        The probe holds the lock for an instant, so acquirers and other probers must be ready to ask again.
        """
        if self._fd is not None:
            return True
        if not self.path.exists():
            return False
        fd = self._locked((fcntl.LOCK_EX if counting_shared else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        if fd is None:
            return True
        os.close(fd)
        return False

    def __enter__(self) -> Self:
        if not self.try_acquire():
            raise StateBusy(f"{self.path} is locked{self._holder_text()}", help="wait for it to finish, or end it")
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()

    def _holder_text(self) -> str:
        holder = self.holder()
        return f" by {holder.words}" if holder else ""

    def _locked(self, how: int) -> int | None:
        """A descriptor of the file at the path, locked; None if another holds it."""
        while True:
            fd = self._open()
            try:
                fcntl.flock(fd, how)
            except BlockingIOError:
                os.close(fd)
                return None
            except OSError as error:
                os.close(fd)
                raise self._failure(error) from error
            if self._is_current(fd):
                return fd
            os.close(fd)

    def _is_current(self, fd: int) -> bool:
        try:
            found = self.path.stat()
        except OSError:
            return False
        own = os.fstat(fd)
        return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> FileFailure:
        return FileFailure(
            f"the lock file {self.path} cannot be used: {os_reason(error)}",
            help="check the owner and the free space of its directory; network file systems may lack flock",
        )
