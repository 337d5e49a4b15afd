"""Instants and spans in words: always English, 24-hour, the zone written beside the time. The locale is never asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def clock_text(at: datetime) -> str:
    """`10:15:02Z`."""
    return f"{at.astimezone(UTC):%H:%M:%S}Z"


def utc_text(at: datetime) -> str:
    """`2026-09-29 10:15Z`, with seconds where there are any."""
    at = at.astimezone(UTC)
    return f"{_date(at)} {_time(at)}Z"


def utc_time(at: datetime, beside: datetime | None = None) -> str:
    """`00:30Z`, with the date in front when it differs from that of the local time `beside`."""
    at = at.astimezone(UTC)
    is_same_day = beside is None or (at.year, at.month, at.day) == (beside.year, beside.month, beside.day)
    return f"{_time(at)}Z" if is_same_day else f"{at.month:02d}-{at.day:02d} {_time(at)}Z"


def local_text(at: datetime, zone: tzinfo) -> str:
    """`Wed 2026-09-30 02:30 CEST`."""
    local = at.astimezone(zone)
    return f"{_DAYS[local.weekday()]} {_date(local)} {_time(local)} {zone_text(local)}"


def local_short(at: datetime, zone: tzinfo) -> str:
    """`Wed 30 Sep 02:30 CEST`, for tables."""
    local = at.astimezone(zone)
    return f"{_DAYS[local.weekday()]} {local.day:02d} {_MONTHS[local.month - 1]} {_time(local)} {zone_text(local)}"


def zone_text(local: datetime) -> str:
    """The abbreviation in force, or `UTC+03` where the zone has none."""
    name = local.tzname() or ""
    if name and name[0].isalpha():
        return name
    minutes = int((local.utcoffset() or timedelta()).total_seconds() // 60)
    sign, minutes = "-" if minutes < 0 else "+", abs(minutes)
    return f"UTC{sign}{minutes // 60:02d}" + (f":{minutes % 60:02d}" if minutes % 60 else "")


def span_text(span: timedelta) -> str:
    """A length of time in its two largest units: `14 h 15 m`, `1 d 18 h`, `8.2 s`, `120 ms`."""
    sign = "-" if span < timedelta(0) else ""
    span = abs(span)
    if span < timedelta(seconds=1):
        return f"{sign}{span // timedelta(milliseconds=1)} ms"
    # Rounded before the unit is chosen, so that a few milliseconds short of a minute are a minute.
    tenths = round(span.total_seconds(), 1)
    if tenths < 60:
        return f"{sign}{tenths:.1f}".removesuffix(".0") + " s"
    seconds = round(span.total_seconds())
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    found = [(seconds // size if unit == "d" else seconds // size % _next(unit), unit) for unit, size in units]
    start = next(place for place, (count, _) in enumerate(found) if count)
    return sign + " ".join(f"{count} {unit}" for count, unit in found[start : start + 2] if count)


def span_short(span: timedelta) -> str:
    """The same without spaces inside a unit, for tables: `14h 15m`."""
    return (
        span_text(span).replace(" d", "d").replace(" h", "h").replace(" ms", "ms").replace(" m", "m").replace(" s", "s")
    )


def gap_text(span: timedelta) -> str:
    """A gap between firings, in hours up to two days: `24 h`, `23 h 30 m`, `7 d`."""
    seconds = int(span.total_seconds())
    if seconds < 48 * 3600 and seconds >= 3600:
        hours, rest = divmod(seconds, 3600)
        return f"{hours} h" + (f" {rest // 60} m" if rest // 60 else "") + (f" {rest % 60} s" if rest % 60 else "")
    return span_text(span)


def _next(unit: str) -> int:
    return {"h": 24, "m": 60, "s": 60}[unit]


def _date(at: datetime) -> str:
    return f"{at.year:04d}-{at.month:02d}-{at.day:02d}"


def _time(at: datetime) -> str:
    return f"{at.hour:02d}:{at.minute:02d}" + (f":{at.second:02d}" if at.second else "")
