"""What an interval setting says: how often something is done by itself, or on demand alone.

A slip never stops a start: it is read as something usable, with a warning. Nothing is scheduled here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from relayctl.core.duration import DurationError, format_duration, parse_duration

_ON_DEMAND = frozenset({"off", "disabled"})


class Mode(StrEnum):
    """By itself every so often, or on demand alone."""

    EVERY = "every"
    DEMAND = "demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What was read. `every` is there in the mode EVERY alone; `warning` says what was not meant, and what is used."""

    mode: Mode
    every: timedelta | None = None
    warning: str = ""


def parse_interval(
    text: str,
    *,
    default: timedelta,
    low: timedelta = timedelta(milliseconds=1),
    high: timedelta = timedelta.max,
    is_redacted: bool = False,
) -> Interval:
    """Read an interval; every text gives one.

    An empty text means the default, `off`, `disabled` and zero mean on demand.
    What is negative or no duration means the default, and what lies beyond a bound the bound, each with a warning,
    which leaves the text out where `is_redacted`.
    """
    word = text.strip()
    if not word:
        return Interval(mode=Mode.EVERY, every=default)
    # A letter of another alphabet that looks like one of these is a slip.
    if word.isascii() and word.lower() in _ON_DEMAND:
        return Interval(mode=Mode.DEMAND)
    shown = "the value" if is_redacted else f'"{text}"'
    value = _value(word.removeprefix("-"))
    if isinstance(value, DurationError):
        meant = f' (perhaps "{value.suggestion}"?)' if value.suggestion and not is_redacted else ""
        return _default(default, f"{shown} is not an interval{meant}")
    if value == timedelta(0):
        return Interval(mode=Mode.DEMAND)
    if word.startswith("-"):
        return _default(default, f"{shown} is negative")
    bound = min(max(value, low), high)
    if bound == value:
        return Interval(mode=Mode.EVERY, every=value)
    limits = f"{format_duration(low)} and {format_duration(high)}"
    warning = f"{shown} is not within {limits}, {format_duration(bound)} is used"
    return Interval(mode=Mode.EVERY, every=bound, warning=warning)


def _value(word: str) -> timedelta | DurationError:
    try:
        return timedelta(0) if word == "0" else parse_duration(word.lower())
    except DurationError as error:
        return error


def _default(default: timedelta, found: str) -> Interval:
    return Interval(mode=Mode.EVERY, every=default, warning=f"{found}; every {format_duration(default)} is used")
