"""A git repository as a source: the newest commit of a ref that validates.

A commit with any error is held as a whole: what was in force before stays, until a commit comes that is sound.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, RevisionHeld
from relayctl.errors import FileFailure, SourceUnavailable
from relayctl.host.cycle.exclusive import Exclusive, Outcome
from relayctl.host.cycle.loop import SPREAD
from relayctl.host.cycle.stamp import Stamp, is_due, remaining
from relayctl.sources.fetched import FetchedSource, errors_of, first_of
from relayctl.sources.gitplace import GitPlace
from relayctl.sources.gitrepo import GitRepository, NoFolder
from relayctl.sources.source import SourceStanding, Trouble

if TYPE_CHECKING:
    from datetime import timedelta

    from relayctl.host.clock import Clock
    from relayctl.host.cycle.exclusive import Ending
    from relayctl.host.cycle.stamp import LastRun
    from relayctl.sources.gitcommand import GitCommand

_MOST_TRIED_BACK = 10
_PEER_WITHIN_S = 300.0
_PEER_POLL_S = 0.2
_TOLD_AFTER_S = 5.0


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
        interval: timedelta | None = None,
        only: Collection[str] = (),
    ) -> None:
        """As `FetchedSource`. Workers that share the folder share what is fetched, once in each `interval`."""
        super().__init__(folder, clock, emit, only)
        self._place = place
        self._git = git
        self._repository = GitRepository(folder / "repo.git", place, git)
        self._interval = interval
        self._cycle = Exclusive(folder, clock, command="relayctl serve", gate=lambda: not git.is_over())
        self._stamp = Stamp(folder / "last-fetch.json", clock)
        self._heard: LastRun | None = None
        self._is_demanded = False
        self._refused = ""

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return self._place.label

    @property
    def standing(self) -> SourceStanding:
        """As every source, and who has been fetching for a while."""
        return replace(super().standing, busy=self._busy())

    def _busy(self) -> str:
        # It is for people, and costs no answer where the disk is in trouble.
        with suppress(FileFailure):
            holder = self._cycle.holder()
            if holder is not None and (self._clock.now() - holder.since_at).total_seconds() >= _TOLD_AFTER_S:
                return holder.words
        return ""

    def _fill(self, revision: str, directory: Path) -> None:
        self._repository.check_out(revision, directory)

    def recall(self) -> bool:
        """As every source. What was fetched before is no news then."""
        self._heard = self._stamp.last()
        return super().recall()

    def demand(self) -> None:
        """Fetch soon, whatever was fetched before."""
        self._is_demanded = True
        super().demand()

    def has_news(self) -> bool:
        """Whether a peer on this state directory has fetched since this one looked."""
        last = self._stamp.last()
        return last is not None and last.is_ok and last != self._heard

    def first_s(self) -> float:
        """How long a start may wait with its first fetch, since one was made before it; without an interval, not."""
        if self._interval is None:
            return 0.0
        now = self._clock.now()
        return remaining(self._stamp.last(), self._interval, now).total_seconds()

    def _fetch(self, is_over: Callable[[], bool]) -> None:
        self._git.is_over = is_over
        is_demand, self._is_demanded = self._is_demanded or self._tree is None, False
        if is_demand:
            ending = self._cycle.run(self._ask)
        elif self._is_due():
            ending = self._cycle.run_or_skip(self._ask)
        else:
            ending = self._cycle.visit(self._catch_up)
        if ending.outcome in {Outcome.QUEUED, Outcome.DISCARDED}:
            ending = self._await_peer(is_over)
        if ending.outcome is Outcome.GATED:
            raise SourceUnavailable("the worker is stopping")
        if ending.error is not None:
            raise ending.error
        if ending.outcome is Outcome.SKIPPED and self._trouble is not None:
            # Nobody has heard yet whether it can be asked again.
            raise SourceUnavailable(self._trouble.reason)

    def _is_due(self) -> bool:
        if self._interval is None:
            return not self.has_news()
        # A peer may have asked a moment ago. Its own last time never is as close, whatever the spread.
        interval = self._interval * (1 - 2 * SPREAD)
        return is_due(self._stamp.last(), interval, self._clock.now())

    def _await_peer(self, is_over: Callable[[], bool]) -> Ending:
        """Wait until the demand was served. If whoever was at work has died or left, that is done here."""
        until, never = self._clock.monotonic() + _PEER_WITHIN_S, threading.Event()
        while (ending := self._cycle.visit(self._catch_up)).outcome is Outcome.SKIPPED:
            if is_over():
                raise SourceUnavailable("the worker is stopping")
            if self._clock.monotonic() > until:
                holder = self._cycle.holder()
                who = "another process" if holder is None else holder.words
                raise SourceUnavailable(f"{who} fetches it and does not end")
            self._clock.wait(never, _PEER_POLL_S)
        return ending

    def _ask(self, _number: int) -> None:
        try:
            commit = self._repository.fetch()
        except SourceUnavailable:
            if not self._git.is_over():
                self._note(is_ok=False)
            raise
        self._note(is_ok=True)
        self._consider(commit)

    def _catch_up(self, number: int) -> None:
        """Take what a peer has fetched; for the demands of others, ask."""
        if number:
            self._ask(number)
            return
        last = self._stamp.last()
        if last is not None and not last.is_ok:
            raise SourceUnavailable("a process that shares this state directory could not fetch it")
        commit = self._repository.head()
        if commit is not None:
            self._consider(commit)
        self._heard = last

    def _note(self, *, is_ok: bool) -> None:
        # A full disk costs a fetch too many, and no commit.
        with suppress(OSError):
            self._heard = self._stamp.record(is_ok=is_ok)

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
        except NoFolder as error:
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
