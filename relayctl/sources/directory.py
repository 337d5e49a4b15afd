"""A directory of apps as a source of desired state: what is there now, by content. Watching it is only a hint.

It keeps nothing running and removes nothing: it says what it sees, and whether it can see at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.problem import Problem
from relayctl.templates.find import AppDirectory, FileHashes, app_digest, digest_of, find_apps
from relayctl.templates.load import Loaded, load_app

if TYPE_CHECKING:
    from relayctl.host.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One app as it lies there: its directory with links resolved, and the digest of its files."""

    directory: Path
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The tree at one moment. With `trouble` it could not be read, and the absence of an app means nothing.

    `is_busy` says that a checkout is going on in it. `revision` is the digest of all its apps.
    """

    apps: Mapping[str, Sighting] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    revision: str = ""
    trouble: str | None = None
    is_busy: bool = False


class DirectorySource:
    """Looks at one directory. Used by one thread."""

    def __init__(self, root: Path, clock: Clock, *, only: Collection[str] = ()) -> None:
        """`only` are the apps that this worker is for; empty means all."""
        self.root = root
        self._clock = clock
        self._only = frozenset(only)
        self._hashes = FileHashes()
        self._digests: dict[str, tuple[Path, str]] = {}

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"directory {self.root}"

    @property
    def is_partial(self) -> bool:
        """Whether apps are left out on purpose, so that their absence here says nothing about the fleet."""
        return bool(self._only)

    def look(self, touched: Collection[str] | None = None) -> View:
        """What is there. With `touched`, only those apps (and unknown ones) are hashed again."""
        tree = find_apps(self.root)
        if tree.trouble is not None:
            return View(trouble=tree.trouble)
        apps: dict[str, Sighting] = {
            app.name: Sighting(directory=app.real, digest=self._digest(app, touched))
            for app in tree.apps
            if self.is_wanted(app.name)
        }
        for name in self._digests.keys() - apps.keys():
            self._hashes.forget(self._digests.pop(name)[0])
        revision = digest_of("\n".join(f"{name} {apps[name].digest}" for name in sorted(apps)).encode())
        return View(apps=apps, problems=tree.problems, revision=revision, is_busy=self._is_busy())

    def load(self, name: str) -> Loaded:
        """Read and check one app; with its text, for whoever keeps what was good."""
        now = self._clock.now()
        return load_app(self.root / name, root=self.root, now=now, hashes=self._hashes, with_text=True)

    @property
    def only(self) -> frozenset[str] | None:
        """The apps that this worker is for; None for all that there are."""
        return self._only or None

    def is_wanted(self, name: str) -> bool:
        """Whether this worker is for that app, as far as its name says."""
        return not self._only or name in self._only

    def _digest(self, app: AppDirectory, touched: Collection[str] | None) -> str:
        known = self._digests.get(app.name)
        if known is not None and known[0] == app.real and touched is not None and app.name not in touched:
            return known[1]
        digest = app_digest(app.real, self._hashes)
        self._digests[app.name] = (app.real, digest)
        return digest

    def _is_busy(self) -> bool:
        """Whether git is writing into the tree: its index is locked in the root or in a directory above."""
        real = self.root.resolve()
        return any((folder / ".git" / "index.lock").exists() for folder in (real, *real.parents))
