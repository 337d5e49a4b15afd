"""A few bytes that several processes of this machine change in turn, in one file.

What they mean, and when they count as done with, is for the caller to say.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from relayctl.errors import FileFailure, os_reason

_MOST_BYTES = 65536


class SlotFile:
    """Reads, decides and writes under a short lock on the file itself, which therefore is never removed or replaced."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        """What is in it, without a turn; empty where there is no file."""
        try:
            with self.path.open("rb") as opened:
                return opened.read(_MOST_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._failure(error) from error

    def mutate(self, change: Callable[[bytes], bytes]) -> bytes:
        """Put in what `change` makes of what is there, and answer that. Nobody else is in between.

        `change` must be quick: everybody waits for it. What it leaves as it is, is not written.
        """
        with self._turn() as fd:
            before = os.pread(fd, _MOST_BYTES, 0)
            after = change(before)
            if len(after) > _MOST_BYTES:
                raise ValueError(f"a slot holds {_MOST_BYTES} bytes at most")
            if after != before:
                try:
                    os.pwrite(fd, after, 0)
                    os.ftruncate(fd, len(after))
                except OSError as error:
                    raise self._failure(error) from error
            return after

    @contextmanager
    def _turn(self) -> Iterator[int]:
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._failure(error) from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
            except OSError as error:
                raise self._failure(error) from error
            yield fd
        finally:
            os.close(fd)

    def _failure(self, error: OSError) -> FileFailure:
        return FileFailure(
            f"{self.path} cannot be used: {os_reason(error)}",
            help="check the owner and the free space of its directory",
        )
