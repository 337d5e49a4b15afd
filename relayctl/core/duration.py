"""Durations as templates write them: `1h30m`, `20s`, `500ms`. Signs and zero are the caller's to refuse."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache

from relayctl.errors import RelayError

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_STRICT = re.compile(r"(?=[0-9])(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?")
_LOOSE_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*(?:,|and\s)?\s*")
_LOOSE_UNITS = {
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
}
_LOOSE_WEEKS = frozenset({"w", "wk", "wks", "week", "weeks"})
_LONGEST_TEXT = 64
_LONGEST_MS = 36_500 * _UNITS_MS["d"]
_GRAMMAR = "write whole numbers with the units d, h, m, s, ms, the larger first: 20s, 1h30m, 500ms"


class DurationError(RelayError, ValueError):
    """The text is not a duration."""

    def __init__(self, message: str, *, help: str, suggestion: str | None = None, code: str = "RLY107") -> None:  # noqa: A002
        """`suggestion` is the spelling that was probably meant, if one can be read out of the text."""
        super().__init__(message, help=help)
        self.code = code
        self.suggestion = suggestion


def parse_duration(text: str) -> timedelta:
    """Read a duration such as `1h30m`; zero is read, and anything outside the grammar is a DurationError."""
    found = _STRICT.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if found is None:
        raise _refusal(text)
    total_ms = sum(int(n) * unit for n, unit in zip(found.groups(), _UNITS_MS.values(), strict=True) if n)
    if total_ms > _LONGEST_MS:
        raise DurationError(f"duration {text!r} is longer than 36500d", help="write a duration up to 36500d")
    return timedelta(milliseconds=total_ms)


@lru_cache(maxsize=4096)
def format_duration(value: timedelta) -> str:
    """Spell a duration as shortly as the grammar can, to the millisecond: 90 minutes are `90m`, a day is `1d`."""
    total_ms = round(value / timedelta(milliseconds=1))
    sign, rest = ("-", -total_ms) if total_ms < 0 else ("", total_ms)
    if rest == 0:
        return "0s"
    parts = []
    left = rest
    for unit, size in _UNITS_MS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    whole = next(f"{rest // size}{unit}" for unit, size in _UNITS_MS.items() if rest % size == 0)
    return sign + min("".join(parts), whole, key=len)


def _refusal(text: str) -> DurationError:
    shown = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"
    meant = _read_loosely(text)
    if meant is not None:
        return DurationError(f"{shown!r} is not a duration", help=f'write "{meant}"', suggestion=meant)
    if re.fullmatch(r"[0-9]+", shown):
        return DurationError(f"duration {shown!r} has no unit", help=f'say the unit, as in "{shown}s"; {_GRAMMAR}')
    if shown.lstrip().startswith("-"):
        return DurationError(f"duration {shown!r} is negative", help="write a duration above zero, as in 20s")
    return DurationError(f"{shown!r} is not a duration", help=_GRAMMAR)


def _read_loosely(text: str) -> str | None:
    """Guess what `20 sec`, `1.5h` or `PT5M` meant, as canonical text."""
    if len(text) > _LONGEST_TEXT or not text.isascii():
        return None
    lowered = re.sub(r"^p([0-9]+d)?t(?=[0-9])", r"\1", text.strip().lower())
    total_ms, at = 0.0, 0
    while at < len(lowered):
        part = _LOOSE_PART.match(lowered, at)
        if part is None:
            return None
        number, word = part.groups()
        unit_ms = 7 * _UNITS_MS["d"] if word in _LOOSE_WEEKS else _UNITS_MS.get(_LOOSE_UNITS.get(word, ""))
        if unit_ms is None:
            return None
        total_ms += float(number) * unit_ms
        at = part.end()
    if not 0 < total_ms <= _LONGEST_MS or total_ms != int(total_ms):
        return None
    return format_duration(timedelta(milliseconds=total_ms))
