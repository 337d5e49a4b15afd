"""The account of one schedule: which expected firings are published or closed, which are overdue, what may be dropped.

Decides from what was read; reading, closing and raising the floor are the store's. Instants are epoch seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from relayctl.core.definition import Firing
from relayctl.core.due import DAY_S, HORIZON, Timeline
from relayctl.core.lifecycle import Verdict

OVERDUE_AFTER_S = 60
"""How long after it is due a firing may be unaccounted for before that is an alarm."""
KEPT_FIRINGS = 128
"""The most firings of a schedule that keep a field of their own, and how many younger ones end the wait for one."""
KEPT_FOR_S = 7 * DAY_S
"""How long a field is kept, and how long an unaccounted firing is waited for."""
_LEFT_FIRINGS = 96
"""How many stay when there are more than KEPT_FIRINGS: dropping one with every new one would cost a write each."""

UNPUBLISHED_OLD = "unpublished for 7 days"
UNPUBLISHED_OVERTAKEN = "unpublished until 128 younger firings existed"
POISON = "poison"
STATE_LOST = "state lost"
_WORDS = {
    "outbox full": "a hundred younger ones waited in the outbox (outbox full)",
    "unavailable": "no live worker could run it for 24 hours (unavailable)",
    STATE_LOST: "the broker had lost its state, and nobody knew of it (state lost)",
}
_RANGE = re.compile(r"(\d+)-(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A run of expected firings, `first` and `last` included, and how many they are."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A verdict without a run, for a span of firings; `reason` is a stable code, see `reason_words`."""

    span: Span
    verdict: Verdict
    reason: str


def span_between(timeline: Timeline, after: int, until: int) -> Span | None:
    """The firings in (`after`, `until`], or None if there are none."""
    first, last = timeline.next_after(after, until), timeline.latest_between(after, until)
    if first is None or last is None:
        return None
    return Span(first=first[0], last=last[0], count=timeline.count(after, until))


@dataclass(frozen=True, slots=True)
class Recorded:
    """A published set as it was read: field to value, a field being an instant or a range of closed ones."""

    fields: Mapping[str, str]
    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Recorded:
        """Read the fields; what is neither an instant nor a range is left alone."""
        found = (_RANGE.fullmatch(name) for name in fields)
        return cls(dict(fields), tuple(sorted((int(item[1]), int(item[2])) for item in found if item)))

    def instants(self) -> list[int]:
        """The instants with a field of their own, in order."""
        return sorted(int(name) for name in self.fields if name.isdecimal())

    def range_at(self, at: int) -> tuple[int, int] | None:
        """The closed range that covers this instant."""
        return next((item for item in self.ranges if item[0] <= at <= item[1]), None)

    def value_at(self, at: int) -> str | None:
        """What is recorded of this instant: its own field, else the range over it."""
        own = self.fields.get(str(at))
        covering = None if own is not None else self.range_at(at)
        return own if covering is None else self.fields[f"{covering[0]}-{covering[1]}"]

    def ends(self) -> list[tuple[int, str]]:
        """Every field with the instant up to which it is needed, in the order in which fields may go.

        An instant with a field of its own inside a range goes after that range, which would speak for it otherwise.
        """
        found = [(last, 0, f"{first}-{last}") for first, last in self.ranges]
        for at in self.instants():
            covering = self.range_at(at)
            found.append((at if covering is None else covering[1], 1, str(at)))
        return [(until, name) for until, _, name in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What an audit found. Everything expected up to `settled_until` is published or closed, once `lost` is closed.

    `overdue` are unaccounted firings that are still waited for, `lost` those whose wait has ended, oldest first.
    """

    settled_until: int
    overdue: tuple[int, ...]
    lost: tuple[tuple[int, str], ...]


def examine(timeline: Timeline, recorded: Recorded, *, after: int, until: int, now: int) -> Examination:
    """Compare the firings expected in (`after`, `until`] with what is recorded; up to `after` all is accounted for."""
    expected = [at for at, generation in timeline.between(after, until) if _is_judged(generation.spec)]
    missing = [place for place, at in enumerate(expected) if recorded.value_at(at) is None]
    lost: list[tuple[int, str]] = []
    overdue: list[int] = []
    for place in missing:
        at = expected[place]
        if now - at >= KEPT_FOR_S:
            lost.append((at, UNPUBLISHED_OLD))
        elif len(expected) - 1 - place >= KEPT_FIRINGS:
            lost.append((at, UNPUBLISHED_OVERTAKEN))
        else:
            overdue.append(at)
    return Examination(
        settled_until=overdue[0] - 1 if overdue else max(after, until), overdue=tuple(overdue), lost=tuple(lost)
    )


def _is_judged(spec: str) -> bool:
    # Another evaluator's firings are not ours to count: what it published stands, and nothing of it is missed here.
    return Firing.from_spec(spec).is_comparable


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A floor to raise to, and the fields that lie at or below it."""

    floor: int
    dropped: tuple[str, ...]


def release(recorded: Recorded, *, floor: int | None, settled_until: int, now: int) -> Release | None:
    """What may be dropped: beyond the number or the age that is kept, and never above `settled_until`."""
    ends = recorded.ends()
    surplus = len(ends) - _LEFT_FIRINGS if len(ends) > KEPT_FIRINGS else 0
    stale = sum(1 for last, _ in ends if now - last >= KEPT_FOR_S)
    below = sum(1 for last, _ in ends if last <= settled_until)
    dropped = ends[: min(max(surplus, stale), below)]
    if not dropped:
        return None
    raised = max(dropped[-1][0], floor if floor is not None else dropped[-1][0])
    return Release(floor=raised, dropped=tuple(name for _, name in dropped))


def reason_words(reason: str) -> str:
    """A closing's reason for people; a code that is not known here is shown as it is."""
    if reason == HORIZON:
        return "it lay beyond the catch-up horizon"
    if reason == "catch_up: none":
        return "the schedule catches up nothing (catch_up: none)"
    if reason == "catch_up: all":
        return "catch_up: all takes the oldest 100 of a gap"
    if reason.startswith("catch_up: "):
        return f"only the {reason.removeprefix('catch_up: ')} of a gap is caught up ({reason})"
    if reason == POISON:
        return "its publication was refused ten times in a row, for a reason that no retry cures"
    if reason in {UNPUBLISHED_OLD, UNPUBLISHED_OVERTAKEN}:
        return f"no worker published it, and it stayed {reason}"
    return _WORDS.get(reason, reason)
