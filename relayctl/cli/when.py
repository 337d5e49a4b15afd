"""Instants as users write them in flags and arguments: RFC 3339, a date, or `now` plus or minus a duration."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from relayctl.core.duration import DurationError, format_duration, parse_duration
from relayctl.errors import UsageError

_FORM = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d{2}:\d{2})?)?", re.ASCII
)


def parse_instant(text: str, now: datetime) -> datetime:
    """The instant in UTC, at whole seconds as firings are; without an offset it is read as UTC."""
    relative = re.fullmatch(r"now(?:([+-])(.+))?", text.strip())
    if relative:
        return _relative(text, relative, now)
    if _FORM.fullmatch(text.strip()):
        try:
            at = datetime.fromisoformat(text.strip().upper())
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
        except (ValueError, OverflowError):
            pass
    raise UsageError(f"not an instant: {text!a}", help="write 2026-09-29T03:00:00Z, 2026-09-29, now or now+90m")


def parse_firing(text: str, now: datetime) -> datetime | date | None:
    """A firing that is asked for: an instant, a day, or None for the last one that was due (`latest`, or nothing)."""
    if text in {"", "latest"}:
        return None
    at = parse_instant(text, now)
    return date.fromisoformat(text) if len(text) == len("2026-09-29") and text.count("-") == 2 else at


def _relative(text: str, match: re.Match[str], now: datetime) -> datetime:
    sign, duration = match.groups()
    if sign is None:
        return now
    try:
        span = parse_duration(duration)
        return (now + span if sign == "+" else now - span).replace(microsecond=0)
    except (DurationError, OverflowError):
        raise UsageError(f"not an instant: {text!a}", help="write the duration as 90m, 1h30m or 2d") from None


def parse_span(text: str, flag: str, *, longest: timedelta) -> timedelta:
    """The duration given with a flag: above zero and at most `longest`."""
    try:
        span = parse_duration(text)
    except DurationError as error:
        raise UsageError(f"{flag}: {error}", help=error.help or "write a duration such as 90m or 7d") from None
    if not timedelta(0) < span <= longest:
        raise UsageError(
            f"{flag}: {text} is out of range", help=f"write a duration above zero and up to {format_duration(longest)}"
        )
    return span
