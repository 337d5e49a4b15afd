"""What sources that are fetched have in common: each revision lies whole in a directory of its own, one is in force.

How one is fetched, and which is taken, is for the kind of source to say.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, RevisionTaken
from relayctl.core.occurrence import instant_from_text, instant_text
from relayctl.errors import RelayError, os_reason
from relayctl.sources.checkouts import Checkouts, Current
from relayctl.sources.directory import DirectorySource
from relayctl.sources.source import SHOWN_DIGITS, InUse, Sighting, SourceStanding, Trouble, View

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.sources.source import Hint
    from relayctl.templates.load import Loaded

_SETTLE_EVERY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A revision that is in force: the directory of its apps, what is seen there, and what was loaded to judge it.

    An app that is as it was keeps the directory of the revision where it changed last, so nothing of it is touched.
    """

    revision: str
    root: Path
    since: datetime
    view: View
    loads: Mapping[str, Loaded] = field(default_factory=dict)


class FetchedSource(ABC):
    """`pull` and `recall` belong to one thread, `look`, `load` and `settle` to another, the rest to any."""

    mode = "pull"

    def __init__(self, folder: Path, clock: Clock, emit: Emit, only: Collection[str]) -> None:
        """`folder` in the state directory is for this place alone, and shared by the workers there."""
        self._clock = clock
        self._emit = emit
        self._only = frozenset(only)
        self._folder = folder
        self._checkouts = Checkouts(folder / "trees", clock)
        # One at a time: a pull makes directories, the reconciler lets them go.
        self._lock = threading.Lock()
        # Read by several threads, so each is replaced whole.
        self._tree: Tree | None = None
        self._seen: Tree | None = None
        self._written: Tree | None = None
        self._trouble: Trouble | None = None
        self._held: Trouble | None = None
        self._settle_at = 0.0
        self.on_hint: Hint = lambda _touched: None
        self.on_demand: Callable[[], None] = lambda: None

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is called in messages."""

    @abstractmethod
    def _fetch(self, is_over: Callable[[], bool]) -> None:
        """Ask for the newest revision and take it, where there is one; raises RelayError or OSError."""

    @abstractmethod
    def _fill(self, revision: str, directory: Path) -> None:
        """Lay out a revision that is at hand in an empty directory; raises RelayError or OSError."""

    def _root_in(self, directory: Path) -> Path:
        """Where in a revision's directory its apps lie."""
        return directory

    # What the reconciler asks

    @property
    def root(self) -> Path:
        """Where the apps lie that were looked at last; before that a place where there is nothing."""
        return self._folder / "none" if self._seen is None else self._seen.root

    @property
    def is_partial(self) -> bool:
        """Whether this worker is for some apps alone."""
        return bool(self._only)

    @property
    def only(self) -> frozenset[str] | None:
        """The apps that this worker is for; None for all that there are."""
        return self._only or None

    @property
    def standing(self) -> SourceStanding:
        """The revision in force, and why there is no newer one."""
        tree = self._tree
        return SourceStanding(
            label=self.label,
            revision="" if tree is None else self._named(tree.revision),
            since=None if tree is None else tree.since,
            trouble=self._trouble,
            held=self._held,
        )

    def is_wanted(self, name: str) -> bool:
        """Whether this worker is for that app, as far as its name says."""
        return not self._only or name in self._only

    def look(self, touched: Collection[str] | None = None) -> View:  # noqa: ARG002  a revision does not change
        """The revision in force, or why there is none."""
        # What is loaded must be what was looked at, although a newer revision may come in between.
        tree, trouble = self._tree, self._trouble
        self._seen = tree
        if tree is None:
            why = trouble or self._held
            return View(trouble=why.reason if why else "nothing of it has been fetched yet")
        return View(
            apps={
                name: replace(sighting, place=f"{self.label}/{name}")
                for name, sighting in tree.view.apps.items()
                if self.is_wanted(name)
            },
            problems=tree.view.problems,
            revision=tree.revision,
            stale=None if trouble is None else trouble.reason,
            is_settled=True,
        )

    def load(self, name: str) -> Loaded:
        """The app as it was loaded when its revision was judged, or read from there."""
        assert self._seen is not None
        known = self._seen.loads.get(name)
        return known if known is not None else DirectorySource(self._seen.root, self._clock).load(name)

    def demand(self) -> None:
        """Fetch soon."""
        self.on_demand()

    def settle(self, in_use: InUse) -> None:
        """Remove the directories of earlier revisions in which nothing lies that is in use."""
        now, tree = self._clock.monotonic(), self._tree
        if tree is None or now < self._settle_at or not self._lock.acquire(blocking=False):
            return
        try:
            self._settle_at = now + _SETTLE_EVERY_S
            used = in_use()
            if used is not None:
                seen = [sighting.directory for sighting in tree.view.apps.values()]
                self._checkouts.settle([tree.root, *seen, *used])
        except OSError:
            # What cannot be removed now may be later.
            return
        finally:
            self._lock.release()

    # What a puller does

    def recall(self) -> bool:
        """Put in force again what was taken last, without asking anybody; whether there is something."""
        current = self._checkouts.recall()
        if current is None:
            return False
        with self._lock:
            try:
                root, view = self._recalled(current)
            except (RelayError, OSError):
                return False
            since = instant_from_text(current.since) or self._clock.now()
            self._tree = self._written = Tree(revision=current.revision, root=root, since=since, view=view)
        return True

    def _recalled(self, current: Current) -> tuple[Path, View]:
        root = self._placed(current.revision)
        view = DirectorySource(root, self._clock).look()
        if view.revision == current.digest:
            return root, view
        # A machine that went down in the middle leaves files without content.
        self._checkouts.discard(current.revision)
        root = self._placed(current.revision)
        return root, DirectorySource(root, self._clock).look()

    def pull(self, is_over: Callable[[], bool]) -> bool:
        """Fetch, and take the newest revision if it can be taken; whether the place could be asked."""
        before = (self._tree, self._trouble)
        try:
            with self._lock:
                self._fetch(is_over)
                self._write_down()
            self._trouble = None
        except Exception as error:  # noqa: BLE001  a revision that nobody thought of must not end fetching
            if is_over():
                return False
            since = self._clock.now() if self._trouble is None else self._trouble.since
            self._trouble = Trouble(reason=_reason_of(error), since=since)
        if (self._tree, self._trouble) != before:
            self.on_hint(None)
        return self._trouble is None

    def _placed(self, revision: str) -> Path:
        """The directory of the apps of a revision, laid out if it is not there yet."""
        return self._root_in(self._checkouts.place(revision, lambda directory: self._fill(revision, directory)))

    def _judged(self, revision: str) -> Tree:
        """A revision that is laid out, with all of its apps loaded that are not as they are in force."""
        before, root = self._tree, self._placed(revision)
        source = DirectorySource(root, self._clock)
        view = source.look()
        sightings = _kept_sightings({} if before is None else before.view.apps, view.apps)
        fresh = [name for name, sighting in view.apps.items() if sightings[name] is sighting]
        loads = {name: source.load(name) for name in fresh}
        now = self._clock.now().replace(microsecond=0)
        shown = View(apps=sightings, problems=view.problems, revision=view.revision, trouble=view.trouble)
        return Tree(revision=revision, root=root, since=now, view=shown, loads=loads)

    def _named(self, revision: str) -> str:
        """What a revision is called where people read of it."""
        return revision[:SHOWN_DIGITS]

    def _put_in_force(self, tree: Tree, name: Callable[[str], str] | None = None) -> None:
        """From now on it is this. `name` says what revisions are called, where that depends on what was before."""
        name = name or self._named
        before, self._tree = self._tree, tree
        self._emit(
            RevisionTaken(
                source=self.label,
                revision=name(tree.revision),
                was="" if before is None else name(before.revision),
                apps=len(tree.view.apps),
            )
        )

    def _write_down(self) -> None:
        """Note what is in force, for a start without the place. What the disk refuses the next pull tries again."""
        tree = self._tree
        if tree is not None and tree is not self._written:
            self._note_down(tree)
            self._written = tree

    def _note_down(self, tree: Tree) -> None:
        since = instant_text(tree.since)
        self._checkouts.remember(Current(revision=tree.revision, digest=tree.view.revision, since=since))


