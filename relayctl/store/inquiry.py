"""What an operator asks of the account: how firings ended, and what became of one of them. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING

from relayctl.core.definition import Firing
from relayctl.core.due import Timeline
from relayctl.core.duration import DurationError, parse_duration
from relayctl.core.forecast import zone_of
from relayctl.core.lifecycle import Slot
from relayctl.core.occurrence import epoch_seconds, from_epoch
from relayctl.core.verdict import Evidence, Judgement, judge
from relayctl.errors import UsageError
from relayctl.store.definitions import Definitions
from relayctl.store.failure import translate
from relayctl.store.fleet import LIVE_MS, Fleet
from relayctl.store.history import History
from relayctl.store.lookup import Lookup
from relayctl.store.moves import Moves
from relayctl.store.unfinished import Unfinished

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from relayctl.core.definition import Generation
    from relayctl.core.record import Record
    from relayctl.core.underway import Underway
    from relayctl.store.definitions import Name
    from relayctl.store.keys import Keys

MOST_JUDGED = 24
"""How many firings of a day are judged; of the rest only the number is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The records asked for, the newest first. `zone` is that of the schedule.

    `newer` counts those that a newer relayctl wrote, which are left out.
    """

    app: str
    name: str
    is_schedule: bool
    zone: tzinfo
    records: Sequence[Record]
    now: datetime
    """The broker's time at which this was looked at."""
    unfinished: Sequence[Underway] = ()
    """The runs that have not ended, at most as many as records were asked for, the newest first."""
    newer: int = 0
    moved_from: Sequence[Name] = ()
    """Former names, whose records are among these."""
    moved_to: Name | None = None
    """The name under which it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The firings asked for, judged at `now`; `more` counts those of the same day that were not."""

    now: datetime
    zone: tzinfo
    firings: Sequence[Judgement]
    more: int = 0
    moved_to: Name | None = None
    """The name that the schedule has by now, whose account this is."""


class Inquiry:
    """Over one client. Raises UnknownTarget, UsageError, BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._definitions = Definitions(client, keys)
        self._moves = Moves(client, keys)
        self._history = History(client, keys)
        self._fleet = Fleet(client, keys)
        self._lookup = Lookup(client, keys)
        self._unfinished = Unfinished(client, keys)

    def past(self, app: str, name: str, *, limit: int, failed_only: bool) -> Past:
        """The newest records of a schedule or of an event handler, and what has not ended yet.

        `failed_only` leaves out what succeeded and what runs or waits for its first attempt.
        """
        found = self._lookup.any(app, name)

        def is_wanted(record: Record) -> bool:
            return not failed_only or record.verdict != "succeeded"

        newer = self._history.newer(app, name, is_schedule=found.is_schedule)
        # First what has not ended: what ends meanwhile is in one of the two.
        slots = (Slot.of_schedule(name), Slot.of_manual(name)) if found.is_schedule else (Slot(name),)
        unfinished = [
            run for run in self._unfinished.of(app, slots, limit=limit) if not failed_only or run.state == "retrying"
        ]
        now = self._now()
        if not found.is_schedule:
            records = self._history.of_handler(app, name, limit=limit, wanted=is_wanted)
            return Past(
                app=app,
                name=name,
                is_schedule=False,
                zone=UTC,
                records=records,
                now=now,
                unfinished=_without(unfinished, records),
                newer=newer,
            )
        head = self._definitions.heads([(app, name)]).get((app, name))
        former = () if head is None else head.moved_from
        records = self._history.of_schedule(app, name, limit=limit, wanted=is_wanted, former=former)
        return Past(
            app=app,
            name=name,
            is_schedule=True,
            zone=self.zone(app, name),
            records=records,
            now=now,
            unfinished=_without(unfinished, records),
            newer=newer,
            moved_from=former,
            moved_to=self._moves.homes([(app, name)]).get((app, name)),
        )

    def zone(self, app: str, schedule: str) -> tzinfo:
        """The zone of a schedule's newest definition that fires."""
        return _zone(self._definitions.generations(app, schedule))

    def fate(self, app: str, schedule: str, wanted: datetime | date | None) -> Fate:
        """Judge the firing at an instant, those of a day in the schedule's zone, or the last that was due (None)."""
        self._lookup.schedule(app, schedule)
        # A move takes the whole account along.
        moved_to = self._moves.homes([(app, schedule)]).get((app, schedule))
        app, schedule = moved_to or (app, schedule)
        now = self._now()
        generations = self._definitions.generations(app, schedule)
        zone, timeline = _zone(generations), Timeline(generations)
        instants, more = _instants(timeline, wanted, zone, now)
        if not instants:
            raise UsageError(
                f"{app}/{schedule} has not been due yet", help=f"relayctl inspect {app}/{schedule} shows when it fires"
            )
        evidence = self._evidence(app, schedule, instants, now)
        firings = tuple(judge(evidence, at) for at in instants)
        return Fate(now=now, zone=zone, firings=firings, more=more, moved_to=moved_to)

    def _evidence(self, app: str, schedule: str, instants: Sequence[datetime], now: datetime) -> Evidence:
        live = [record.id for record in self._fleet.records() if now.timestamp() * 1000 - record.beat_ms < LIVE_MS]
        seconds = [epoch_seconds(at) for at in instants]
        evidence = self._history.evidence(app, schedule, seconds, now=now, workers=live)
        if evidence is None:
            raise UsageError(f"{app}/{schedule} was removed a moment ago")
        reports = self._fleet.running(live)
        spreads = [
            _spread(apps[app].schedules[schedule].get("jitter", "0s"))
            for apps in reports.values()
            if app in apps and schedule in apps[app].schedules
        ]
        return replace(evidence, jitter=max(spreads, default=timedelta(0)))

    def _now(self) -> datetime:
        with translate():
            seconds, micros = self._client.time()
        return from_epoch(int(seconds)) + timedelta(microseconds=int(micros))


