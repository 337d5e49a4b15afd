"""How firings of many schedules fall on a window of time: a list, counts by minute or hour, herds and free minutes.

Only what fires is counted; how long a handler runs is not known here.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from relayctl.core.cron import Cron, Every
from relayctl.core.occurrence import epoch_seconds, from_epoch

HERD = 5
"""From how many firings in one minute on they are called a herd."""
_MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A trigger with the name of its schedule, `app/schedule`."""

    name: str
    trigger: Cron | Every


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time looked at: later than `after`, not later than `until`."""

    after: datetime
    until: datetime

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.until - self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Density:
    """Counts of firings by the minute in which they fall; minutes without any are left out."""

    window: Window
    by_minute: dict[datetime, int]

    @property
    def total(self) -> int:
        """All firings."""
        return sum(self.by_minute.values())

    def by_hour(self) -> dict[datetime, int]:
        """Counts by hour."""
        counts: Counter[datetime] = Counter()
        for minute, count in self.by_minute.items():
            counts[minute.replace(minute=0)] += count
        return dict(sorted(counts.items()))

    def by_week_hour(self) -> dict[tuple[int, int], int]:
        """Counts by weekday (Monday is 0) and hour, both in UTC."""
        counts: Counter[tuple[int, int]] = Counter()
        for minute, count in self.by_minute.items():
            counts[minute.weekday(), minute.hour] += count
        return dict(counts)

    def herds(self) -> list[tuple[datetime, int]]:
        """The minutes with many firings, the fullest first."""
        found = [(minute, count) for minute, count in self.by_minute.items() if count >= HERD]
        return sorted(found, key=lambda item: (-item[1], item[0]))

    def free_minutes(self) -> list[int]:
        """Minutes of the hour that begin in this window and in which nothing ever fires there."""
        taken = {minute.minute for minute in self.by_minute}
        first, last = (epoch_seconds(at) // _MINUTE_S for at in (self.window.after, self.window.until))
        there = {minute % 60 for minute in range(first + 1, min(last, first + 60) + 1)}
        return sorted(there - taken)


def firings(schedules: Iterable[Named], window: Window) -> Iterator[tuple[datetime, str]]:
    """Every firing in the window with its schedule's name, in order of time, then name."""
    return heapq.merge(*(_of(schedule, window) for schedule in schedules))


def density(schedules: Iterable[Named], window: Window) -> Density:
    """The counts of a window."""
    counts: Counter[int] = Counter()
    after, until = epoch_seconds(window.after), epoch_seconds(window.until)
    for schedule in schedules:
        counts.update(_by_minute(schedule.trigger, after, until))
    return Density(window=window, by_minute={from_epoch(minute * 60): counts[minute] for minute in sorted(counts)})


def _by_minute(trigger: Cron | Every, after: int, until: int) -> dict[int, int]:
    """Firings by minute since the epoch. Those of a short interval are reckoned, since there are millions in a year."""
    counts: dict[int, int] = {}
    if isinstance(trigger, Every) and trigger.seconds < _MINUTE_S:
        for minute in range(after // _MINUTE_S, until // _MINUTE_S + 1):
            first, last = max(minute * _MINUTE_S - 1, after), min(minute * _MINUTE_S + _MINUTE_S - 1, until)
            count = last // trigger.seconds - first // trigger.seconds
            if count:
                counts[minute] = count
        return counts
    at = trigger.next_after_s(after)
    while at is not None and at <= until:
        counts[at // _MINUTE_S] = counts.get(at // _MINUTE_S, 0) + 1
        at = trigger.next_after_s(at)
    return counts


def _of(schedule: Named, window: Window) -> Iterator[tuple[datetime, str]]:
    return ((at, schedule.name) for at in schedule.trigger.between(window.after, window.until))
