"""Which wall minutes five fields match: a search over the plain calendar, in whole minutes since 1970-01-01 00:00.

It knows no zone: a wall minute here may not exist, or exist twice, on somebody's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache

DAY_MINUTES = 1440
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LAST_ORDINAL = date.max.toordinal()
_LAST_YEAR = 9999
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ALL_DAYS = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WallPattern:
    """Five masks made ready for searching.

    `days` holds, for each weekday on which a month can begin (0 is Sunday), the matching days as bits from the first.
    """

    minutes: int
    hours: int
    months: int
    days: tuple[int, ...]
    first_time: int
    last_time: int
    can_match: bool

    def matches(self, minute: int) -> bool:
        """Whether this very wall minute matches."""
        day, time = divmod(minute, DAY_MINUTES)
        hour, past = divmod(time, 60)
        if not (self.minutes >> past & 1 and self.hours >> hour & 1):
            return False
        ordinal = day + _EPOCH_ORDINAL
        on = date.fromordinal(ordinal)
        first = ordinal - on.day + 1
        return bool(self.months >> on.month & 1 and self.days[first % 7] >> on.day - 1 & 1)

    def at_or_after(self, minute: int) -> int | None:
        """The first matching wall minute that is not before `minute`; None when the calendar ends first."""
        day, time = divmod(minute, DAY_MINUTES)
        ordinal = day + _EPOCH_ORDINAL
        if ordinal > _LAST_ORDINAL or not self.can_match:
            return None
        if ordinal < 1:
            ordinal, time = 1, 0
        on = date.fromordinal(ordinal)
        year, month, past = on.year, on.month, on.day - 1
        first = ordinal - past
        while year <= _LAST_YEAR:
            length = _month_length(year, month)
            if self.months >> month & 1:
                ahead = (self.days[first % 7] & (1 << length) - 1) >> past
                if ahead & 1 and (found := self._time_from(time)) >= 0:
                    return (first + past - _EPOCH_ORDINAL) * DAY_MINUTES + found
                ahead &= ~1
                if ahead:
                    past += (ahead & -ahead).bit_length() - 1
                    return (first + past - _EPOCH_ORDINAL) * DAY_MINUTES + self.first_time
            first += length
            past = time = 0
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return None

    def at_or_before(self, minute: int) -> int | None:
        """The last matching wall minute that is not after `minute`; None when the calendar begins later."""
        day, time = divmod(minute, DAY_MINUTES)
        ordinal = day + _EPOCH_ORDINAL
        if ordinal < 1 or not self.can_match:
            return None
        if ordinal > _LAST_ORDINAL:
            ordinal, time = _LAST_ORDINAL, DAY_MINUTES - 1
        on = date.fromordinal(ordinal)
        year, month, count = on.year, on.month, on.day
        first = ordinal - count + 1
        while year > 0:
            if self.months >> month & 1:
                behind = self.days[first % 7] & (1 << count) - 1
                if behind >> count - 1 & 1:
                    found = self._time_until(time)
                    if found >= 0:
                        return (first + count - 1 - _EPOCH_ORDINAL) * DAY_MINUTES + found
                    behind &= ~(1 << count - 1)
                if behind:
                    return (first + behind.bit_length() - 1 - _EPOCH_ORDINAL) * DAY_MINUTES + self.last_time
            year, month = (year, month - 1) if month > 1 else (year - 1, 12)
            count = _month_length(year, month)
            first -= count
            time = DAY_MINUTES - 1
        return None

    def _time_from(self, time: int) -> int:
        hour, past = divmod(time, 60)
        if self.hours >> hour & 1 and (ahead := self.minutes >> past):
            return time + (ahead & -ahead).bit_length() - 1
        later = self.hours >> hour + 1
        if later:
            return (hour + (later & -later).bit_length()) * 60 + self.first_time % 60
        return -1

    def _time_until(self, time: int) -> int:
        hour, past = divmod(time, 60)
        if self.hours >> hour & 1 and (behind := self.minutes & (2 << past) - 1):
            return hour * 60 + behind.bit_length() - 1
        earlier = self.hours & (1 << hour) - 1
        if earlier:
            return (earlier.bit_length() - 1) * 60 + self.last_time % 60
        return -1


@lru_cache(maxsize=4096)
def wall_pattern(*, minutes: int, hours: int, days: int, months: int, weekdays: int, either_day: bool) -> WallPattern:
    """Make masks ready (bit n for value n); `either_day` joins the two day fields by OR, otherwise both must match."""
    return WallPattern(
        minutes=minutes,
        hours=hours,
        months=months,
        days=_days_by_start(days, weekdays, either_day),
        first_time=_lowest(hours) * 60 + _lowest(minutes),
        last_time=(hours.bit_length() - 1) * 60 + minutes.bit_length() - 1,
        can_match=either_day or _lowest(days) <= _longest_month(months),
    )


@lru_cache(maxsize=4096)
def _days_by_start(days: int, weekdays: int, either_day: bool) -> tuple[int, ...]:
    week = sum(weekdays << 7 * turn for turn in range(6))
    month = days >> 1
    return tuple((month | week >> start if either_day else month & week >> start) & _ALL_DAYS for start in range(7))


@lru_cache(maxsize=4096)
def _longest_month(months: int) -> int:
    return max(29 if month == 2 else _LENGTHS[month] for month in range(1, 13) if months >> month & 1)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _month_length(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month]