def _reason_of(error: Exception) -> str:
    if isinstance(error, RelayError):
        return error.message
    if isinstance(error, OSError):
        return f"the state directory: {os_reason(error)}"
    return f"{type(error).__name__}: {error}"


def _kept_sightings(before: Mapping[str, Sighting], found: Mapping[str, Sighting]) -> dict[str, Sighting]:
    """What is found, with the directory that it had where an app is as it was."""
    kept = dict(found)
    for name, sighting in before.items():
        if name in kept and kept[name].digest == sighting.digest and sighting.directory.is_dir():
            kept[name] = sighting
    return kept


def errors_of(tree: Tree) -> list[str]:
    """What keeps a revision from being sound, in order: `place code message`, the place relative to its apps."""
    problems = [*tree.view.problems, *(problem for loaded in tree.loads.values() for problem in loaded.problems)]
    found = [(problem, Path(problem.place.file)) for problem in problems if problem.is_error]
    if tree.view.trouble is not None:
        return [tree.view.trouble]
    return [
        f"{_shown(file, tree.root)}:{problem.place.line} {problem.code} {problem.message}" for problem, file in found
    ]


def _shown(file: Path, root: Path) -> str:
    return (file.relative_to(root) if file.is_relative_to(root) else file).as_posix()


def first_of(errors: Iterable[str]) -> str:
    """The first of them, and how many there are besides."""
    first, *others = errors
    return f"{first} (and {len(others)} more)" if others else first
