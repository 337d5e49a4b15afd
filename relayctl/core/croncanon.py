"""One text for all cron expressions that mean the same: lists sorted and merged, names and descriptors gone.

What the text decides beyond its values is kept: whether a job is a fixed-time one, and how the day fields are joined.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from relayctl.core.crongrammar import DAY, HOUR, MINUTE, MONTH, WEEKDAY, FieldKind, values_of

if TYPE_CHECKING:
    from relayctl.core.crongrammar import FieldValue


def canonical_fields(fields: tuple[FieldValue, ...]) -> str:
    """The canonical expression: parsed again it fires alike, and gives itself."""
    minute, hour, day, month, weekday = fields
    if minute.leads_with_star or hour.leads_with_star:
        times = _star_times(minute.mask, hour.mask)
    else:
        times = f"{_listed(MINUTE, minute.mask)} {_listed(HOUR, hour.mask)}"
    days, weekdays = _day_fields(day, weekday)
    return f"{times} {days} {_starred(MONTH, month.mask)} {weekdays}"


def _star_times(minutes: int, hours: int) -> str:
    """Minute and hour of a job that follows the clock: one of them must begin with a star."""
    minute, hour = _starred(MINUTE, minutes), _starred(HOUR, hours)
    if not (minute.startswith("*") or hour.startswith("*")):
        if minutes & 1:
            minute = _led_by_star(MINUTE, minutes)
        else:
            hour = _led_by_star(HOUR, hours)
    return f"{minute} {hour}"


def _day_fields(day: FieldValue, weekday: FieldValue) -> tuple[str, str]:
    any_day, any_weekday = day.mask == _full(DAY), weekday.mask == _full(WEEKDAY)
    is_either = not (day.is_star or weekday.is_star)
    if (is_either and (any_day or any_weekday)) or (any_day and any_weekday):
        return "*", "*"
    return _starred(DAY, day.mask), _starred(WEEKDAY, weekday.mask)


@lru_cache(maxsize=4096)
def _starred(kind: FieldKind, mask: int) -> str:
    """`*`, or `*/n` for exactly that, else the list."""
    if mask == _full(kind):
        return "*"
    values = values_of(mask)
    if len(values) > (1 if kind in (MINUTE, HOUR) else 2) and mask == _stepped(kind, values[1] - values[0]):
        return f"*/{values[1] - values[0]}"
    return _listed(kind, mask)


def _led_by_star(kind: FieldKind, mask: int) -> str:
    """A list that begins with the densest `*/n` it holds."""
    step = next(n for n in range(1, kind.size + 1) if _stepped(kind, n) & ~mask == 0)
    rest = mask & ~_stepped(kind, step)
    return f"*/{step}" + (f",{_listed(kind, rest)}" if rest else "")


@lru_cache(maxsize=4096)
def _listed(kind: FieldKind, mask: int) -> str:
    values = values_of(mask)
    if len(values) > 2:
        step = values[1] - values[0]
        if step > 1 and values == tuple(range(values[0], values[-1] + 1, step)) and step <= kind.size:
            return f"{values[0]}-{values[-1]}/{step}"
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def _full(kind: FieldKind) -> int:
    return _stepped(kind, 1)


@lru_cache(maxsize=256)
def _stepped(kind: FieldKind, step: int) -> int:
    return sum(1 << value for value in range(kind.first, kind.first + kind.size, step))
