"""The five-field grammar and nothing beyond it: text to bit masks, or the one place that does not fit.

It explains nothing (see `crontext`) and knows no calendar and no zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from relayctl.errors import RelayError

LONGEST_EXPRESSION = 512
DESCRIPTORS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
BLANKS = re.compile(r"[ \t]+")
_ATOM = "[0-9]+|[A-Za-z]{3}"
_MEMBER = re.compile(rf"(?:(\*)|({_ATOM})(?:-({_ATOM}))?)(?:/([0-9]+))?")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FieldKind:
    """One of the five fields: its name, the numbers it takes, how many different values those are, and its names."""

    name: str
    first: int
    last: int
    size: int
    names: tuple[str, ...] = ()

    def number_of(self, atom: str) -> int | None:
        """The number that a digit string or a name stands for; None for a name of another field."""
        if atom[0] in "0123456789":
            return int(atom)
        upper = atom.upper()
        return self.names.index(upper) + self.first if upper in self.names else None


MINUTE = FieldKind(name="minute", first=0, last=59, size=60)
HOUR = FieldKind(name="hour", first=0, last=23, size=24)
DAY = FieldKind(name="day-of-month", first=1, last=31, size=31)
MONTH = FieldKind(name="month", first=1, last=12, size=12, names=MONTH_NAMES)
WEEKDAY = FieldKind(name="day-of-week", first=0, last=7, size=7, names=WEEKDAY_NAMES)
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class FaultKind(Enum):
    """What does not fit."""

    LENGTH = "length"
    DESCRIPTOR = "descriptor"
    COUNT = "count"
    SYNTAX = "syntax"
    NAME = "name"
    RANGE = "range"
    BACKWARD = "backward"
    STEP_ZERO = "step zero"
    STEP_WIDE = "step wide"


class Fault(RelayError):
    """The text is outside the grammar."""

    def __init__(self, kind: FaultKind, *, field: int = -1, member: int = -1, atom: str = "") -> None:
        """`field` and `member` count from zero; `atom` is the number, name or step at fault."""
        super().__init__()
        self.kind = kind
        self.field = field
        self.member = member
        self.atom = atom


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldValue:
    """A field as read: bit n of `mask` for value n (Sunday is 0), and what its stars mean.

    `is_star`: a member is `*` or `*/1`, so a day field restricts nothing. `leads_with_star`: the text begins with
    `*`, whatever follows, which is what makes a job follow the clock rather than a fixed time.
    """

    mask: int
    is_star: bool
    leads_with_star: bool


def read_expression(text: str) -> tuple[FieldValue, ...]:
    """Read five fields or a descriptor; a Fault says what does not fit."""
    if len(text) > LONGEST_EXPRESSION:
        raise Fault(FaultKind.LENGTH)
    trimmed = text.strip(" \t")
    if trimmed.startswith("@"):
        expanded = DESCRIPTORS.get(trimmed)
        if expanded is None:
            raise Fault(FaultKind.DESCRIPTOR)
        trimmed = expanded
    words = BLANKS.split(trimmed)
    if len(words) != len(FIELDS):
        raise Fault(FaultKind.COUNT)
    return tuple(read_field(index, word) for index, word in enumerate(words))


@lru_cache(maxsize=4096)
def read_field(index: int, word: str) -> FieldValue:
    """Read one field, a list of members joined by commas."""
    mask, is_star = 0, False
    for place, member in enumerate(word.split(",")):
        bits, star = _read_member(index, place, member)
        mask |= bits
        is_star = is_star or star
    if index == 4:
        mask = (mask | mask >> 7) & 0x7F  # 7 is Sunday too
    return FieldValue(mask=mask, is_star=is_star, leads_with_star=word.startswith("*"))


def _read_member(index: int, place: int, member: str) -> tuple[int, bool]:
    kind = FIELDS[index]
    found = _MEMBER.fullmatch(member)
    if found is None:
        raise Fault(FaultKind.SYNTAX, field=index, member=place, atom=member)
    star, low_text, high_text, step_text = found.groups()
    step = 1
    if step_text is not None:
        step = int(step_text)
        if step == 0:
            raise Fault(FaultKind.STEP_ZERO, field=index, member=place, atom=step_text)
        if step > kind.size:
            raise Fault(FaultKind.STEP_WIDE, field=index, member=place, atom=step_text)
    if star:
        return _spread(kind.first, kind.first + kind.size - 1, step), step == 1
    low = _number(index, place, low_text)
    if high_text is not None:
        high = _number(index, place, high_text)
        if index == 4 and high == 0 < low and high_text.upper() == "SUN":
            high = 7  # SAT-SUN ends the week
        if high < low:
            raise Fault(FaultKind.BACKWARD, field=index, member=place, atom=member)
    else:
        # A step runs to the end of the field, which for weekdays is Saturday: 7 is another name, no eighth day.
        high = low if step_text is None else max(low, kind.first + kind.size - 1)
    return _spread(low, high, step), False


def _number(index: int, place: int, atom: str) -> int:
    kind = FIELDS[index]
    number = kind.number_of(atom)
    if number is None:
        raise Fault(FaultKind.NAME, field=index, member=place, atom=atom)
    if not kind.first <= number <= kind.last:
        raise Fault(FaultKind.RANGE, field=index, member=place, atom=atom)
    return number


def _spread(low: int, high: int, step: int) -> int:
    return sum(1 << value for value in range(low, high + 1, step))


def values_of(mask: int) -> tuple[int, ...]:
    """The values of a mask, ascending."""
    return tuple(value for value in range(mask.bit_length()) if mask >> value & 1)
