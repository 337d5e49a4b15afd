"""A window of firings as a table, as counts, or as a picture of a week; as text and JSON. Times are UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Any

from relayctl.core.counting import counted
from relayctl.core.load import HERD, Density
from relayctl.core.occurrence import instant_text
from relayctl.render.instants import gap_text, utc_text
from relayctl.render.table import columns

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHADES = " .:-=+*#%@"
_MOST = 5
_LONGEST_BAR = 40
_BESIDE_BAR = 30


def listing(rows: Sequence[tuple[datetime, str]], density: Density, width: int) -> str:
    """Every firing on a line, then the summary."""
    table = columns([("AT", "SCHEDULE"), *((utc_text(at), name) for at, name in rows)]) if rows else ""
    left = density.total - len(rows)
    return table + (f"… {left:,} more; --all lists them\n" if left else "") + summary(density, width)


def counts(found: Mapping[datetime, int], density: Density, width: int) -> str:
    """A line per minute or hour with a bar, then the summary."""
    most, room = max(found.values(), default=1), min(max(width - _BESIDE_BAR, 8), _LONGEST_BAR)
    rows = [(utc_text(at), f"{count:,}", "#" * max(1, round(room * count / most))) for at, count in found.items()]
    return (columns([("FROM", "FIRINGS", ""), *rows]) if rows else "") + summary(density, width)


def picture(density: Density, width: int) -> str:
    """Weekdays across hours: the darker the sign, the more fires there."""
    found = density.by_week_hour()
    most = max(found.values(), default=1)
    is_wide = width >= len(_DAYS[0]) + 1 + 24 * 3
    gap, wide = (" ", 2) if is_wide else ("", 1)
    heads = [f"{hour:02d}" if is_wide else f"{hour:<6}" for hour in range(0, 24, 1 if is_wide else 6)]
    lines = ["     " + gap.join(heads)]
    for day, name in enumerate(_DAYS):
        lines.append(f"{name}  " + gap.join(_shade(found.get((day, hour), 0), most) * wide for hour in range(24)))
    lines.append(f"fullest hour (UTC): {counted(most, 'firing')}" if found else "no hour has any")
    return "\n".join(line.rstrip() for line in lines) + "\n" + summary(density, width)


def summary(density: Density, width: int) -> str:
    """How many, where they crowd, and which minutes are free."""
    lines = [f"{counted(density.total, 'firing')} in {gap_text(density.window.length)}"]
    herds = density.herds()
    shown = ", ".join(f"{utc_text(at)} ({count})" for at, count in herds[:_MOST])
    more = f" and {len(herds) - _MOST:,} more" if len(herds) > _MOST else ""
    lines.append(f"herds of {HERD} or more in a minute: {shown or 'none'}{more}")
    if density.total:
        lines.append(f"minutes with nothing: {_ranges(density.free_minutes()) or 'none'}")
    return "\n".join(row for line in lines for row in wrap(line, max(width, 20), subsequent_indent="  ")) + "\n"


def _ranges(minutes: Sequence[int]) -> str:
    """`:05, :10 to :14`."""
    runs: list[list[int]] = []
    for minute in minutes:
        if runs and minute == runs[-1][-1] + 1:
            runs[-1].append(minute)
        else:
            runs.append([minute])
    return ", ".join(f":{run[0]:02d}" if len(run) == 1 else f":{run[0]:02d} to :{run[-1]:02d}" for run in runs)


def as_document(
    rows: Sequence[tuple[datetime, str]], density: Density, *, with_minutes: bool = False
) -> dict[str, Any]:
    """A versioned document with the firings listed, the counts by hour, the herds and the free minutes."""
    by_minute = {instant_text(at): count for at, count in density.by_minute.items()}
    return {
        "v": 1,
        "from": instant_text(density.window.after),
        "to": instant_text(density.window.until),
        "total": density.total,
        "firings": [{"at": instant_text(at), "schedule": name} for at, name in rows],
        "by_hour": {instant_text(at): count for at, count in density.by_hour().items()},
        **({"by_minute": by_minute} if with_minutes else {}),
        "herds": [{"at": instant_text(at), "count": count} for at, count in density.herds()],
        "free_minutes": density.free_minutes(),
    }


def _shade(count: int, most: int) -> str:
    # Anything at all is visible.
    return _SHADES[0] if count == 0 else _SHADES[max(1, round(count / most * (len(_SHADES) - 1)))]
