"""Why a member of one field is refused and what to write instead: ranges, steps, names and other cron dialects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from relayctl.core.cronerror import CronError
from relayctl.core.crongrammar import (
    DAY,
    FIELDS,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_NAMES,
    WEEKDAY,
    WEEKDAY_NAMES,
    Fault,
    FaultKind,
    FieldKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    _Meaning = dict[str, str] | None
    _Portable = Callable[[str], _Meaning]

_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_WORD = re.compile(r"[^ \t]+")
_SHOWN = 80
_FULL_NAMES = (
    "JANUARY", "FEBRUARY", "MARCH", "APRIL", "JUNE", "JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER",
    "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY",
)  # fmt: skip
_FULL_BY_SHORT = {name[:3]: name for name in _FULL_NAMES}


class _Case:
    """One refused member in its expression, with the means to try another text in its place."""

    __slots__ = ("atom", "field", "kind", "meaning", "member", "place", "start", "text", "words")

    def __init__(self, text: str, fault: Fault, meaning: _Portable) -> None:
        found = list(_WORD.finditer(text))
        members = found[fault.field].group().split(",")
        self.text = text
        self.words = [word.group() for word in found]
        self.field = fault.field
        self.kind = FIELDS[fault.field]
        self.place = fault.member
        self.member = members[fault.member]
        self.atom = fault.atom
        self.start = found[fault.field].start() + sum(len(one) + 1 for one in members[: fault.member])
        self.meaning = meaning

    @property
    def word(self) -> str:
        return self.words[self.field]

    def with_member(self, *written: str) -> _Meaning:
        """The expression with other members (or none) in place of this one."""
        members = self.word.split(",")
        members[self.place : self.place + 1] = written
        return self.with_word(",".join(members)) if members else None

    def with_word(self, word: str) -> _Meaning:
        words = list(self.words)
        words[self.field] = word
        return self.meaning(" ".join(words))

    def error(self, found: str, way_out: str, *, code: str = "RLY201", meant: _Meaning = None) -> CronError:
        shown = self.member if len(self.member) <= _SHOWN else self.member[:_SHOWN] + "…"
        if meant is not None:
            forms = " and ".join(f'{key}: "{value}"' for key, value in meant.items())
            way_out = f"write {forms} ({way_out})"
        return CronError(
            f'{self.kind.name} field, "{shown}": {found}',
            code=code,
            help=way_out,
            span=(self.start, max(self.start + len(self.member), self.start + 1)),
            suggestion=meant,
        )


def explain_member(text: str, fault: Fault, meaning: _Portable) -> CronError:
    """The error for a fault inside a field; `meaning` gives the portable form of a candidate text, or None."""
    case = _Case(text, fault, meaning)
    match fault.kind:
        case FaultKind.NAME:
            return _explain_name(case)
        case FaultKind.RANGE:
            return _explain_range(case)
        case FaultKind.BACKWARD:
            return _explain_backward(case)
        case FaultKind.STEP_ZERO:
            return case.error("a step of 0 leads nowhere", "write a step of 1 or more")
        case FaultKind.STEP_WIDE:
            return _explain_wide_step(case)
        case FaultKind.SYNTAX | FaultKind.LENGTH | FaultKind.COUNT | FaultKind.DESCRIPTOR:
            return _explain_dialect(case) or _explain_syntax(case)


def _explain_dialect(case: _Case) -> CronError | None:
    """Forms of other schedulers that the classic grammar lacks."""
    upper = case.member.upper()
    if "?" in upper:
        meant = case.with_word("*") if case.word == "?" else None
        return case.error("? belongs to Quartz", "for any value write *", code="RLY214", meant=meant)
    if "#" in upper:
        return case.error(
            "# (the nth weekday of a month) is not in the classic grammar",
            "run on that weekday, and let the handler end at once in the other weeks",
            code="RLY214",
        )
    if re.fullmatch(r"(?:H|R)(?:\([0-9]*-?[0-9]*\))?(?:/[0-9]+)?", upper):
        return case.error(
            f"{upper[0]} lets a program choose the {case.kind.name}",
            f"choose a {case.kind.name} of your own, as in {_own_choice(case.kind)}; jitter: 30s spreads runs",
            code="RLY214",
        )
    if case.kind is DAY and re.fullmatch(r"L(?:-[0-9]+)?|L?W|[0-9]+W|WL", upper):
        return case.error(
            f"{'W (the nearest working day)' if 'W' in upper else 'L (the last day)'} is not in the classic grammar",
            "run on 28-31 or on MON-FRI, and let the handler end at once on the other days",
            code="RLY214",
        )
    if case.kind is WEEKDAY and re.fullmatch(r"(?:[0-7]|[A-Z]{3})?L|L(?:[0-7]|[A-Z]{3})", upper):
        return case.error(
            "L (the last such weekday of a month) is not in the classic grammar",
            "run on that weekday, and let the handler end at once in the other weeks",
            code="RLY214",
        )
    if "~" in upper:
        return case.error("~ lets a program choose a value", f"choose a {case.kind.name} of your own", code="RLY214")
    return None


def _explain_syntax(case: _Case) -> CronError:
    member, kind = case.member, case.kind
    if not member:
        rest = [one for one in case.word.split(",") if one]
        meant = case.with_word(",".join(rest)) if rest else None
        return case.error("a list member is empty", "write a value between commas, and none at the ends", meant=meant)
    if re.fullmatch(r"-[0-9]+", member):
        return case.error("a value cannot be negative", _takes(kind))
    if found := re.fullmatch(r"\*([0-9]+)", member):
        meant = case.with_member(f"*/{found[1]}")
        return case.error("a number sticks to the star", "a step has a slash before it", meant=meant)
    if found := re.fullmatch(r"/([0-9]+)", member):
        return case.error(
            "nothing stands before the slash", "steps over all values", meant=case.with_member(f"*{member}")
        )
    if found := re.fullmatch(r"\*-([0-9]+)((?:/[0-9]+)?)", member):
        meant = case.with_member(f"{kind.first}-{found[1]}{found[2]}")
        return case.error("a star cannot begin a range", "a range has a value at both ends", meant=meant)
    if member.count("/") > 1:
        return case.error("more than one step", "write one step, as in */5")
    if re.fullmatch(r"[0-9]+(?:-[0-9]+){2,}", member):
        return case.error("more than two ends", "write a range as first-last, as in 1-5")
    if re.fullmatch(r"[A-Za-z]+(?:-[A-Za-z]+)?(?:/[0-9]+)?", member):
        return _explain_long_name(case)
    return case.error("not a value, a range or a step", _takes(kind))


def _explain_long_name(case: _Case) -> CronError:
    """Names written out, and words that are none."""
    short = re.sub(r"[A-Za-z]{4,}", lambda word: _abbreviated(word[0], case.kind.names) or word[0], case.member)
    meant = case.with_member(short) if short != case.member else None
    if meant is None:
        return case.error("not a value, a range or a step", _takes(case.kind))
    return case.error("names have three letters", "the first three of the name", meant=meant)


def _abbreviated(word: str, names: tuple[str, ...]) -> str | None:
    short = word[:3].upper()
    full = _FULL_BY_SHORT.get(short, "") if short in names else ""
    return short if full.startswith(word.upper().removesuffix("S")) else None


def _explain_name(case: _Case) -> CronError:
    upper = case.atom.upper()
    for other, names, thing in ((MONTH, MONTH_NAMES, "month"), (WEEKDAY, WEEKDAY_NAMES, "weekday")):
        if upper in names and case.kind is not other:
            place = _ORDINALS[FIELDS.index(other)]
            return case.error(
                f"{upper} is a {thing}",
                f"{thing} names belong in the {place} field ({other.name})",
                meant=_swapped(case, FIELDS.index(other)),
            )
    return case.error(f'"{case.atom}" is not a value of this field', _takes(case.kind))


def _swapped(case: _Case, other: int) -> _Meaning:
    """The expression with this field and another exchanged, where the other says nothing."""
    if case.words[other] not in {"*", "?"}:
        return None
    words = list(case.words)
    words[case.field], words[other] = words[other], words[case.field]
    return case.meaning(" ".join(words))


def _explain_range(case: _Case) -> CronError:
    kind = case.kind
    number = int(case.atom)
    found = f"{_short(case.atom)} is outside {kind.first}-{kind.last}"
    meant, hint = None, ""
    if case.member == case.atom:
        if (kind is HOUR and number == 24) or (kind is MINUTE and number == 60):
            hint = f"; {number} is 0 of the next {'day' if kind is HOUR else 'hour'}"
        elif kind is MONTH and 13 <= number <= 31 and case.word == case.member:
            meant, hint = _swapped(case, FIELDS.index(DAY)), "; days are the third field"
        elif kind is MINUTE and 100 <= number <= 2359 and number % 100 < 60 and len(case.atom) == 4:
            hint = f"; {case.atom[:2]}:{case.atom[2:]} is {number % 100} {number // 100} * * *"
    elif kind is DAY and number > 31:
        hint = "; a month has at most 31 days"
    return case.error(found, _takes(kind) + hint, meant=meant)


def _explain_backward(case: _Case) -> CronError:
    """A range that wraps: the two halves, or with a step the very values."""
    kind = case.kind
    body, _, step_text = case.member.partition("/")
    low_text, _, high_text = body.partition("-")
    low, high = kind.number_of(low_text), kind.number_of(high_text)
    assert low is not None
    assert high is not None
    if kind is WEEKDAY:
        low %= 7
    if step_text or (kind is WEEKDAY and low_text == "7"):
        written = _wrapped_values(kind, low, high, int(step_text or 1))
    else:
        top = kind.names[-1] if kind.names and not low_text[0].isdigit() else str(kind.first + kind.size - 1)
        bottom = kind.names[0] if kind.names and not high_text[0].isdigit() else str(kind.first)
        head = low_text if low == kind.first + kind.size - 1 else f"{low_text}-{top}"
        tail = high_text if high == kind.first else f"{bottom}-{high_text}"
        written = [head, tail]
    return case.error(
        "the range runs backwards",
        f"a range goes up; as a list it is {','.join(written)}",
        code="RLY213",
        meant=case.with_member(*written),
    )


def _wrapped_values(kind: FieldKind, low: int, high: int, step: int) -> list[str]:
    """The values from `low` round the end of the field to `high`, a step apart, ascending."""
    span = (high - low) % kind.size
    values = sorted((low - kind.first + ahead) % kind.size + kind.first for ahead in range(0, span + 1, step))
    return [str(value) for value in values]


def _explain_wide_step(case: _Case) -> CronError:
    kind, step = case.kind, int(case.atom)
    noun = {"minute": "m", "hour": "h", "day-of-month": "d"}.get(kind.name)
    meant = None
    lower_are_zero = all(word.isdigit() and int(word) == 0 for word in case.words[: case.field])
    upper_are_any = all(word == "*" for word in case.words[case.field + 1 :])
    # Days do not begin at midnight UTC everywhere, so for them the fixed interval is advice and no equal form.
    if noun in ("m", "h") and case.word == f"*/{case.atom}" and lower_are_zero and upper_are_any and step <= 10_000:
        meant = {"every": f"{step}{noun}"}
    advice = f"a step is at most {kind.size}, since each field starts afresh"
    return case.error(
        f"a step of {_short(case.atom)} is wider than the field ({kind.size} values)",
        advice if meant is None else f"{advice}; every counts on",
        code="RLY209",
        meant=meant,
    )


def _own_choice(kind: FieldKind) -> str:
    return {"minute": "17", "hour": "3", "day-of-month": "12"}.get(kind.name, str(kind.first + 2))


def _takes(kind: FieldKind) -> str:
    names = f" or {kind.names[0]}-{kind.names[-1]}" if kind.names else ""
    also = "; 0 and 7 are both Sunday" if kind is WEEKDAY else ""
    return f"this field takes {kind.first}-{kind.last}{names}, lists, ranges and steps{also}"


def _short(digits: str) -> str:
    return digits if len(digits) <= 12 else digits[:12] + "…"
