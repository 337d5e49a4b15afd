"""What a trigger will do in the year ahead: how often, at what gaps, when next, and at which shifts of the clock.

Counts are exact. Whole days of one offset are counted by their pattern and not firing by firing, so that a minutely
schedule costs hundreds of steps and not half a million.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise

from relayctl.core.cron import Cron, Every, ShiftEffect
from relayctl.core.crongrammar import read_expression, values_of
from relayctl.core.occurrence import epoch_seconds
from relayctl.core.zones import Stretch, Zone, zone_named

_DAY_S = 86_400
_MOVED_S = 60  # a firing moved out of a gap is in the first minute after it


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The twelve months after `now`. `runs` counts firings in it, the gaps are those between neighbours among them.

    `is_shortest_by_shift`: the shortest gap spans a shift of the clock. `next_at` holds the first firings, of any date.
    """

    now: datetime
    until: datetime
    runs: int
    usual_gap: timedelta | None
    shortest_gap: timedelta | None
    is_shortest_by_shift: bool
    next_at: tuple[datetime, ...]
    effects: tuple[ShiftEffect, ...]


def forecast(trigger: Cron | Every, now: datetime, *, count: int = 3) -> Forecast:
    """Look a year ahead; `count` is the number of next firings wanted."""
    until = year_later(now)
    tally = _Tally()
    after_s, until_s = epoch_seconds(now), epoch_seconds(until)
    if isinstance(trigger, Every):
        tally.runs = until_s // trigger.seconds - after_s // trigger.seconds
        tally.gaps[trigger.seconds] = max(tally.runs - 1, 0)
    else:
        _survey(trigger, after_s, until_s, tally)
    gaps = +tally.gaps
    shortest = min(gaps, default=None)
    return Forecast(
        now=now,
        until=until,
        runs=tally.runs,
        usual_gap=timedelta(seconds=gaps.most_common(1)[0][0]) if gaps else None,
        shortest_gap=None if shortest is None else timedelta(seconds=shortest),
        is_shortest_by_shift=shortest is not None and gaps[shortest] == tally.shifted[shortest],
        next_at=next_firings(trigger, now, count),
        effects=tuple(trigger.transitions_affecting(now, until)),
    )


def next_firings(trigger: Cron | Every, now: datetime, count: int) -> tuple[datetime, ...]:
    """The first `count` firings after `now`; fewer where the calendar ends or nothing ever fires."""
    return tuple(islice(trigger.between(now, datetime.max.replace(tzinfo=UTC)), count))


def count_runs(trigger: Cron | Every, after: int, until: int) -> int:
    """How many firings are later than `after` and not later than `until`, both in epoch seconds."""
    if isinstance(trigger, Every):
        return until // trigger.seconds - after // trigger.seconds
    tally = _Tally()
    _survey(trigger, after, until, tally)
    return tally.runs


def zone_of(trigger: Cron | Every | None) -> tzinfo:
    """The zone in which a trigger's firings are shown; UTC where there is none."""
    return zone_named(trigger.timezone).info if isinstance(trigger, Cron) else UTC


def year_later(now: datetime) -> datetime:
    """The same date a year on; 29 February becomes the 28th."""
    try:
        return now.replace(year=now.year + 1)
    except ValueError:
        return now.replace(year=now.year + 1, day=28)


@dataclass(slots=True, kw_only=True)
class _Tally:
    runs: int = 0
    gaps: Counter[int] = field(default_factory=Counter)
    shifted: Counter[int] = field(default_factory=Counter)


def _survey(cron: Cron, after: int, until: int, tally: _Tally) -> None:
    zone = zone_named(cron.timezone)
    per_day = _minutes_of_day(cron)
    inside = Counter((late - early) * 60 for early, late in pairwise(per_day))
    previous: int | None = None
    at = cron.next_after_s(after)
    while at is not None and at <= until:
        stretch = zone.stretch_at(at)
        if previous is not None:
            tally.gaps[at - previous] += 1
            tally.shifted[at - previous] += _is_near_shift(zone, previous, stretch)
        begin = at - (at + stretch.offset) % _DAY_S
        end = begin + _DAY_S
        # A day is regular when it lies inside one offset, out of a shift's reach, and is seen from its first firing.
        is_regular = stretch.begin + _DAY_S <= begin and end <= stretch.end and end <= until
        if is_regular and at == begin + per_day[0] * 60:
            tally.runs += len(per_day)
            tally.gaps.update(inside)
            previous = begin + per_day[-1] * 60
        else:
            tally.runs += 1
            previous = at
        at = cron.next_after_s(previous)


def _is_near_shift(zone: Zone, previous: int, stretch: Stretch) -> bool:
    """Whether the clock changed between two firings, or moved the first of them."""
    before = zone.stretch_at(previous)
    return before.offset != stretch.offset or (before.shift != 0 and previous - before.begin < _MOVED_S)


def _minutes_of_day(cron: Cron) -> list[int]:
    minutes, hours, *_ = read_expression(cron.canonical)
    return [hour * 60 + minute for hour in values_of(hours.mask) for minute in values_of(minutes.mask)]
