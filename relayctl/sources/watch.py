"""Hints that a directory of apps has changed. It may miss a change or name too many; the periodic look is the truth.

Dependency, hidden and tool directories are not watched. A root that is replaced or behind a link is noticed within a
second, because the watch itself goes blind then.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.sources.source import Hint
from relayctl.templates.find import is_ignored_directory, is_ignored_file

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

_LOOK_MS = 1000
_QUIET_MS = 10
_AWAY_S = 0.5


class DirectoryWatch:
    """Watches one root. `run` is the body of a thread of its own."""

    def __init__(
        self,
        root: Path,
        *,
        debounce_ms: int,
        is_polling: bool,
        clock: Clock,
        on_hint: Hint,
        on_trouble: Callable[[str], None],
    ) -> None:
        self._root = root
        self._debounce_ms = max(_QUIET_MS, debounce_ms)
        self._is_polling = is_polling
        self._clock = clock
        self._on_hint = on_hint
        self._on_trouble = on_trouble
        self._owners: dict[str, str] = {}

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop` is set; a second at most goes by until it returns."""
        while not stop.is_set():
            try:
                self._watch(stop)
            except (FileNotFoundError, PermissionError):
                self._clock.wait(stop, _AWAY_S)
            except (OSError, RuntimeError) as error:
                # The library raises a RuntimeError of its own where the system grants no watcher at all.
                self._fall_back(error)
                self._clock.wait(stop, _AWAY_S)
            if not stop.is_set():
                # Something may have happened between two watches.
                self._on_hint(None)

    def wake(self) -> None:
        """Nothing to do: it looks at `stop` often enough."""

    def _watch(self, stop: threading.Event) -> None:
        import watchfiles

        identity = _identity(self._root)
        folders = self._folders()
        is_blind = True
        for changes in watchfiles.watch(
            *folders,
            watch_filter=None,
            debounce=self._debounce_ms,
            step=_QUIET_MS,
            stop_event=stop,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=self._is_polling or None,
            recursive=False,
            # With permissions ignored the library swallows a limit that is reached, and would be blind.
            ignore_permission_denied=False,
        ):
            is_news = is_blind or not self._is_about_files(changes)
            if is_blind:
                # What happened before the system began to watch was told to nobody.
                is_blind = False
                self._on_hint(None)
            elif changes:
                self._tell(Path(path) for _, path in changes)
            if _identity(self._root) != identity or (is_news and self._folders() != folders):
                return

    def _is_about_files(self, changes: Iterable[tuple[object, str]]) -> bool:
        """Whether nothing but files of known directories changed, so that there is no other directory to watch."""
        return all(
            os.path.dirname(path) in self._owners and path not in self._owners and not os.path.isdir(path)  # noqa: PTH112, PTH120  for each event
            for _, path in changes
        )

    def _folders(self) -> list[Path]:
        """The root and every directory of what is an app or may become one with the next file, sorted."""
        root = self._root.resolve(strict=True)
        self._owners = {}
        folders = {root}
        for name, real in _candidates(root):
            for folder in _tree(real):
                self._owners[str(folder)] = name
                folders.add(folder)
        return sorted(folders)

    def _tell(self, paths: Iterable[Path]) -> None:
        touched: set[str] = set()
        for path in paths:
            if is_ignored_file(path.name) or is_ignored_directory(path.name):
                # A link that Kubernetes swaps is hidden too, and means everything.
                if path.name.startswith(".."):
                    self._on_hint(None)
                    return
                continue
            owner = self._owners.get(str(path.parent)) or self._owners.get(str(path))
            if owner is None:
                self._on_hint(None)
                return
            touched.add(owner)
        if touched:
            self._on_hint(frozenset(touched))

    def _fall_back(self, error: Exception) -> None:
        if not self._is_polling:
            self._is_polling = True
            why, setting = _refusal(error)
            self._on_trouble(
                f"the system refused to watch {self._root} ({why}); it is polled instead. "
                f"Raise {setting} to be told at once."
            )


def _refusal(error: Exception) -> tuple[str, str]:
    """Why there is no watch, and the setting to raise; the library tells the two limits apart by words only."""
    words = str(error)
    if "Too many open files" in words:
        return "too many watchers or open files", "fs.inotify.max_user_instances, or the limit of open files,"
    if "watch limit" in words:
        return "its limit of watches is reached", "fs.inotify.max_user_watches"
    return words.partition(" about [")[0], "fs.inotify.max_user_watches"


def _candidates(root: Path) -> Iterator[tuple[str, Path]]:
    for entry in root.iterdir():
        if not is_ignored_directory(entry.name) and entry.is_dir():
            real = entry.resolve()
            # A link that leaves the root is no app.
            if real != root and real.is_relative_to(root):
                yield entry.name, real


def _tree(folder: Path) -> Iterator[Path]:
    try:
        inner = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError:
        return  # what cannot be read cannot be watched
    yield folder
    for entry in inner:
        if not is_ignored_directory(entry.name):
            yield from _tree(entry)


def _identity(root: Path) -> tuple[str, int, int]:
    """What changes when the root is replaced or a link on the way to it is swapped."""
    status = root.stat()
    return str(root.resolve()), status.st_dev, status.st_ino
