"""What operators do to a schedule: pause it, resume it, run it by hand. One script each.

What a pause covered is computed here from the definitions in force; whether a name exists is the caller's to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Any

from relayctl.core.account import Recorded, Span, span_between
from relayctl.core.due import Timeline
from relayctl.core.lifecycle import Verdict
from relayctl.core.occurrence import from_epoch, instant_text
from relayctl.core.record import RECORD_VERSION
from relayctl.errors import BrokerRefused
from relayctl.store.definitions import Definitions, Head
from relayctl.store.failure import translate
from relayctl.store.invocations import offered
from relayctl.store.scripts import Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.core.manual import ManualRun
    from relayctl.store.keys import Keys

MANUAL_KEPT_MS = 24 * 3600 * 1000
"""How long the key of a manual run keeps a second one from happening."""
OPEN_REASON = "still open when its pause was resumed"
_MOST_TRIES = 5


class ControlVerdict(Enum):
    """What became of an operator's demand."""

    PAUSED = "paused"
    KEPT = "kept"  # it was paused before, and its beginning stays
    RESUMED = "resumed"
    RUNNING = "running"  # there was no pause to end
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"  # the same key was used before
    UNKNOWN = "unknown"
    FOREIGN = "foreign"  # its definition rests on another evaluator or other zone data: what a pause covered is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeAnswer:
    """How a pause ended: what it covered, and what had stood open before it; each may be nothing."""

    verdict: ControlVerdict
    paused: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What an operator did to a schedule, for the worker that tells of it; `action` is pause or resume."""

    action: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Closings:
    """What a resume closes, as the script takes it, with the counts by verdict."""

    items: tuple[dict[str, Any], ...] = ()
    floor: int | None = None
    paused: int = 0
    missed: int = 0


class Controls:
    """Operations of an operator over one client. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys, wants_verdicts: Callable[[], bool] = lambda: False) -> None:
        """`wants_verdicts` says whether a live worker has a rule for verdicts, so that they are offered as events."""
        self._wants_verdicts = wants_verdicts
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)
        self._definitions = Definitions(client, keys)

    def pause(
        self, app: str, schedule: str, *, until: int | None, by: str, reason: str, now_ms: int | None = None
    ) -> tuple[ControlVerdict, int | None]:
        """Pause from the next whole second on, until that epoch second if any; the pause's beginning with it."""
        keys = [self._keys.schedule(app, schedule), self._keys.definitions_seq, self._keys.definitions_log]
        args = ["" if until is None else until, by, reason, f"{app}/{schedule}", self._scripts.instant(now_ms)]
        for _ in range(_MOST_TRIES):
            with translate():
                answer = self._scripts.run("pause", keys, args)
            if answer[0] != "over":
                return ControlVerdict(answer[0]), int(answer[1]) if len(answer) > 1 else None
            ended = self.resume(app, schedule, by=by, only_ended=True, now_ms=now_ms)
            if ended.verdict is ControlVerdict.FOREIGN:
                return ended.verdict, None
        raise BrokerRefused(f"the pause of {app}/{schedule} keeps changing", help="try again")

    def resume(
        self, app: str, schedule: str, *, by: str, only_ended: bool = False, now_ms: int | None = None
    ) -> ResumeAnswer:
        """End the pause; with `only_ended` only where its own end has passed, as of which it is then closed."""
        for _ in range(_MOST_TRIES):
            head = self._definitions.heads([(app, schedule)]).get((app, schedule))
            if head is None:
                return ResumeAnswer(verdict=ControlVerdict.UNKNOWN)
            now = self._now_s(now_ms)
            has_ended = head.paused_until is not None and head.paused_until <= now
            if head.paused_at is None or (only_ended and not has_ended):
                return ResumeAnswer(verdict=ControlVerdict.RUNNING)
            end = head.paused_until - 1 if has_ended and head.paused_until is not None else now
            timeline = Timeline(self._definitions.generations(app, schedule))
            if not timeline.is_comparable:
                return ResumeAnswer(verdict=ControlVerdict.FOREIGN)
            closings = self._closings(head, timeline, end, by)
            verdict = self._resume(head, closings, by, "its time was over" if only_ended else "", now_ms)
            if verdict is not None:
                return ResumeAnswer(verdict=verdict, paused=closings.paused, missed=closings.missed)
        raise BrokerRefused(f"the pause of {app}/{schedule} keeps changing", help="try again")

    def trigger(self, run: ManualRun, extra: Sequence[str] = ()) -> tuple[ControlVerdict, str]:
        """Start a manual run, or find the one of this key; the message of it."""
        keys = [
            self._keys.manual(run.app, run.schedule, run.key),
            self._keys.events,
            self._keys.schedule(run.app, run.schedule),
        ]
        with translate():
            answer = self._scripts.run("trigger", keys, [run.to_envelope(), MANUAL_KEPT_MS, *extra])
        return ControlVerdict(answer[0]), answer[1] if len(answer) > 1 else ""

    def take_untold(self, app: str, schedule: str) -> list[Act]:
        """The acts on this schedule that no worker has told of, oldest first: they are the caller's to tell."""
        with translate():
            text = self._scripts.run("tell", [self._keys.schedule(app, schedule)], [])
        return [Act(action=item["action"], by=item["by"], reason=item["reason"]) for item in json.loads(text or "[]")]

    def refused(self, app: str, schedule: str, reason: str, token: str) -> int:
        """Count a publication that no retry can cure; how many there were in a row. The token is used once."""
        return self._refuse(app, schedule, reason or "refused", token)

    def forget_refusals(self, app: str, schedule: str) -> None:
        """Begin the count of refused publications anew."""
        self._refuse(app, schedule, "", "")

    def _refuse(self, app: str, schedule: str, reason: str, token: str) -> int:
        with translate():
            return int(self._scripts.run("refuse", [self._keys.schedule(app, schedule)], [reason, token]))

    def _now_s(self, now_ms: int | None) -> int:
        if now_ms is not None:
            return now_ms // 1000
        with translate():
            seconds, _ = self._client.time()
        return int(seconds)

    def _resume(
        self, head: Head, closings: _Closings, by: str, reason: str, now_ms: int | None
    ) -> ControlVerdict | None:
        """None where the pause is another one by now."""
        keys, app, schedule = self._keys, head.app, head.schedule
        with translate():
            answer = self._scripts.run(
                "resume",
                [
                    keys.schedule(app, schedule),
                    keys.published(app, schedule),
                    keys.history_of_schedule(app, schedule),
                    keys.definitions_seq,
                    keys.definitions_log,
                    keys.events,
                ],
                [
                    "" if head.paused_at is None else head.paused_at,
                    "" if head.paused_until is None else head.paused_until,
                    "" if closings.floor is None else closings.floor,
                    f"{app}/{schedule}",
                    app,
                    schedule,
                    json.dumps(closings.items),
                    by,
                    reason,
                    self._scripts.instant(now_ms),
                ],
            )
        return None if answer[0] == "moved" else ControlVerdict(answer[0])

    def _closings(self, head: Head, timeline: Timeline, end: int, by: str) -> _Closings:
        """What a pause that ends at `end` (epoch seconds, included) closes: up to its beginning as missed.

        The firings of a definition that rests on another evaluator or other zone data are nobody's to count here.
        """
        beginning = head.paused_at
        if beginning is None or beginning > end:
            # It never came into force.
            return _Closings()
        with translate():
            fields: Any = self._client.hgetall(self._keys.published(head.app, head.schedule))
        recorded = Recorded.of(fields)
        parts = timeline.judged()
        covered = tuple(span for part in parts for span in _open_spans(part, recorded, beginning - 1, end))
        earlier = tuple(span for part in parts for span in _missing(part, recorded, head.floor, beginning - 1))
        reason, offer = head.pause_reason or "paused", offered(self._wants_verdicts)
        return _Closings(
            items=(
                *(_item(span, Verdict.MISSED, OPEN_REASON, end, by, offer) for span in earlier),
                *(_item(span, Verdict.PAUSED, reason, end, by, offer) for span in covered),
            ),
            floor=end,
            paused=sum(span.count for span in covered),
            missed=sum(span.count for span in earlier),
        )


