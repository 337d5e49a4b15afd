"""Where environments lie on this machine, and who may touch them: workers on one state directory share the place.

An environment never moves, since its scripts name its path: it is built where it will be used, and counts from the
moment at which a file with its description is renamed into it. What has none is half built and is used by nobody.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayctl.host.lock import FileLock
from relayctl.host.wholefile import write_whole
from relayctl.runners.environments.environment import Environment
from relayctl.runners.environments.recipe import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from relayctl.host.clock import Clock
    from relayctl.runners.environments.recipe import Recipe

FORMAT_VERSION = 1
MOST_UNUSED = 5
"""So many environments that no worker uses are kept: whoever goes back to an older lock file does not wait."""
_READY = "relayctl.json"
_BUILDING = ".building"
_USED = ".used"
_GONE = ".gone"
_APPS = "apps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """An environment that was taken away, and the file that it was made from."""

    key: str
    file: str


class Shelf:
    """One directory of environments. Methods raise OSError, or FileFailure where a lock cannot be had."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._holds: dict[str, FileLock] = {}

    # What is there

    def find(self, key: str) -> Environment | None:
        """The whole environment of that key, or None."""
        ready = self._description(key)
        if ready is None:
            return None
        directory = self._root / key
        found = Environment(key=key, directory=directory, is_node=ready.get("kind") == Kind.NPM.value)
        # The interpreter that it leads to may have been taken off the machine.
        return found if found.python is None or found.python.exists() else None

    def hold(self, key: str) -> Environment | None:
        """Find it and keep everybody from removing it until `release`, however this process ends."""
        if key not in self._holds:
            if self._description(key) is None:
                return None
            lock = self._used(key)
            lock.share()
            self._holds[key] = lock
            self._touch(key)
        found = self.find(key)  # somebody may have removed it before the lock was had
        if found is None:
            self.release(key)
        return found

    def release(self, key: str) -> None:
        """Let it be removed as far as this process is concerned."""
        lock = self._holds.pop(key, None)
        if lock is not None:
            self._touch(key)
            lock.release()

    @property
    def held(self) -> Collection[str]:
        """The keys that this process keeps from being removed."""
        return list(self._holds)

    def _used(self, key: str) -> FileLock:
        return FileLock(self._root / f"{key}{_USED}", self._clock)

    def _description(self, key: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self._root / key / _READY).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found.get("v") == FORMAT_VERSION else None

    def _touch(self, key: str) -> None:
        with suppress(OSError):
            os.utime(self._root / key / _READY)

    # Building

    def lock(self, key: str) -> FileLock:
        """What a builder of that key holds, one at a time on this machine."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileLock(self._root / f"{key}{_BUILDING}", self._clock)

    def prepare(self, key: str) -> Path:
        """An empty place for it; whatever lay there was half built or is damaged. For the holder of the lock."""
        directory = self._root / key
        # First, so that a crash in the middle leaves nothing that looks whole.
        (directory / _READY).unlink(missing_ok=True)
        self._discard(directory)
        directory.mkdir(mode=0o700)
        return directory

    def finish(self, recipe: Recipe) -> None:
        """All is in place: from now on it counts."""
        # A file that was renamed must not outlive a power failure which its neighbours did not.
        os.sync()
        directory = self._root / recipe.key
        document = {"v": FORMAT_VERSION, "kind": recipe.kind.value, "interpreter": str(recipe.interpreter)}
        write_whole(directory / _READY, json.dumps(document).encode(), is_synced=True)

    def discard(self, key: str) -> None:
        """A build came to nothing. For the holder of the lock."""
        self._discard(self._root / key)

    def _discard(self, directory: Path) -> None:
        if directory.exists():
            shutil.rmtree(self._set_aside(directory), ignore_errors=True)

    def _set_aside(self, directory: Path) -> Path:
        gone = self._root / f"{directory.name}{_GONE}{secrets.token_hex(4)}"
        return directory.rename(gone)

    # What each app ran with

    def remember(self, app: str, key: str) -> None:
        """The environment with which an app went live; an empty key for none of its own."""
        if self.remembered(app) != key:
            file = self._root / _APPS / app
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(file, f"{key}\n".encode())

    def remembered(self, app: str) -> str | None:
        """With which environment an app went live last, in any worker here; None where that is not known."""
        try:
            found = (self._root / _APPS / app).read_text()
        except OSError:
            return None
        return found.rstrip("\n") if found.endswith("\n") else None

    def forget(self, app: str) -> None:
        """The app is gone."""
        (self._root / _APPS / app).unlink(missing_ok=True)

    # Clearing up

    def sweep(self, most_unused: int = MOST_UNUSED) -> list[Removed]:
        """Remove what a crash left half built, and of the environments that nobody uses all but the youngest."""
        wanted = set(map(self.remembered, self._names(_APPS)))
        unused: list[tuple[float, str]] = []
        for name in self._names():
            path = self._root / name
            if _GONE in name:
                shutil.rmtree(path, ignore_errors=True)
            elif "." in name or name == _APPS:
                continue
            elif self._description(name) is None:
                self._remove_half_built(name)
            elif name not in wanted and not self._used(name).is_held(counting_shared=True):
                with suppress(OSError):
                    unused.append(((path / _READY).stat().st_mtime, name))
        old = [name for _, name in sorted(unused, reverse=True)[most_unused:]]
        return [removed for name in old if (removed := self._remove_unused(name)) is not None]

    def _names(self, folder: str = "") -> list[str]:
        try:
            return sorted(entry.name for entry in (self._root / folder).iterdir() if not entry.name.startswith("."))
        except OSError:
            return []

    def _remove_half_built(self, key: str) -> None:
        lock = self.lock(key)
        if lock.try_acquire():
            with suppress(OSError):
                if self._description(key) is None:
                    self._discard(self._root / key)
            lock.remove()

    def _remove_unused(self, key: str) -> Removed | None:
        """Set aside under both locks, so nobody builds or uses it; deleting takes longer than they may be held."""
        building, used = self.lock(key), self._used(key)
        if not building.try_acquire():
            return None
        try:
            if not used.try_acquire():
                return None
            description = self._description(key) or {}
            gone = self._set_aside(self._root / key)
        except OSError:
            return None
        finally:
            used.remove()
            building.remove()
        shutil.rmtree(gone, ignore_errors=True)
        return Removed(key=key, file=str(description.get("kind", "")))
