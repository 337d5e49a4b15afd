"""Family 2 beyond the grammar: expressions that are legal, and not what their author thinks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from relayctl.core.cron import Cron
from relayctl.core.crongrammar import DESCRIPTORS, FIELDS, FieldKind, FieldValue, read_field, values_of
from relayctl.core.problem import Fix, Problem
from relayctl.templates.document import ScalarNode
from relayctl.templates.fixes.tokens import rewritten
from relayctl.templates.meaning import Triggered
from relayctl.templates.rules.engine import Case
from relayctl.templates.rules.registry import BY_CODE, FixKind

_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY = range(5)
_MEMBER = re.compile(r"(\*|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/([0-9]+))?", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_UNITS = ("minute", "hour", "day", "month", "weekday")
_CYCLES = ("an hour", "a day", "a month", "a year", "a week")
_YEAR = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One field as written, with its place in the expression."""

    index: int
    text: str
    start: int
    value: FieldValue

    @property
    def kind(self) -> FieldKind:
        return FIELDS[self.index]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A schedule's expression on the table."""

    case: Case
    triggered: Triggered
    node: ScalarNode
    cron: Cron
    fields: tuple[_Field, ...]

    def say(
        self,
        code: str,
        message: str,
        detail: str,
        help: str,  # noqa: A002
        span: tuple[int, int] | None = None,
        notes: tuple[str, ...] = (),
        meant: str | None = None,
    ) -> Problem:
        """`meant` is what a fix writes in place of the span, or of the whole expression without one."""
        path = (*self.triggered.path, "cron")
        fix = self._fix(code, meant, span) if meant is not None else None
        return self.case.report(
            code, self.node, path, message, detail=detail, help=help, span=span, notes=notes, fix=fix
        )

    def _fix(self, code: str, meant: str, span: tuple[int, int] | None) -> Fix | None:
        is_safe = BY_CODE[code].fix is FixKind.SAFE
        source = self.case.document.source
        return rewritten(source, self.node, meant, f'write "{meant}"', is_safe=is_safe, span=span)


def check(case: Case) -> Iterator[Problem]:
    """RLY205 to RLY212, RLY215, RLY216."""
    for triggered in case.meaning.triggered:
        node = case.node(triggered, "cron")
        if isinstance(triggered.trigger, Cron) and isinstance(node, ScalarNode):
            yield from _check_line(case, triggered, node, triggered.trigger)


def _check_line(case: Case, triggered: Triggered, node: ScalarNode, cron: Cron) -> Iterator[Problem]:
    line = _Line(case=case, triggered=triggered, node=node, cron=cron, fields=_fields(node.text))
    if not cron.can_fire:
        yield _never(line)
        return
    rare = _rarely(line)
    if rare is not None:
        yield rare
    elif (short := _short_months(line)) is not None:
        yield short
    if node.text.strip().startswith("@"):
        return
    either = _day_or_day(line)
    if either is not None:
        yield either
    for written in line.fields:
        yield from _members(line, written)
    if all(written.value.is_star for written in line.fields):
        yield line.say("RLY215", "it fires every minute", "1,440 times a day", "nothing to do if that is meant")


def _fields(text: str) -> tuple[_Field, ...]:
    trimmed = text.strip(" \t")
    if trimmed.startswith("@"):
        words = [(word, 0) for word in DESCRIPTORS[trimmed].split(" ")]
    else:
        words = [(found.group(), found.start()) for found in re.finditer(r"[^ \t]+", text)]
    return tuple(
        _Field(index=at, text=word, start=start, value=read_field(at, word)) for at, (word, start) in enumerate(words)
    )


def _never(line: _Line) -> Problem:
    days = ", ".join(str(day) for day in values_of(line.fields[_DAY].value.mask))
    months = ", ".join(_MONTHS[month - 1] for month in values_of(line.fields[_MONTH].value.mask))
    return line.say(
        "RLY205", "this expression never fires", f"no {months} has a day {days}", "correct the day or the month"
    )


