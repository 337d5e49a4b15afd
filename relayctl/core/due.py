"""Which firings a pass takes: all of a short gap, what the catch-up policy says of a long one.

A gap of up to a minute is lateness, whatever caused it. A longer one goes through the schedule's `catch_up`. Firings
belong to the definitions that were in force at those instants, so a new definition owes nothing from before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from relayctl.core.definition import Firing, Generation
from relayctl.core.forecast import count_runs
from relayctl.core.model import CatchUp

LATENESS_S = 60
"""The longest gap, in seconds, that counts as lateness."""
MOST_AT_ONCE = 100
"""The most firings of one schedule that one pass takes, and the most that `catch_up: all` recovers."""
DAY_S = 86_400
HORIZON = "horizon"
"""Why a firing is passed over that lies further back than catch-up reaches; else it is `catch_up: <policy>`."""

FiringOf = tuple[int, Generation]
"""An instant in epoch seconds, and the generation in force at it."""


class Timeline:
    """The definitions of one schedule that may still owe firings, oldest first, the head last."""

    __slots__ = ("_parts",)

    def __init__(self, generations: Sequence[Generation]) -> None:
        # By number: of a restored registry the head may reach further back than one that it has replaced.
        ordered = sorted(generations, key=lambda item: item.gen)
        self._parts = tuple((generation, Firing.from_spec(generation.spec)) for generation in ordered)

    @property
    def generations(self) -> tuple[Generation, ...]:
        """The definitions, oldest first."""
        return tuple(generation for generation, _ in self._parts)

    @property
    def is_comparable(self) -> bool:
        """Whether this worker's evaluator and zone data are those of the head."""
        return self._parts[-1][1].is_comparable

    def next_after(self, at: int, until: int | None = None) -> FiringOf | None:
        """The first firing after `at` (and not after `until`)."""
        for generation, firing in self._parts:
            following = generation.next_owed(at, until, firing)
            if following is not None:
                return following, generation
        return None

    def between(self, after: int, until: int | None = None) -> Iterator[FiringOf]:
        """The firings in (`after`, `until`], oldest first."""
        for generation, firing in self._parts:
            for at in generation.owes(after, until, firing):
                yield at, generation

    def latest_between(self, after: int, until: int) -> FiringOf | None:
        """The last firing in (`after`, `until`]."""
        for generation, firing in reversed(self._parts):
            at = generation.latest_owed(after, until, firing)
            if at is not None:
                return at, generation
        return None

    def count(self, after: int, until: int) -> int:
        """How many firings are in (`after`, `until`], without going through them one by one."""
        found = 0
        for generation, firing in self._parts:
            first, last = generation.clipped(after, until)
            if firing.trigger is not None and first < last:
                found += count_runs(firing.trigger, first, last)
        return found

    def judged(self) -> tuple[Timeline, ...]:
        """The runs of neighbouring definitions that rest on this evaluator and zone data: the others' firings are not
        known here."""
        runs = groupby(self._parts, lambda part: part[1].is_comparable)
        return tuple(Timeline([generation for generation, _ in run]) for is_ours, run in runs if is_ours)

    def since(self, at: int) -> Timeline:
        """Without the definitions that ended at or before this instant."""
        kept = [item for item in self.generations if item.to_ms is None or item.to_ms > at * 1000]
        return self if len(kept) == len(self._parts) else Timeline(kept or self.generations[-1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a pass takes. `cursor` is where the schedule stands once all of `firings` are published.

    `passed_over` are the ranges of firings, both ends included, that the policy or the horizon leaves out, and
    `passed_because` says for each of them which of the two it was.
    """

    firings: tuple[FiringOf, ...]
    cursor: int
    is_catch_up: bool = False
    passed_over: tuple[tuple[int, int], ...] = ()
    passed_because: tuple[str, ...] = ()


def due_firings(
    timeline: Timeline,
    cursor: int,
    now: int,
    policy: CatchUp,
    horizon: int = DAY_S,
    *,
    until: int | None = None,
    spread: int = 0,
) -> Due:
    """The firings in (`cursor`, `now`] that a pass takes; all in epoch seconds, `horizon` in seconds.

    With jitter `until` is the last second up to which they are due, and `spread` says how many seconds after its
    instant the first of them was.
    """
    until = now if until is None else until
    owed = timeline.between(cursor, until)
    first = next(owed, None)
    if first is None:
        return Due(firings=(), cursor=max(cursor, until))
    if now - first[0] - spread <= LATENESS_S:
        return _late(first, owed, until)
    # The edge of the horizon belongs to it.
    edge = min(until, max(cursor, now - horizon - 1))
    chosen = _chosen(timeline, edge, until, policy)
    # What is chosen is always one run of neighbours, so what is not lies before and after it.
    around = ((edge, chosen[0][0] - 1), (chosen[-1][0], until)) if chosen else ((edge, until),)
    spans = [(HORIZON, (cursor, edge)), *((f"catch_up: {policy.value}", span) for span in around)]
    ranges = [(reason, _range(timeline, after, until)) for reason, (after, until) in spans]
    passed = [(reason, found) for reason, found in ranges if found is not None]
    return Due(
        firings=chosen,
        cursor=until,
        is_catch_up=True,
        passed_over=tuple(found for _, found in passed),
        passed_because=tuple(reason for reason, _ in passed),
    )


def _range(timeline: Timeline, after: int, until: int) -> tuple[int, int] | None:
    first, last = timeline.next_after(after, until), timeline.latest_between(after, until)
    return None if first is None or last is None else (first[0], last[0])


def _late(first: FiringOf, others: Iterator[FiringOf], now: int) -> Due:
    firings = [first]
    for firing in others:
        if len(firings) == MOST_AT_ONCE:
            return Due(firings=tuple(firings), cursor=firings[-1][0])
        firings.append(firing)
    return Due(firings=tuple(firings), cursor=now)


def _chosen(timeline: Timeline, after: int, now: int, policy: CatchUp) -> tuple[FiringOf, ...]:
    match policy:
        case CatchUp.LATEST:
            latest = timeline.latest_between(after, now)
            return () if latest is None else (latest,)
        case CatchUp.OLDEST:
            oldest = timeline.next_after(after, now)
            return () if oldest is None else (oldest,)
        case CatchUp.ALL:
            return tuple(firing for firing, _ in zip(timeline.between(after, now), range(MOST_AT_ONCE), strict=False))
        case CatchUp.NONE:
            return ()
