"""Why an expression is refused and what to write instead, for the whole text: descriptors, prefixes, field counts.

Faults inside one field are `cronmember`'s. Every form that it suggests has been read by the grammar first.
"""

from __future__ import annotations

import re
import unicodedata
from difflib import get_close_matches
from typing import TYPE_CHECKING

from relayctl.core.cronerror import CronError
from relayctl.core.crongrammar import (
    BLANKS,
    DESCRIPTORS,
    FIELDS,
    LONGEST_EXPRESSION,
    WEEKDAY_NAMES,
    Fault,
    read_expression,
)
from relayctl.core.cronmember import explain_member
from relayctl.core.duration import DurationError, parse_duration
from relayctl.core.zonenames import likely_names
from relayctl.core.zones import zone_names

if TYPE_CHECKING:
    from collections.abc import Callable

_FIELD_LIST = "minute hour day-of-month month day-of-week"
_PREFIX = re.compile(r"[ \t]*(?:CRON_)?TZ[ \t]*=[ \t]*([^ \t]*)[ \t]*", re.IGNORECASE)
_QUOTES = "\"'`\u2018\u2019\u201c\u201d\xab\xbb"
_YEAR = re.compile(r"\*|(?:19|20)[0-9]{2}(?:[-,/][0-9]+)*")
_CLOCK = re.compile(r"([0-9]{1,2})[:.]([0-9]{2})(?::00)?")
_DEPTH = 4
_SHOWN = 80


def explain(text: str, depth: int = _DEPTH) -> CronError:
    """The error for an expression that the grammar refuses; `depth` bounds how many repairs may be put together."""
    trimmed = text.strip(" \t")
    if len(text) > LONGEST_EXPRESSION:
        return CronError(
            f"the expression has {len(text)} characters, at most {LONGEST_EXPRESSION} are read",
            code="RLY201",
            help="split it into several schedules",
            span=(LONGEST_EXPRESSION, len(text)),
        )
    if not trimmed:
        return CronError(
            f"the expression is empty; expected five fields ({_FIELD_LIST})",
            code="RLY202",
            help='write five fields, as in "0 3 * * *", or a descriptor such as @daily',
            span=(0, len(text)),
        )
    for attempt in (_explain_quotes, _explain_prefix, _explain_descriptor, _explain_characters, _explain_count):
        error = attempt(text, depth)
        if error is not None:
            return error
    try:
        read_expression(text)
    except Fault as fault:
        return explain_member(text, fault, lambda candidate: portable(candidate, depth - 1))
    return CronError("the expression is valid", code="RLY201")


def portable(text: str, depth: int = _DEPTH) -> dict[str, str] | None:
    """Keys that say what this text meant, the text itself if the grammar takes it; None where nothing is sure."""
    try:
        read_expression(text)
    except Fault:
        return explain(text, depth).suggestion if depth > 0 else None
    return {"cron": text}


def _explain_quotes(text: str, depth: int) -> CronError | None:
    start = len(text) - len(text.lstrip(" \t"))
    end = len(text.rstrip(" \t"))
    if text[start] not in _QUOTES and text[end - 1] not in _QUOTES:
        return None
    inner = text[start:end].strip(_QUOTES + " \t")
    meant = portable(inner, depth - 1) if inner else None
    return CronError(
        f"quote marks are a part of the value, in the minute field or the last one: {text[start:end][:_SHOWN]}",
        code="RLY201",
        help=_write(meant, "without quote marks of its own; those of YAML are no part of the value"),
        span=(start, end),
        suggestion=meant,
    )


def _explain_prefix(text: str, depth: int) -> CronError | None:
    found = _PREFIX.match(text)
    if found is None:
        return None
    name, rest = found.group(1).strip(_QUOTES), text[found.end() :].strip(" \t")
    zone: str | None = name if name in zone_names() else None
    advice = "say the zone with the timezone key beside cron"
    if zone is None:
        likely = likely_names(name, zone_names())
        zone = likely.names[0] if likely.is_sure else None
        advice += f"; {_shown(name)} is no zone name: {likely.help}" if name else "; here no zone follows the sign"
    meant = portable(rest, depth - 1) if rest and zone else None
    whole = {**meant, "timezone": zone} if meant and zone and "cron" in meant else None
    if whole:
        advice = f'write cron: "{whole["cron"]}" and timezone: {zone}'
    return CronError(
        f"a zone prefix ({_shown(found.group(0).strip())}) stands before the minute field",
        code="RLY204",
        help=advice,
        span=(len(text) - len(text.lstrip(" \t")), found.end()),
        suggestion=whole,
    )


def _explain_descriptor(text: str, depth: int) -> CronError | None:
    trimmed = text.strip(" \t")
    if not trimmed.startswith("@") or trimmed.strip() in DESCRIPTORS:
        return None  # what is wrong with a descriptor between odd blanks is the blanks
    word, *rest = trimmed.split()
    start = text.index("@")
    found, advice, meant = _read_descriptor(word, rest, depth)
    return CronError(
        found,
        code="RLY203",
        help=_write(meant, advice),
        span=(start, start + len(trimmed)),
        suggestion=meant,
    )