def _rarely(line: _Line) -> Problem | None:
    day, month = line.fields[_DAY].value, line.fields[_MONTH].value
    is_leap_day = month.mask == 1 << 2 and day.mask == 1 << 29 and line.fields[_WEEKDAY].value.is_star
    if not is_leap_day or line.case.now is None:
        return None
    first = line.cron.next_after(line.case.now)
    second = line.cron.next_after(first) if first is not None else None
    dates = " and ".join(f"{at:%Y-%m-%d}" for at in (first, second) if at is not None)
    return line.say(
        "RLY206", "29 February exists in leap years only", f"next on {dates} (UTC)", "use 1 March for every year"
    )


def _short_months(line: _Line) -> Problem | None:
    day = line.fields[_DAY]
    if day.value.leads_with_star or not line.fields[_WEEKDAY].value.is_star:
        return None
    days = values_of(day.value.mask)
    late = [each for each in days if each >= 29]
    if not late or any(each <= 28 and each >= 28 for each in days):
        return None
    skipped = [
        _MONTHS[month - 1] for month in values_of(line.fields[_MONTH].value.mask) if _LENGTHS[month - 1] < late[-1]
    ]
    if 29 in late and 2 in values_of(line.fields[_MONTH].value.mask):
        skipped = skipped or ["Feb in common years"]
    if not skipped:
        return None
    return line.say(
        "RLY210",
        f"day {late[-1]} is missing in {len(skipped)} of its months",
        f"no firing in {', '.join(skipped)}",
        'for the end of each month use "28-31" and let the handler test the date, or take day 1',
        _span(day),
    )


def _day_or_day(line: _Line) -> Problem | None:
    day, weekday = line.fields[_DAY], line.fields[_WEEKDAY]
    if day.value.is_star or weekday.value.is_star or line.case.now is None:
        return None
    month = line.fields[_MONTH].text
    either = _days(f"0 0 {day.text} {month} {weekday.text}", line.case.now)
    both = _both_days(line, line.case.now)
    nexts = []
    at: datetime | None = line.case.now
    for _ in range(3):
        at = line.cron.next_after(at) if at is not None else None
        if at is not None:
            nexts.append(instant_words(at))
    minute, hour = line.fields[_MINUTE].text, line.fields[_HOUR].text
    return line.say(
        "RLY207",
        "day-of-month and day-of-week are both set, so either one fires the job",
        f"runs on {either} days in 12 months",
        f'use "{minute} {hour} {day.text} {month} *" or "{minute} {hour} * {month} {weekday.text}", '
        f"or keep it:  # relay: ignore[RLY207] reason",
        notes=(
            f"next: {', '.join(nexts)}",
            f"days that fit both fields would be {both}; cron has no way to say that",
        ),
        # A week's worth of days and a weekday mean both at once ("the first Monday"), which no expression says.
        meant=None if _is_a_week(day) else f"{minute} {hour} {day.text} {month} *",
    )


def _is_a_week(day: _Field) -> bool:
    days = values_of(day.value.mask)
    return len(days) in (6, 7) and days[-1] - days[0] == len(days) - 1


def _days(expression: str, now: datetime) -> int:
    return sum(1 for _ in Cron.parse(expression).between(now, now + _YEAR))


def _both_days(line: _Line, now: datetime) -> int:
    weekdays = values_of(line.fields[_WEEKDAY].value.mask)
    dates = Cron.parse(f"0 0 {line.fields[_DAY].text} {line.fields[_MONTH].text} *").between(now, now + _YEAR)
    return sum(1 for at in dates if at.isoweekday() % 7 in weekdays)


def _members(line: _Line, written: _Field) -> Iterator[Problem]:
    offset = written.start
    for member in written.text.split(","):
        found = _MEMBER.fullmatch(member)
        if found is not None:
            problem = _member(line, written, found, (offset, offset + len(member)))
            if problem is not None:
                yield problem
        offset += len(member) + 1


