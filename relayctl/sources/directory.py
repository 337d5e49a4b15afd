"""A directory of apps as a source of desired state: what is there now, by content. Watching it is only a hint.

It keeps nothing running and removes nothing: it says what it sees, and whether it can see at all.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.sources.source import SHOWN_DIGITS, InUse, Sighting, SourceStanding, Trouble, View
from relayctl.templates.find import AppDirectory, FileHashes, app_digest, digest_of, find_apps
from relayctl.templates.load import Loaded, load_app

if TYPE_CHECKING:
    from relayctl.host.clock import Clock


class DirectorySource:
    """Looks at one directory. Used by one thread."""

    def __init__(self, root: Path, clock: Clock, *, only: Collection[str] = ()) -> None:
        """`only` are the apps that this worker is for; empty means all."""
        self.root = root
        self._clock = clock
        self._only = frozenset(only)
        self._hashes = FileHashes()
        self._digests: dict[str, tuple[Path, str]] = {}
        self._revision = ""
        self._since: datetime | None = None
        self._trouble: Trouble | None = None

    mode = "pull"

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"directory {self.root}"

    @property
    def standing(self) -> SourceStanding:
        """How it stood at the last look."""
        return SourceStanding(
            label=self.label, revision=self._revision[:SHOWN_DIGITS], since=self._since, trouble=self._trouble
        )

    @property
    def is_partial(self) -> bool:
        """Whether apps are left out on purpose, so that their absence here says nothing about the fleet."""
        return bool(self._only)

    def look(self, touched: Collection[str] | None = None) -> View:
        """What is there. With `touched`, only those apps (and unknown ones) are hashed again."""
        tree = find_apps(self.root)
        if tree.trouble is not None:
            if self._trouble is None or self._trouble.reason != tree.trouble:
                self._trouble = Trouble(reason=tree.trouble, since=self._clock.now())
            return View(trouble=tree.trouble)
        self._trouble = None
        apps: dict[str, Sighting] = {
            app.name: Sighting(directory=app.real, digest=self._digest(app, touched))
            for app in tree.apps
            if self.is_wanted(app.name)
        }
        for name in self._digests.keys() - apps.keys():
            self._hashes.forget(self._digests.pop(name)[0])
        revision = digest_of("\n".join(f"{name} {apps[name].digest}" for name in sorted(apps)).encode())
        if revision != self._revision:
            self._revision, self._since = revision, self._clock.now()
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

    def demand(self) -> None:
        """Nothing to ask: every look is at what lies there."""

    def settle(self, in_use: InUse) -> None:
        """Nothing to let go: the directory is somebody else's."""

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
