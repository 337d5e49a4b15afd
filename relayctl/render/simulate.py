"""A window of firings as a table, as counts, or as a picture of a week; as text and JSON. Times are UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from relayctl.core.load import HERD, Density
from relayctl.core.occurrence import instant_text
from relayctl.render.instants import span_text, utc_text
from relayctl.render.table import columns

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHADES = " .:-=+*#%@"
_MOST = 5


def listing(rows: Sequence[tuple[datetime, str]], density: Density) -> str:
    """Every firing on a line, then the summary."""
    table = columns([("AT", "SCHEDULE"), *((utc_text(at), name) for at, name in rows)]) if rows else ""
    left = density.total - len(rows)
    return table + (f"… {left:,} more; --all lists them\n" if left else "") + summary(density)


def counts(found: Mapping[datetime, int], density: Density) -> str:
    """A line per minute or hour with a bar, then the summary."""
    most = max(found.values(), default=1)
    rows = [(utc_text(at), f"{count:,}", "#" * max(1, round(40 * count / most))) for at, count in found.items()]
    return (columns([("FROM", "FIRINGS", ""), *rows]) if rows else "") + summary(density)


def picture(density: Density) -> str:
    """Weekdays across hours: the darker the sign, the more fires there."""
    found = density.by_week_hour()
    most = max(found.values(), default=1)
    lines = ["     " + " ".join(f"{hour:02d}" for hour in range(24))]
    for day, name in enumerate(_DAYS):
        lines.append(f"{name}  " + " ".join(_shade(found.get((day, hour), 0), most) * 2 for hour in range(24)))
    return "\n".join(line.rstrip() for line in lines) + f"\nfullest hour: {most:,} firings\n" + summary(density)


def summary(density: Density) -> str:
    """How many, where they crowd, and which minutes are free."""
    total, length = density.total, span_text(density.window.length)
    lines = [f"{total:,} firing{'' if total == 1 else 's'} in {length}"]
    herds = density.herds()
    if herds:
        shown = ", ".join(f"{utc_text(at)} ({count})" for at, count in herds[:_MOST])
        more = f" and {len(herds) - _MOST:,} more" if len(herds) > _MOST else ""
        lines.append(f"herds of {HERD} or more in a minute: {shown}{more}")
        free = density.free_minutes()
        lines.append(f"minutes with nothing: {', '.join(f':{minute:02d}' for minute in free) if free else 'none'}")
    return "\n".join(lines) + "\n"


def as_document(rows: Sequence[tuple[datetime, str]], density: Density) -> dict[str, Any]:
    """A versioned document with the firings listed, the counts by hour, the herds and the free minutes."""
    return {
        "v": 1,
        "from": instant_text(density.window.after),
        "to": instant_text(density.window.until),
        "total": density.total,
        "firings": [{"at": instant_text(at), "schedule": name} for at, name in rows],
        "by_hour": {instant_text(at): count for at, count in density.by_hour().items()},
        "herds": [{"at": instant_text(at), "count": count} for at, count in density.herds()],
        "free_minutes": density.free_minutes(),
    }


def _shade(count: int, most: int) -> str:
    # Anything at all is visible.
    return _SHADES[0] if count == 0 else _SHADES[max(1, round(count / most * (len(_SHADES) - 1)))]