def _open_spans(timeline: Timeline, recorded: Recorded, after: int, until: int) -> list[Span]:
    """The firings in (`after`, `until`] that have no state of their own, around the ranges that are closed already.

    A range is one field whatever its length, so nothing here goes through the firings of a long pause one by one.
    """
    found: list[Span] = []
    cursor = after
    for first, last in [*(item for item in recorded.ranges if item[1] > after and item[0] <= until), (until + 1,) * 2]:
        span = span_between(timeline, cursor, first - 1) if first - 1 > cursor else None
        if span is not None:
            own = sum(1 for at in recorded.instants() if span.first <= at <= span.last)
            if span.count > own:
                found.append(Span(first=span.first, last=span.last, count=span.count - own))
        cursor = max(cursor, last)
    return found


def _missing(timeline: Timeline, recorded: Recorded, floor: int | None, until: int) -> list[Span]:
    """The firings above the floor and not after `until` that nobody published or closed, as runs."""
    after = floor if floor is not None else -(1 << 62)
    expected = (at for at, _ in timeline.between(after, until))
    runs = [list(run) for is_open, run in groupby(expected, lambda at: recorded.value_at(at) is None) if is_open]
    return [Span(first=run[0], last=run[-1], count=len(run)) for run in runs]


def _item(span: Span, verdict: Verdict, reason: str, closed_at: int, by: str, offer: tuple[str, ...]) -> dict[str, Any]:
    first, last = instant_text(from_epoch(span.first)), instant_text(from_epoch(span.last))
    is_range = span.first != span.last
    record = (
        *("v", str(RECORD_VERSION), "kind", "schedule", "scheduled_at", last),
        *(("from", first, "count", str(span.count)) if is_range else ()),
        *("finished", str(closed_at * 1000), "verdict", verdict.value, "reason", reason, "worker", by),
        *offer,
    )
    return {
        "field": f"{span.first}-{span.last}" if is_range else str(span.first),
        "last": str(span.last),
        "value": f"c|{verdict.value}|{reason}",
        "record": record,
    }
