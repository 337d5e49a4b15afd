"""The block on what a trigger does: means, rate, next firings, shifts of the clock, caveats; as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from textwrap import wrap
from typing import Any

from relayctl.core.cron import Cron, Every, ShiftEffect, ShiftKind
from relayctl.core.forecast import Forecast, zone_of
from relayctl.core.occurrence import instant_text
from relayctl.render.instants import gap_text, local_text, span_text, utc_time, zone_text
from relayctl.render.wording import describe

_LABEL = 11
_MOST_TIMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """What deserves a second look: a rule's code with its message, and the way out."""

    code: str
    message: str
    help: str = ""


def trigger_line(trigger: Cron | Every) -> str:
    """How the trigger is written: `30 2 * * *   Europe/Rome`."""
    return f"{trigger.expression.strip()}   {trigger.timezone}" if isinstance(trigger, Cron) else every_text(trigger)


def every_text(trigger: Every) -> str:
    """`every 15m`."""
    return trigger.words


def wait_text(span: timedelta) -> str:
    """How long until an instant, in whole seconds."""
    return span_text(max(timedelta(seconds=round(span.total_seconds())), timedelta(0)))


def block(trigger: Cron | Every, ahead: Forecast, caveats: Sequence[Caveat], width: int) -> list[str]:
    """The lines of the block, each label once."""
    lines = field("means", [describe(trigger)], width)
    lines += field("rate", [rate_text(ahead)], width)
    lines += field("next", _next_lines(trigger, ahead), width)
    lines += field("DST", [effect_text(effect, zone_of(trigger)) for effect in ahead.effects[:_MOST_TIMES]], width)
    for caveat in caveats:
        lines += field("note", [f"{caveat.code} {caveat.message}", *([caveat.help] if caveat.help else [])], width)
    return lines


def field(label: str, values: Sequence[str], width: int) -> list[str]:
    """A label with its values below one another; nothing where there are none."""
    room = max(width - _LABEL - 2, 20)
    rows = [row for value in values for row in (_wrapped(value, room) if len(value) > room else [value])]
    return [f"  {label if place == 0 else '':<{_LABEL}}{row}".rstrip() for place, row in enumerate(rows)]


def _wrapped(value: str, room: int) -> list[str]:
    # A path in two pieces can be neither clicked nor copied.
    return wrap(value, room, break_long_words=False, break_on_hyphens=False)


def rate_text(ahead: Forecast) -> str:
    """`365 runs in the next 12 months; usual gap 24 h, shortest 23 h 30 m (DST)`."""
    runs = f"{ahead.runs:,} run{'' if ahead.runs == 1 else 's'} in the next 12 months"
    if ahead.usual_gap is None or ahead.shortest_gap is None:
        return runs
    if ahead.usual_gap == ahead.shortest_gap:
        return f"{runs}; gap {gap_text(ahead.usual_gap)}"
    by_shift = " (DST)" if ahead.is_shortest_by_shift else ""
    return f"{runs}; usual gap {gap_text(ahead.usual_gap)}, shortest {gap_text(ahead.shortest_gap)}{by_shift}"


def effect_text(effect: ShiftEffect, zone: tzinfo) -> str:
    """One shift: the date, the wall time it skips or repeats, and what runs."""
    walls = [wall[11:] for wall in effect.walls]
    is_one, is_many = len(walls) == 1, len(walls) > _MOST_TIMES
    times = f"{walls[0]} to {walls[-1]} ({len(walls)} times)" if is_many else " and ".join(walls)
    if effect.kind is ShiftKind.GAP:
        happens = "does not exist" if is_one else "do not exist"
    else:
        happens = "occurs twice" if is_one else "occur twice"
    return f"{effect.on.isoformat()}  {times} {happens}: {_effect_runs(effect, zone)}"


def _effect_runs(effect: ShiftEffect, zone: tzinfo) -> str:
    fires = effect.fires_at
    if not fires:
        return "no run for it" if len(effect.walls) == 1 else "no run for them"
    if len(fires) > _MOST_TIMES:
        return f"runs {len(fires)} times"
    is_once = effect.kind is ShiftKind.FOLD and len(fires) == len(effect.walls)
    return f"runs {'once, ' if is_once else ''}at {_instants(fires, zone)}"


def as_document(trigger: Cron | Every, ahead: Forecast, caveats: Sequence[Caveat]) -> dict[str, Any]:
    """The same for programs; gaps in seconds."""
    document: dict[str, Any] = {}
    if isinstance(trigger, Cron):
        document |= {"cron": trigger.expression, "canonical": trigger.canonical, "timezone": trigger.timezone}
    else:
        document |= {"every": trigger.canonical}
    return document | {
        "means": describe(trigger),
        "runs_in_12_months": ahead.runs,
        "usual_gap_s": _whole(ahead.usual_gap),
        "shortest_gap_s": _whole(ahead.shortest_gap),
        "next": [instant_text(at) for at in ahead.next_at],
        "dst": [
            {
                "kind": effect.kind.value,
                "date": effect.on.isoformat(),
                "wall_times": list(effect.walls),
                "fires_at": [instant_text(at) for at in effect.fires_at],
            }
            for effect in ahead.effects
        ],
        "caveats": [{"code": caveat.code, "message": caveat.message, "help": caveat.help} for caveat in caveats],
    }


def _next_lines(trigger: Cron | Every, ahead: Forecast) -> list[str]:
    if not ahead.next_at:
        return ["never"]
    zone = zone_of(trigger)
    rows = []
    for at in ahead.next_at:
        beside = "" if zone is UTC or _is_utc(at, zone) else f"    {utc_time(at, at.astimezone(zone))}"
        rows.append(f"{local_text(at, zone)}{beside}")
    wide = max(map(len, rows))
    rows[0] = f"{rows[0]:<{wide}}    in {wait_text(ahead.next_at[0] - ahead.now)}"
    return rows


def _instants(instants: Sequence[datetime], zone: tzinfo) -> str:
    return " and ".join(_instant(at, zone) for at in instants)


def _instant(at: datetime, zone: tzinfo) -> str:
    local = at.astimezone(zone)
    return f"{local.hour:02d}:{local.minute:02d} {zone_text(local)} ({utc_time(at, local)})"


def _is_utc(at: datetime, zone: tzinfo) -> bool:
    local = at.astimezone(zone)
    return local.utcoffset() == timedelta(0) and local.tzname() in {"UTC", "GMT"}


def _whole(span: timedelta | None) -> int | None:
    return None if span is None else int(span.total_seconds())