def _member(line: _Line, written: _Field, found: re.Match[str], span: tuple[int, int]) -> Problem | None:
    low, high, step_text = found.groups()
    step = int(step_text) if step_text is not None else 1
    kind = written.kind
    if low == "*":
        if step == kind.size:
            return _too_wide(line, written, span)
        uneven = step > 1 and (kind.size % step != 0 or written.index == _DAY)
        return _uneven(line, written, step, span) if uneven else _plain_star(line, step_text, span)
    if high is not None and kind.number_of(low) == kind.number_of(high):
        return line.say(
            "RLY212",
            f'"{found.group()}" is a range of one value',
            f"1 value here; croniter reads every {_UNITS[written.index]}",
            f'write "{low}"',
            span,
            meant=low,
        )
    if (
        high is None
        and step_text is not None
        and (number := kind.number_of(low)) is not None
        and number + step > kind.last
    ):
        return line.say(
            "RLY211",
            f'"{found.group()}" is one value: the first step leaves the field',
            f"fires at {_UNITS[written.index]} {number} only, 1 value; other engines read it differently",
            f'write "{low}", or "*/{step}" if that was meant',
            span,
            meant=low,
        )
    return _not_canonical(line, written, found, span)


def _too_wide(line: _Line, written: _Field, span: tuple[int, int]) -> Problem:
    first, unit = written.kind.first, _UNITS[written.index]
    return line.say(
        "RLY209",
        f"a step of {written.kind.size} over {written.kind.size} values leaves the first one",
        f"fires at {unit} {first} only, once {_CYCLES[written.index]}",
        f'write "{first}"',
        span,
        meant=str(first),
    )


def _uneven(line: _Line, written: _Field, step: int, span: tuple[int, int]) -> Problem:
    kind = written.kind
    values = list(range(kind.first, kind.first + kind.size, step))
    unit = _UNITS[written.index]
    shown = " ".join(f":{value:02}" if written.index == _MINUTE else str(value) for value in values)
    last = kind.first + kind.size - values[-1]
    meant = None
    if written.index == _DAY:
        message = f'"*/{step}" starts again on day 1 of each month, so the last gap is shorter or longer'
        hint = "cron cannot count days across months; use every: for a fixed interval"
    else:
        cycle = {_MINUTE: "hour", _HOUR: "day", _MONTH: "year", _WEEKDAY: "week"}[written.index]
        plural = "" if last == 1 else "s"
        message = (
            f'"*/{step}" does not divide {kind.size}: the last gap of each {cycle} is {last} {unit}{plural}, not {step}'
        )
        near = [each for each in range(2, kind.size // 2 + 1) if kind.size % each == 0]
        below, above = [each for each in near if each < step], [each for each in near if each > step]
        even = below[-1:] + above[:1]
        # A week has no even step.
        offers = " and ".join(f"*/{each}" for each in even)
        hint = f"even steps near {step} are {offers}" if offers else "list the values you want"
        meant = f"*/{min(even, key=lambda each: abs(each - step))}" if even else None
    first = f":{values[0]:02}" if written.index == _MINUTE else str(values[0])
    return line.say("RLY208", message, f"fires at {shown}, then {first}", hint, span, meant=meant)


def _plain_star(line: _Line, step_text: str | None, span: tuple[int, int]) -> Problem | None:
    if step_text != "1":
        return None
    return line.say("RLY216", '"*/1" has a plainer spelling', "the same values", 'write "*"', span, meant="*")


def _not_canonical(line: _Line, written: _Field, found: re.Match[str], span: tuple[int, int]) -> Problem | None:
    low, high, step_text = found.groups()
    kind = written.kind
    full = high is not None and step_text is None and written.index < _WEEKDAY
    if full and (low, high) == (str(kind.first), str(kind.last)) and written.index != _DAY:
        message = f'"{found.group()}" has a plainer spelling'
        return line.say("RLY216", message, "every value", 'write "*"', span, meant="*")
    if written.index == _WEEKDAY and low == "7" and high is None:
        return line.say("RLY216", '"7" has a plainer spelling', "Sunday is 0", 'write "0"', span, meant="0")
    return None


def _span(written: _Field) -> tuple[int, int]:
    return written.start, written.start + len(written.text)


def instant_words(at: datetime) -> str:
    """An instant as problems show it: `Thu 2026-10-01 09:00Z`. Not by strftime, which follows the process's locale."""
    return f"{_WEEKDAYS[at.weekday()]} {at.year:04}-{at.month:02}-{at.day:02} {at.hour:02}:{at.minute:02}Z"