def _read_descriptor(word: str, rest: list[str], depth: int) -> tuple[str, str, dict[str, str] | None]:
    """Message, way out and portable form for text that begins with `@`."""
    lowered = word.lower()
    allowed = "the descriptors are " + " ".join(DESCRIPTORS)
    if lowered == "@every":
        meant = _every(" ".join(rest))
        why = "@every counts from the start of each worker, so workers cannot agree on an instant"
        return why, "the key every takes a duration and counts from a fixed origin", meant
    if lowered == "@reboot":
        why = "@reboot names no instant: a fleet has no one start"
        return why, "a process that is to run from the start is a service; work at times is a cron expression", None
    if lowered in DESCRIPTORS:
        if not rest:
            return f"descriptors are in lower case, found {_shown(word)}", allowed, {"cron": lowered}
        clock = _CLOCK.fullmatch(rest[0])
        if clock and len(rest) == 1 and lowered in {"@daily", "@midnight"}:
            meant = portable(f"{int(clock[2])} {int(clock[1])} * * *", depth - 1)
            return f"a descriptor takes no time, found {_shown(rest[0])} after {lowered}", allowed, meant
        return (
            f"text follows the descriptor {lowered}: {_shown(' '.join(rest))}",
            f"write {lowered} alone; {allowed}",
            None,
        )
    common = {"@every_minute": "* * * * *", "@minutely": "* * * * *", "@weekdays": "0 0 * * 1-5"}
    if lowered in common and not rest:
        return f"{_shown(word)} is not one of the calendar descriptors", allowed, {"cron": common[lowered]}
    if lowered in {"@every_second", "@secondly"} and not rest:
        return f"{_shown(word)} is not one of the calendar descriptors", allowed, {"every": "1s"}
    close = get_close_matches(lowered, DESCRIPTORS, n=1, cutoff=0.7)
    nearest = f'did you mean "{close[0]}"? ' if close else ""
    return f"{_shown(word)} is not one of the calendar descriptors", nearest + allowed, None


def _every(text: str) -> dict[str, str] | None:
    """`every` for a duration as Go and its cron write it."""
    try:
        length = parse_duration(text)
    except DurationError as error:
        if error.suggestion is None:
            return None
        text, length = error.suggestion, parse_duration(error.suggestion)
    return {"every": text} if length and not length.microseconds else None


def _explain_characters(text: str, depth: int) -> CronError | None:
    """Characters that look like others, and line breaks."""
    at = next((place for place, char in enumerate(text) if not (" " <= char <= "~" or char == "\t")), None)
    if at is None:
        return None
    index, word = _word_at(text, at)
    plain = " ".join(unicodedata.normalize("NFKC", text).replace("\u2217", "*").split())
    meant = portable(plain, depth - 1) if plain != text else None
    where = f"{FIELDS[index].name} field" if index < len(FIELDS) else "after the five fields"
    if word.startswith("@"):
        where = "the descriptor"
    return CronError(
        f"{where}, {_shown(word)}: {_named(text[at])} is not allowed",
        code="RLY201",
        help=_write(meant, "use plain digits, letters, * , - / and blanks, on one line"),
        span=(at, at + 1),
        suggestion=meant,
    )


def _explain_count(text: str, depth: int) -> CronError | None:
    words = BLANKS.split(text.strip(" \t"))
    if len(words) == len(FIELDS):
        return None
    start = len(text) - len(text.lstrip(" \t"))
    meant, advice = None, f"write five fields: {_FIELD_LIST}"
    for attempt in _READINGS:
        reading = attempt(words, lambda candidate: portable(candidate, depth - 1))
        if reading is not None:
            meant, advice = reading
            break
    return CronError(
        f"{len(words)} field{'s' if len(words) > 1 else ''} where five are expected ({_FIELD_LIST})",
        code="RLY202",
        help=_write(meant, advice),
        span=(start, len(text.rstrip(" \t"))),
        suggestion=meant,
    )


if TYPE_CHECKING:
    _Meaning = dict[str, str] | None
    _Portable = Callable[[str], _Meaning]
    _Reading = tuple[_Meaning, str] | None


def _joined(words: list[str], _: _Portable) -> _Reading:
    """Blanks around the commas, dashes and slashes of a list."""
    candidate = re.sub(r" ?([,/-]) ?", r"\1", " ".join(words))
    if not 5 <= len(candidate.split(" ")) < len(words):
        return None
    meant = portable(candidate, 1)
    return (meant, "join each list: no blanks around commas, dashes and slashes") if meant else None


def _commented(words: list[str], meaning: _Portable) -> _Reading:
    place = next((index for index, word in enumerate(words) if word.startswith("#")), 0)
    meant = meaning(" ".join(words[:place])) if place else None
    return (meant, "put the comment outside the value") if meant else None


