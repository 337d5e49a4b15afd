"""The cron rules once more, the slow way: every minute of a window looked at, nothing shared with the evaluator.

It takes only text that the grammar accepts, and windows of days, not years.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
LIMIT = 180 * 60


@dataclass(frozen=True)
class Shift:
    """The offset changes from `before` to `after` at this epoch second."""

    at: int
    before: int
    after: int


@cache
def zone_list() -> list[str]:
    names = resources.files("tzdata").joinpath("zones").read_text().split()
    return [name for name in names if name != "Factory"]


@cache
def zone_info(name: str) -> ZoneInfo:
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset_at(zone: str, epoch: int) -> int:
    moment = EPOCH + timedelta(seconds=epoch)
    return int(moment.astimezone(zone_info(zone)).utcoffset().total_seconds())


@cache
def shifts_of(zone: str) -> list[Shift]:
    """All shifts that the file lists since 1800, and those of two years still to come."""
    data = resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()

    def counts(start: int) -> tuple[int, ...]:
        return struct.unpack(">6l", data[start + 20 : start + 44])

    utc, std, leap, times, types, chars = counts(0)
    start = 44 + times * 5 + types * 6 + chars + leap * 8 + std + utc
    times = counts(start)[3]
    listed = struct.unpack(f">{times}q", data[start + 44 : start + 44 + 8 * times])
    found = []
    for at in listed:
        before, after = offset_at(zone, at - 1), offset_at(zone, at)
        if before != after and at > -5_364_662_400:
            found.append(Shift(at=at, before=before, after=after))
    return found + shifts_between(zone, 1_798_761_600, 1_861_920_000, 86_400)


def shifts_between(zone: str, low: int, high: int, step: int = 3600) -> list[Shift]:
    found = []
    for at in range(low, high, step):
        before, after = offset_at(zone, at), offset_at(zone, at + step)
        if before == after:
            continue
        first, last = at, at + step
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (middle, last) if offset_at(zone, middle) == before else (first, middle)
        found.append(Shift(at=last, before=before, after=after))
    return found


class Fields:
    """Five fields as sets of numbers, read by taking the text apart."""

    def __init__(self, expression: str) -> None:
        text = NAMED.get(expression.strip(" \t"), expression).replace("\t", " ").lower()
        words = [word for word in text.split(" ") if word]
        minute, hour, day, month, weekday = words
        self.minutes = self._numbers(minute, 0, 59)
        self.hours = self._numbers(hour, 0, 23)
        self.days = self._numbers(day, 1, 31)
        self.months = self._numbers(month, 1, 12, MONTHS)
        self.weekdays = {number % 7 for number in self._numbers(weekday, 0, 7, DAYS)}
        self.is_fixed = minute[0] != "*" and hour[0] != "*"
        self.any_star = any(part in ("*", "*/1") for part in (day + "," + weekday).split(","))

    @staticmethod
    def _numbers(word: str, low: int, high: int, names: list[str] | None = None) -> set[int]:
        def number(atom: str, is_end: bool) -> int:
            if names and atom in names:
                index = names.index(atom) + low
                return 7 if names is DAYS and index == 0 and is_end else index
            return int(atom)

        found: set[int] = set()
        for part in word.split(","):
            body, _, step = part.partition("/")
            if body == "*":
                first, last = low, (6 if names is DAYS else high)
            elif "-" in body:
                left, right = body.split("-")
                first = number(left, False)
                last = first if left == right else number(right, first > 0)
            else:
                first = number(body, False)
                last = max(first, 6 if names is DAYS else high) if step else first
            found |= set(range(first, last + 1, int(step or 1)))
        return found

    def match(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        on_day, on_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (on_day and on_weekday) if self.any_star else (on_day or on_weekday)


def walk(
    expression: str, zone: str, low: int, high: int, *, gap: str | None = None, fold: str | None = None
) -> list[int]:
    """Every firing in [low, high], found minute by minute."""
    fields = Fields(expression)
    catches = fields.is_fixed if gap is None else gap == "run"
    once = fields.is_fixed if fold is None else fold == "first"
    shifts = shifts_between(zone, low - 90_000, high + 3600)
    begins = [low - 90_000] + [shift.at for shift in shifts]
    offsets = [offset_at(zone, low - 90_000)] + [shift.after for shift in shifts]
    ends = [*begins[1:], high + 1]
    naive_epoch = datetime(1970, 1, 1)
    found = set()
    for place, (begin, end, offset) in enumerate(zip(begins, ends, offsets, strict=True)):
        before = offsets[place - 1] if place else offset
        first = begin + (-(begin + offset)) % 60
        for instant in range(first, end, 60):
            is_second_pass = once and 0 < before - offset <= LIMIT and instant < begin + before - offset
            wall = instant + offset
            is_asked = low <= instant <= high and not is_second_pass and wall // 60 % 60 in fields.minutes
            if is_asked and fields.match(naive_epoch + timedelta(seconds=wall)):
                found.add(instant)
        if catches and 0 < offset - before <= LIMIT:
            skipped = range(begin + before + (-(begin + before)) % 60, begin + offset, 60)
            if any(fields.match(naive_epoch + timedelta(seconds=wall)) for wall in skipped):
                found.add(first)
    return sorted(instant for instant in found if low <= instant <= high)
