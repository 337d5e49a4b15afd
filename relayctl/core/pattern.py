"""Which external events a rule wants. Pure matching over JSON values; it knows nothing of streams or handlers.

Fields are ANDed, the alternatives of one field are ORed. Equality is strict about types: a boolean is no number and a
string is no number, while numbers compare by value, so 1 equals 1.0. A list in an event equals nothing.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from relayctl.core.duration import DurationError, format_duration, parse_duration
from relayctl.errors import RelayError

OPERATORS = ("prefix", "suffix", "exists", "gt", "gte", "lt", "lte")
MAX_DEPTH = 32
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_WORDS = {"gt": "above", "gte": "at least", "lt": "below", "lte": "at most"}
_NOW = re.compile(r"now\(\)(?:\s*([+-])\s*([0-9a-z]+))?", re.ASCII)
_INSTANT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_MISSING = object()

Path = tuple[str | int, ...]


class PatternError(RelayError, ValueError):
    """The pattern cannot be used. `path` leads to the part at fault, from the pattern's own root."""

    def __init__(self, path: Path, message: str, help: str | None = None) -> None:  # noqa: A002
        """`message` says what is wrong there, `help` the way out."""
        super().__init__(message, help=help)
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Why an event does not match: the field's `path`, what was `found` there (shortened), what was `expected`."""

    path: str
    found: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Equals:
    value: str | int | float | bool | None

    def holds(self, found: object, _now: datetime) -> bool:
        if isinstance(found, bool) or isinstance(self.value, bool):
            return found is self.value
        if isinstance(found, int | float) and isinstance(self.value, int | float):
            return found == self.value
        return type(found) is type(self.value) and found == self.value

    def to_json(self) -> object:
        return self.value

    def words(self) -> str:
        return json.dumps(self.value, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Affix:
    kind: str
    text: str

    def holds(self, found: object, _now: datetime) -> bool:
        if not isinstance(found, str):
            return False
        return found.startswith(self.text) if self.kind == "prefix" else found.endswith(self.text)

    def to_json(self) -> object:
        return {self.kind: self.text}

    def words(self) -> str:
        return f"a string with {self.kind} {json.dumps(self.text, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exists:
    wanted: bool

    def holds(self, found: object, _now: datetime) -> bool:
        return (found is not _MISSING) is self.wanted

    def to_json(self) -> object:
        return {"exists": self.wanted}

    def words(self) -> str:
        return "to be present" if self.wanted else "to be absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Number:
    kind: str
    limit: int | float

    def holds(self, found: object, _now: datetime) -> bool:
        if isinstance(found, bool) or not isinstance(found, int | float):
            return False
        return _ORDER[self.kind](found, self.limit)

    def to_json(self) -> object:
        return {self.kind: self.limit}

    def words(self) -> str:
        return f"a number {_WORDS[self.kind]} {self.limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instant:
    kind: str
    offset: timedelta

    def holds(self, found: object, now: datetime) -> bool:
        at = _instant(found) if isinstance(found, str) else None
        if at is None:
            return False
        try:
            return _ORDER[self.kind](at, now + self.offset)
        except OverflowError:
            return False

    def _text(self) -> str:
        if not self.offset:
            return "now()"
        return f"now(){'-' if self.offset < timedelta(0) else '+'}{format_duration(abs(self.offset))}"

    def to_json(self) -> object:
        return {self.kind: self._text()}

    def words(self) -> str:
        return f"an RFC 3339 time {_WORDS[self.kind]} {self._text()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nested:
    fields: tuple[tuple[str, tuple[_Alternative, ...]], ...]

    def holds(self, found: object, now: datetime) -> bool:
        inside = found if isinstance(found, Mapping) else {}
        return all(
            any(alternative.holds(value, now) for alternative in alternatives)
            for name, alternatives in self.fields
            for value in (inside.get(name, _MISSING),)
        )

    def to_json(self) -> object:
        return {name: _condition_json(alternatives) for name, alternatives in self.fields}

    def words(self) -> str:
        return f"a mapping with {', '.join(name for name, _ in self.fields)}"


_Alternative = _Equals | _Affix | _Exists | _Number | _Instant | _Nested


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern over events. Patterns that mean the same are equal; `canonical` is their one JSON text."""

    canonical: str
    _root: _Nested = field(compare=False, repr=False)

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Pattern:
        """The pattern of a template's mapping; PatternError, with the path at fault, when it is none."""
        root = _nested(written, (), 0)
        text = json.dumps(root.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return cls(canonical=text, _root=root)

    def matches(self, event: Mapping[str, Any], now: datetime) -> bool:
        """Whether the event matches at `now`, an aware instant."""
        return self._root.holds(event, now)

    def explain(self, event: Mapping[str, Any], now: datetime) -> list[Mismatch]:
        """Every field that keeps the event from matching; empty when it matches."""
        found: list[Mismatch] = []
        _explain(self._root, event, now, "", found)
        return found


def _explain(node: _Nested, value: object, now: datetime, path: str, found: list[Mismatch]) -> None:
    inside = value if isinstance(value, Mapping) else {}
    for name, alternatives in node.fields:
        here = f"{path}.{name}" if path else name
        inner = inside.get(name, _MISSING)
        if any(alternative.holds(inner, now) for alternative in alternatives):
            continue
        if len(alternatives) == 1 and isinstance(alternatives[0], _Nested) and isinstance(inner, Mapping):
            _explain(alternatives[0], inner, now, here, found)
            continue
        expected = " or ".join(alternative.words() for alternative in alternatives)
        found.append(Mismatch(path=here, found=_shown(inner), expected=expected))


def _shown(value: object) -> str:
    if value is _MISSING:
        return "nothing"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        start = json.dumps(value[:3], ensure_ascii=False)[:-1]
        return f'the string {start}"' if len(value) <= 3 else f'a string of {len(value)} characters, {start}…"'
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a mapping" if isinstance(value, Mapping) else "a list"


def _nested(written: object, path: Path, depth: int) -> _Nested:
    if not isinstance(written, Mapping):
        raise PatternError(path, "a pattern is a mapping of fields", "write  field: [value]")
    if not written:
        raise PatternError(path, "an empty mapping matches nothing in particular", "name a field, or leave it out")
    if depth > MAX_DEPTH:
        raise PatternError(path, f"a pattern nests at most {MAX_DEPTH} levels")
    fields = []
    for name in written:
        if not isinstance(name, str):
            raise PatternError((*path, name), "a field name must be text", "quote it")
        fields.append((name, _condition(written[name], (*path, name), depth)))
    return _Nested(fields=tuple(sorted(fields, key=lambda entry: entry[0])))


def _condition(written: object, path: Path, depth: int) -> tuple[_Alternative, ...]:
    if isinstance(written, Mapping):
        _refuse_bare_operator(written, path)
        return (_nested(written, path, depth + 1),)
    if not isinstance(written, Sequence) or isinstance(written, str | bytes):
        raise PatternError(path, "a condition is a list of alternatives, not a single value", "put it into [ ]")
    if not written:
        raise PatternError(path, "an empty list of alternatives can never match", "list a value, or drop the field")
    alternatives: dict[str, _Alternative] = {}
    for at, item in enumerate(written):
        alternative = _alternative(item, (*path, at), depth)
        alternatives.setdefault(json.dumps(alternative.to_json(), sort_keys=True), alternative)
    return tuple(alternatives[key] for key in sorted(alternatives))


def _refuse_bare_operator(written: Mapping[Any, Any], path: Path) -> None:
    for name, value in written.items():
        if name in OPERATORS and not isinstance(value, Mapping | list | tuple):
            raise PatternError(
                (*path, name),
                f'operator "{name}" stands outside a list of alternatives',
                "write it as an alternative:  [{" + f"{name}: …" + "}]",
            )


def _alternative(item: object, path: Path, depth: int) -> _Alternative:
    if isinstance(item, Mapping):
        return _operator_or_nested(item, path, depth)
    if item is None or isinstance(item, str | bool):
        return _Equals(value=item)
    if isinstance(item, int | float):
        return _Equals(value=_number(item, path))
    raise PatternError(path, "an alternative is a value, an operator or a mapping, not a list", "drop the inner [ ]")


def _operator_or_nested(item: Mapping[Any, Any], path: Path, depth: int) -> _Alternative:
    scalars = [name for name, value in item.items() if not isinstance(value, Mapping | list | tuple)]
    if not scalars:
        return _nested(item, path, depth + 1)
    name = scalars[0]
    unknown = next((each for each in scalars if each not in OPERATORS), None)
    if unknown is not None:
        allowed = ", ".join(OPERATORS)
        raise PatternError((*path, unknown), f'unknown operator "{_short(unknown)}"', f"operators are {allowed}")
    if len(item) > 1:
        raise PatternError(path, "an alternative has one operator only", "write one alternative for each operator")
    return _operator(str(name), item[name], (*path, name))


def _operator(name: str, operand: object, path: Path) -> _Alternative:
    if name == "exists":
        if not isinstance(operand, bool):
            raise PatternError(path, '"exists" takes true or false')
        return _Exists(wanted=operand)
    if name in ("prefix", "suffix"):
        if not isinstance(operand, str) or not operand:
            raise PatternError(path, f'"{name}" takes text of at least one character', "quote the value")
        return _Affix(kind=name, text=operand)
    if isinstance(operand, int | float) and not isinstance(operand, bool):
        return _Number(kind=name, limit=_number(operand, path))
    if isinstance(operand, str):
        return _Instant(kind=name, offset=_offset(name, operand, path))
    raise PatternError(path, f'"{name}" takes a number or now()', "for times:  now(), now()-1h or now()+30m")


def _offset(name: str, text: str, path: Path) -> timedelta:
    found = _NOW.fullmatch(text.strip())
    if found is None:
        raise PatternError(path, f'"{name}" takes a number or now()', "for times:  now(), now()-1h or now()+30m")
    if found[2] is None:
        return timedelta(0)
    try:
        offset = parse_duration(found[2])
    except DurationError as error:
        raise PatternError(path, error.message, error.help) from None
    return -offset if found[1] == "-" else offset


def _number(value: float, path: Path) -> int | float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PatternError(path, "a number must be finite")
        return int(value) if value.is_integer() else value
    return value


def _condition_json(alternatives: tuple[_Alternative, ...]) -> object:
    if len(alternatives) == 1 and isinstance(alternatives[0], _Nested):
        return alternatives[0].to_json()
    return [alternative.to_json() for alternative in alternatives]


def _instant(text: str) -> datetime | None:
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    micros = int((found[7] or "0")[:6].ljust(6, "0"))
    offset = timedelta(hours=int(found[9] or 0), minutes=int(found[10] or 0))
    try:
        zone = timezone(-offset if found[8] == "-" else offset)
        return datetime(year, month, day, hour, minute, second, micros, zone)
    except ValueError:
        return None


def _short(text: object) -> str:
    shown = str(text)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
