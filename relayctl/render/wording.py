"""What a trigger means, in one English sentence. The door to cron-descriptor, which is asked only where it is right.

Uneven steps, ranges of hours and joined day fields get words of our own, made from the values that really fire.
Nothing is validated here: a `Cron` is already valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

from relayctl.core.cron import Cron, Every
from relayctl.core.crongrammar import FieldValue, read_expression, values_of
from relayctl.render.instants import span_text

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MOST_TIMES = 6


def describe(trigger: Cron | Every) -> str:
    """The sentence, without a full stop."""
    if isinstance(trigger, Every):
        return _every(trigger.seconds)
    if not trigger.can_fire:
        return "Never: no date matches"
    fields = read_expression(trigger.canonical)
    if _is_plain(fields):
        return _by_library(trigger.canonical)
    return f"{_times(fields[0], fields[1])}{_dates(fields)}"


def _every(seconds: int) -> str:
    span = span_text(timedelta(seconds=seconds))
    unit = {"1 s": "second", "1 m": "minute", "1 h": "hour", "1 d": "day"}.get(span, span)
    return f"Every {unit}, counted from 1970-01-01 00:00 UTC"


def _is_plain(fields: tuple[FieldValue, ...]) -> bool:
    """One or two times of day on every day or on plainly listed days of one kind: there the library says what is so."""
    minute, hour, day, month, weekday = fields
    is_by_clock = minute.leads_with_star or hour.leads_with_star  # for the library a rate, though it is a list of times
    is_time = len(values_of(minute.mask)) == 1 and len(values_of(hour.mask)) <= 2 and not is_by_clock
    has_one_kind = day.is_star or weekday.is_star
    is_listed = not (day.leads_with_star and not day.is_star) and not (weekday.leads_with_star and not weekday.is_star)
    is_short = len(values_of(month.mask)) in {1, 12} and all(
        field.is_star or len(values_of(field.mask)) <= 2 for field in (day, weekday)
    )
    return is_time and has_one_kind and is_listed and is_short


def _by_library(canonical: str) -> str:
    from cron_descriptor import Options, get_description

    # Told a language, the library does not ask the host's locale, and does not warn where there is none.
    options = Options(locale_code="en_US", use_24hour_time_format=True, verbose=True)
    return str(get_description(canonical, options))


def _times(minute: FieldValue, hour: FieldValue) -> str:
    minutes, hours = values_of(minute.mask), values_of(hour.mask)
    is_all_day = len(hours) == 24
    if len(minutes) * len(hours) <= _MOST_TIMES:
        return "At " + _joined([f"{h:02d}:{m:02d}" for h in hours for m in minutes])
    if len(minutes) == 60:
        return "Every minute" + ("" if is_all_day else _hours(hours, last_minute=59))
    if len(minutes) == 1:
        return _hourly(minutes[0], hours)
    step = _even_step(minutes, 60)
    if step is not None and _is_run(hours):
        head = f"Every {step} minutes" + (f" at {_marks(minutes)}" if minutes[0] and is_all_day else "")
        return head + (
            "" if is_all_day else f" from {hours[0]:02d}:{minutes[0]:02d} through {hours[-1]:02d}:{minutes[-1]:02d}"
        )
    return f"At {_marks(minutes)}" + (" of every hour" if is_all_day else f" of {_hour_list(hours)}")


def _hourly(minute: int, hours: Sequence[int]) -> str:
    if len(hours) == 24:
        return f"Every hour at :{minute:02d}"
    step = _even_step(hours, 24)
    if step is not None:
        return f"Every {step} hours by the clock, from {hours[0]:02d}:{minute:02d} through {hours[-1]:02d}:{minute:02d}"
    if _is_run(hours):
        return f"Every hour at :{minute:02d} from {hours[0]:02d}:{minute:02d} through {hours[-1]:02d}:{minute:02d}"
    return "At " + _joined([f"{hour:02d}:{minute:02d}" for hour in hours])


def _hours(hours: Sequence[int], *, last_minute: int) -> str:
    if _is_run(hours):
        return f" from {hours[0]:02d}:00 through {hours[-1]:02d}:{last_minute:02d}"
    return f" of {_hour_list(hours)}"


def _hour_list(hours: Sequence[int]) -> str:
    if _is_run(hours) and len(hours) > 2:
        return f"each hour from {hours[0]:02d} through {hours[-1]:02d}"
    return ("hour " if len(hours) == 1 else "hours ") + _joined([f"{hour:02d}" for hour in hours])


def _marks(minutes: Sequence[int]) -> str:
    if _is_run(minutes) and len(minutes) > 2:
        return f":{minutes[0]:02d} through :{minutes[-1]:02d}"
    return _joined([f":{minute:02d}" for minute in minutes])


def _dates(fields: tuple[FieldValue, ...]) -> str:
    day, month, weekday = fields[2:]
    months = values_of(month.mask)
    in_months = "" if len(months) == 12 else f", {_month_words(months)}"
    has_days, has_weekdays = len(values_of(day.mask)) < 31, len(_week(weekday)) < 7
    if not (day.is_star or weekday.is_star):
        # Two restricted fields: either one is enough, so a field that lists everything makes it every day.
        return (_either(day, weekday) if has_days and has_weekdays else ", every day") + in_months
    parts = []
    if has_weekdays:
        parts.append(f"on {_ranged(_week(weekday), _DAYS)}")
    if has_days:
        parts.append(f"{'when that is' if parts else 'on'} {_day_words(values_of(day.mask))}")
    if not parts:
        return in_months or (", every day" if _names_a_time(fields) else "")
    return ", " + " ".join(parts) + in_months


def _either(day: FieldValue, weekday: FieldValue) -> str:
    return (
        f", on {_day_words(values_of(day.mask))} and also on every {_ranged(_week(weekday), _DAYS, last='and every')}"
    )


def _names_a_time(fields: tuple[FieldValue, ...]) -> bool:
    return len(values_of(fields[1].mask)) < 24


def _day_words(days: Sequence[int]) -> str:
    noun = "day" if len(days) == 1 else "days"
    return f"{noun} {_ranged(days)} of the month"


def _month_words(months: Sequence[int]) -> str:
    return f"{'from' if len(months) > 2 and _is_run(months) else 'in'} {_ranged(months, _MONTHS)}"


def _week(weekday: FieldValue) -> tuple[int, ...]:
    """Monday first; Sunday is 7."""
    return tuple(sorted(value or 7 for value in values_of(weekday.mask)))


def _ranged(values: Sequence[int], names: Sequence[str] | None = None, *, last: str = "and") -> str:
    """A list in which three neighbours or more are `a through b`."""
    words: list[str] = []
    start = 0
    for place in range(1, len(values) + 1):
        if place < len(values) and values[place] == values[place - 1] + 1:
            continue
        run = [str(value) if names is None else names[value] for value in values[start:place]]
        words += [f"{run[0]} through {run[-1]}"] if len(run) > 2 else run
        start = place
    return _joined(words, last)


def _joined(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _is_run(values: Sequence[int]) -> bool:
    return values[-1] - values[0] == len(values) - 1


def _even_step(values: Sequence[int], size: int) -> int | None:
    """The step of values that repeat evenly around the clock, or None."""
    if len(values) < 2 or size % len(values):
        return None
    step = size // len(values)
    return step if all(late - early == step for early, late in pairwise(values)) else None
