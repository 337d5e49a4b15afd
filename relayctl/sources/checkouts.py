"""Directories of apps by revision, in the state directory: each put there whole, kept while it is in use, then removed.

Workers that share a state directory share them. What is in them is not looked at.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.host.lock import FileLock
from relayctl.host.wholefile import is_alive, sweep_unfinished, write_whole

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

FORMAT_VERSION = 1
KEPT = 3
"""So many of the newest stay, whether they are in use or not."""
_CURRENT = "current.json"
_TURN = "turn.lock"
_TURN_WITHIN_S = 10.0
_TURN_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The revision that was taken last, the digest of its files, and when it was taken (RFC 3339)."""

    revision: str
    digest: str
    since: str


class Checkouts:
    """The directories of one source. A revision is a name in hexadecimal digits. Used by one thread at a time.

    A shared lock on `<revision>.lock` means: somebody uses it. The kernel frees it, however that one ends.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._held: dict[str, FileLock] = {}

    def directory(self, revision: str) -> Path:
        """Where that revision lies, once it is there."""
        return self._folder / revision

    def place(self, revision: str, fill: Callable[[Path], None]) -> Path:
        """The directory of a revision, from now on in use here; where there is none, `fill` is handed an empty one."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._hold(revision)
        directory = self.directory(revision)
        if directory.is_dir():
            # The order in which they count as new is that of their times.
            with suppress(OSError):
                os.utime(directory)
            return directory
        with self._turn():
            # Whoever had to wait finds it there now.
            if not directory.is_dir():
                self._make(revision, fill)
        return directory

    def _make(self, revision: str, fill: Callable[[Path], None]) -> None:
        directory = self.directory(revision)
        # Under a name of its own: the same number may be another process's where both have their own ones.
        draft = Path(tempfile.mkdtemp(prefix=f"{revision}.{os.getpid()}.", suffix=".new", dir=self._folder))
        try:
            fill(draft)
            with suppress(FileExistsError):
                draft.rename(directory)
        except OSError:
            # Another one was quicker, or the disk is full.
            if not directory.is_dir():
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One process at a time fills a directory here. Two would do no harm but work, so nobody waits for long."""
        lock = FileLock(self._folder / _TURN, self._clock)
        until, never = self._clock.monotonic() + _TURN_WITHIN_S, threading.Event()
        while not lock.try_acquire() and self._clock.monotonic() < until:
            self._clock.wait(never, _TURN_POLL_S)
        try:
            yield
        finally:
            lock.release()

    def discard(self, revision: str) -> None:
        """This one is not as it was put there: make room for it to be put there anew."""
        self._take_away(self.directory(revision))

    def remember(self, current: Current) -> None:
        """Write down what is in force, for a start without the place where it came from."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._folder / _CURRENT, json.dumps({"v": FORMAT_VERSION, **asdict(current)}).encode())

    def recall(self) -> Current | None:
        """What was in force last, or None where that is not known, or written by a newer relayctl."""
        try:
            document = json.loads((self._folder / _CURRENT).read_bytes())
            if document.pop("v") != FORMAT_VERSION:
                return None
            current = Current(**document)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        is_name = re.fullmatch(r"[0-9a-f]{8,128}", str(current.revision)) is not None
        return current if is_name and self.directory(current.revision).is_dir() else None

    def settle(self, in_use: Collection[Path]) -> None:
        """Let go of all but the newest and those with one of these directories in them."""
        kept = {directory.name for directory in self._newest()}
        kept |= {path.relative_to(self._folder).parts[0] for path in in_use if path.is_relative_to(self._folder)}
        for revision in self._held.keys() - kept:
            self._held.pop(revision).release()
        for directory in self._all():
            if directory.name not in kept:
                self._remove(directory)
        self._sweep()

    def close(self) -> None:
        """Nothing is in use here any more."""
        while self._held:
            self._held.popitem()[1].release()

    def _hold(self, revision: str) -> None:
        if revision not in self._held:
            lock = FileLock(self._folder / f"{revision}.lock", self._clock)
            lock.share()
            self._held[revision] = lock

    def _all(self) -> list[Path]:
        with suppress(FileNotFoundError):
            return [entry for entry in self._folder.iterdir() if entry.is_dir() and "." not in entry.name]
        return []

    def _newest(self) -> list[Path]:
        return sorted(self._all(), key=_modified_at, reverse=True)[:KEPT]

    def _remove(self, directory: Path) -> None:
        lock = FileLock(self._folder / f"{directory.name}.lock", self._clock)
        if lock.try_acquire():
            # Out of everybody's way first, since taking it apart takes long.
            self._take_away(directory)
            lock.remove()

    def _take_away(self, directory: Path) -> None:
        aside = self._folder / f"{directory.name}.{os.getpid()}.old"
        with suppress(OSError):
            directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def _sweep(self) -> None:
        """What a process left that died in the middle, while nobody fills one."""
        turn = FileLock(self._folder / _TURN, self._clock)
        if not turn.try_acquire():
            return
        try:
            sweep_unfinished(self._folder)
            for entry in self._folder.iterdir():
                _, *parts = entry.name.split(".")
                if {"new", "old"} & set(parts) and parts[0].isdecimal() and not is_alive(int(parts[0])):
                    _delete(entry)
        finally:
            turn.release()


def _modified_at(directory: Path) -> float:
    try:
        return directory.stat().st_mtime
    except OSError:
        return 0.0


def _delete(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
