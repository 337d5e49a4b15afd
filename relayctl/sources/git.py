"""A git repository as a source: the newest commit of a ref that validates.

A commit with any error is held as a whole: what was in force before stays, until a commit comes that is sound.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, RevisionHeld
from relayctl.errors import SourceUnavailable
from relayctl.host.lock import FileLock
from relayctl.sources.fetched import FetchedSource, errors_of, first_of
from relayctl.sources.gitplace import GitPlace
from relayctl.sources.gitrepo import GitRepository
from relayctl.sources.source import Trouble

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.sources.gitcommand import GitCommand

_MOST_TRIED_BACK = 10
_LOCK_WITHIN_S = 300.0
_LOCK_POLL_S = 0.2


class GitSource(FetchedSource):
    """Follows one ref of one repository."""

    def __init__(
        self,
        place: GitPlace,
        folder: Path,
        git: GitCommand,
        clock: Clock,
        emit: Emit,
        *,
        only: Collection[str] = (),
    ) -> None:
        """As `FetchedSource`."""
        super().__init__(folder, clock, emit, only)
        self._place = place
        self._git = git
        self._repository = GitRepository(folder / "repo.git", place, git)
        self._fetching = FileLock(folder / "fetch.lock", clock)
        self._refused = ""

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return self._place.label

    def _fill(self, revision: str, directory: Path) -> None:
        self._repository.check_out(revision, directory)

    def _fetch(self, is_over: Callable[[], bool]) -> None:
        self._git.is_over = is_over
        with self._alone(is_over):
            self._consider(self._repository.fetch())

    def _alone(self, is_over: Callable[[], bool]) -> FileLock:
        """The lock of this folder's repository, once it is free: a peer on this state directory may be fetching."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        until, never = self._clock.monotonic() + _LOCK_WITHIN_S, threading.Event()
        while self._fetching.is_held():
            if is_over() or self._clock.monotonic() > until:
                raise SourceUnavailable(f"another process fetches it and does not end ({self._fetching.path})")
            self._clock.wait(never, _LOCK_POLL_S)
        return self._fetching

    def _consider(self, commit: str) -> None:
        if self._tree is not None and commit == self._tree.revision:
            self._held, self._refused = None, ""
        elif commit != self._refused:
            if self._take(commit):
                self._held, self._refused = None, ""
                return
            self._refused = commit
            if self._tree is None:
                self._take_an_older_one()

    def _take_an_older_one(self) -> None:
        """At a first start on an unsound commit: its predecessors are what workers run that came before."""
        with suppress(SourceUnavailable):
            self._repository.fetch(depth=_MOST_TRIED_BACK + 1)
            for ancestor in self._repository.ancestors(_MOST_TRIED_BACK):
                if self._take(ancestor, is_told=False):
                    return

    def _take(self, commit: str, *, is_told: bool = True) -> bool:
        """Put a commit in force if it is sound."""
        try:
            tree = self._judged(commit)
            errors = errors_of(tree)
        except SourceUnavailable as error:
            tree, errors = None, [error.message]
        if tree is not None and not errors:
            self._put_in_force(tree)
            return True
        if is_told:
            self._hold(commit, errors)
        return False

    def _hold(self, commit: str, errors: list[str]) -> None:
        reason = f"commit {self._named(commit)} does not validate and is held: {first_of(errors)}"
        self._held = Trouble(reason=reason, since=self._clock.now())
        self._emit(
            RevisionHeld(
                source=self.label,
                revision=self._named(commit),
                problem=errors[0],
                problems=len(errors),
                in_force="" if self._tree is None else self._named(self._tree.revision),
            )
        )