def _with_zone(words: list[str], meaning: _Portable) -> _Reading:
    """A zone name before or after the expression."""
    for at, rest in ((0, words[1:]), (-1, words[:-1])):
        zone = words[at].strip("()[],;" + _QUOTES)
        meant = meaning(" ".join(rest)) if rest and zone in zone_names() else None
        if meant and "cron" in meant and "timezone" not in meant:
            return {**meant, "timezone": zone}, "the zone has a key of its own, beside cron"
    return None


def _bare_word(words: list[str], _: _Portable) -> _Reading:
    """A descriptor without its sign, or an interval in words."""
    lowered = [word.lower() for word in words]
    if len(words) == 1 and f"@{lowered[0]}" in DESCRIPTORS:
        return {"cron": f"@{lowered[0]}"}, "a descriptor begins with @"
    meant = _every("".join(lowered[1:])) if lowered[0] == "every" and len(words) > 1 else None
    return (meant, "the key every takes a duration and counts from a fixed origin") if meant else None


def _with_year(words: list[str], meaning: _Portable) -> _Reading:
    """Minute first and a year last, as in EventBridge."""
    if len(words) != 6 or not _YEAR.fullmatch(words[5]):
        return None
    is_dialect = "?" in (words[2], words[4])
    if words[5] == "*" and not is_dialect:
        return None
    meant = meaning(" ".join(_classic_days(words[:5], is_dialect)))
    return (meant, "drop the year: there is no such field") if meant else None


def _with_seconds(words: list[str], meaning: _Portable) -> _Reading:
    """Seconds first."""
    if len(words) != 6:
        return None
    every = re.fullmatch(r"\*(?:/([0-9]{1,2}))?", words[0])
    if every and set(words[1:]) <= {"*", "?"} and 60 % (int(every[1] or 1) or 61) == 0:
        return {"every": f"{int(every[1] or 1)}s"}, "drop the seconds: cron goes by the minute; below it there is every"
    meant = meaning(" ".join(_classic_days(words[1:], "?" in (words[3], words[5]))))
    return (meant, "drop the seconds: cron goes by the minute; below it there is every") if meant else None


def _with_both(words: list[str], meaning: _Portable) -> _Reading:
    """Seconds first and a year last."""
    if len(words) != 7 or not _YEAR.fullmatch(words[6]):
        return None
    meant = meaning(" ".join(_classic_days(words[1:6], "?" in (words[3], words[5]))))
    return (meant, "drop the seconds and the year") if meant else None


def _with_command(words: list[str], _: _Portable) -> _Reading:
    """A line of a crontab."""
    meant = portable(" ".join(words[:5]), 0) if len(words) > 5 else None
    return (meant, "keep the five fields; the command becomes the handler") if meant else None


def _clock_time(words: list[str], meaning: _Portable) -> _Reading:
    clock = _CLOCK.fullmatch(words[0]) if len(words) == 1 else None
    meant = meaning(f"{int(clock[2])} {int(clock[1])} * * *") if clock else None
    return (meant, "a time of day is written minute first") if meant else None


# The likeliest first: one that explains the text ends the search.
_READINGS = (
    _joined,
    _commented,
    _with_zone,
    _bare_word,
    _with_year,
    _with_seconds,
    _with_both,
    _with_command,
    _clock_time,
)


def _classic_days(words: list[str], is_dialect: bool) -> list[str]:
    """Five fields of a dialect with `?`, where Sunday is 1, in classic words."""
    if not is_dialect:
        return words
    *others, weekday = ["*" if word == "?" else word for word in words]
    if re.fullmatch(r"[1-7](?:[-,][1-7])*", weekday):
        weekday = re.sub("[1-7]", lambda digit: WEEKDAY_NAMES[int(digit[0]) - 1], weekday)
    return [*others, weekday]


def _write(meant: _Meaning, otherwise: str) -> str:
    """The way out: the form to write, with the reason after it."""
    if meant is None:
        return otherwise
    forms = " and ".join(f'{key}: "{value}"' for key, value in meant.items())
    return f"write {forms} ({otherwise})"


def _word_at(text: str, at: int) -> tuple[int, str]:
    """Which field holds this character, and its text."""
    words = list(re.finditer(r"[^ \t]+", text))
    index = next((place for place, word in enumerate(words) if word.start() <= at < word.end()), 0)
    return index, words[index].group()


def _named(char: str) -> str:
    name = {"\n": "a line break", "\r": "a line break"}.get(char) or unicodedata.name(
        char, "a control character"
    ).lower()
    return f"{name} (U+{ord(char):04X})"


def _shown(text: str) -> str:
    escaped = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[: _SHOWN + 1])
    return f'"{escaped}"' if len(escaped) <= _SHOWN else f'"{escaped[:_SHOWN]}…"'