def _instants(
    timeline: Timeline, wanted: datetime | date | None, zone: tzinfo, now: datetime
) -> tuple[list[datetime], int]:
    """The instants to judge, and how many firings of the day are left out."""
    if wanted is None:
        latest = timeline.latest_between(-1, epoch_seconds(now))
        return ([] if latest is None else [from_epoch(latest[0])]), 0
    if isinstance(wanted, datetime):
        return [wanted.astimezone(UTC)], 0
    begin = datetime(wanted.year, wanted.month, wanted.day, tzinfo=zone)
    after, until = epoch_seconds(begin) - 1, epoch_seconds(_next_day(begin)) - 1
    firings = [from_epoch(at) for at, _ in islice(timeline.between(after, until), MOST_JUDGED)]
    # A day without a firing is judged too, and says why there is none.
    return firings or [_would_be(timeline, begin, until)], timeline.count(after, until) - len(firings)


def _would_be(timeline: Timeline, begin: datetime, until: int) -> datetime:
    """The moment of a day at which it would fire if that were a day like the next on which it does."""
    following = timeline.next_after(until)
    if following is None:
        return begin.astimezone(UTC)
    clock = from_epoch(following[0]).astimezone(begin.tzinfo).time()
    return datetime.combine(begin.date(), clock, begin.tzinfo).astimezone(UTC)


def _next_day(begin: datetime) -> datetime:
    following = begin.date() + timedelta(days=1)
    return datetime(following.year, following.month, following.day, tzinfo=begin.tzinfo)


def _without(unfinished: Sequence[Underway], records: Sequence[Record]) -> list[Underway]:
    """Those whose end is not among the records; a replay of a firing has a message of its own."""
    ended = {(record.message, record.kind) for record in records}
    return [run for run in unfinished if (run.message, run.kind) not in ended]


def _zone(generations: Sequence[Generation]) -> tzinfo:
    """That of the newest definition that fires at all."""
    triggers = (Firing.from_spec(item.spec).trigger for item in reversed(generations))
    return zone_of(next((item for item in triggers if item is not None), None))


def _spread(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except DurationError:
        return timedelta(0)
