"""How close two firings of a trigger can come. Reckoned from a fixed date on, so that the answer needs no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from relayctl.core.cron import Cron, Every
from relayctl.core.crongrammar import DESCRIPTORS, read_expression, values_of
from relayctl.core.zones import zone_named

_SINCE_S = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
_SHIFTS_UNTIL_S = _SINCE_S + 2 * 366 * 86_400
_DAY_S = 86_400
_MOST_DATES = 800


@lru_cache(maxsize=4096)
def shortest_gap(trigger: Cron | Every) -> timedelta | None:
    """The shortest time between two firings, clock changes of two years included; None when it fires once at most."""
    if isinstance(trigger, Every):
        return timedelta(seconds=trigger.seconds)
    if not trigger.can_fire:
        return None
    usual = _on_the_wall(trigger)
    found = [gap for gap in (usual, _around_shifts(trigger)) if gap is not None]
    return timedelta(seconds=min(found)) if found else None


def _on_the_wall(trigger: Cron) -> int | None:
    """Without clock changes: minutes of an hour, hours of a day, and the night between two days."""
    minute, hour, _, _, _ = read_expression(trigger.expression)
    minutes, hours = values_of(minute.mask), values_of(hour.mask)
    reach = (minutes[-1] - minutes[0]) * 60
    gaps = [(later - earlier) * 60 for earlier, later in pairwise(minutes)]
    gaps += [(later - earlier) * 3600 - reach for earlier, later in pairwise(hours)]
    dates = " ".join(_day_fields(trigger.expression))
    between_dates = _shortest_between_dates(dates)
    if between_dates is not None:
        gaps.append(between_dates - (hours[-1] - hours[0]) * 3600 - reach)
    return min(gaps) if gaps else None


def _day_fields(expression: str) -> list[str]:
    trimmed = expression.strip(" \t")
    return DESCRIPTORS.get(trimmed, trimmed).split()[2:]


@lru_cache(maxsize=1024)
def _shortest_between_dates(day_fields: str) -> int | None:
    """Seconds between the two matching dates that are closest; most expressions share a few of these."""
    dates = Cron.parse(f"0 0 {day_fields}")
    shortest: int | None = None
    before = dates.next_after_s(_SINCE_S)
    for _ in range(_MOST_DATES):
        after = None if before is None else dates.next_after_s(before)
        if before is None or after is None:
            break
        shortest = after - before if shortest is None else min(shortest, after - before)
        if shortest <= _DAY_S:
            break
        before = after
    return shortest


def _around_shifts(trigger: Cron) -> int | None:
    """Between the firings next to each clock change: a skipped hour brings them closer than the wall says."""
    zone = zone_named(trigger.timezone)
    shortest: int | None = None
    at = _SINCE_S
    while at < _SHIFTS_UNTIL_S:
        stretch = zone.stretch_at(at)
        if stretch.begin > _SINCE_S:
            before = trigger.latest_at_or_before_s(stretch.begin - 1)
            for _ in range(3):
                after = None if before is None else trigger.next_after_s(before)
                if before is None or after is None:
                    break
                shortest = after - before if shortest is None else min(shortest, after - before)
                before = after
        at = stretch.end
    return shortest
