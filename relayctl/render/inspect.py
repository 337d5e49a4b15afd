"""What schedules mean and when they fire, as a table or in detail; as text and JSON.

A row's `live` is what only a running fleet knows; without it the answer rests on the templates alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from textwrap import wrap
from typing import Any

from relayctl.core.cron import Cron
from relayctl.core.duration import format_duration
from relayctl.core.forecast import Forecast, next_firings, zone_of
from relayctl.core.model import App, Contract, Schedule
from relayctl.core.occurrence import instant_text, second_text
from relayctl.render import firing
from relayctl.render.instants import local_short, span_short
from relayctl.render.live import Live
from relayctl.render.table import columns

_STATE_SEEN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One schedule of the table."""

    app: str
    schedule: Schedule
    next_at: datetime | None
    live: Live | None = None

    @property
    def name(self) -> str:
        """`app/schedule`."""
        return f"{self.app}/{self.schedule.name}"

    @property
    def state(self) -> str:
        """What is odd about it."""
        if self.live is not None and self.live.state:
            return self.live.state
        return "" if self.schedule.enabled else "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One schedule with everything about it. `handler_at` and `source` are `file:line`."""

    row: Row
    ahead: Forecast
    caveats: Sequence[firing.Caveat] = ()
    handler_at: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows to show, in order, and how many there are; `counted` are all of them where some are left out."""

    rows: Sequence[Row]
    now: datetime
    total: int
    zone: tzinfo | None = None
    apps: Sequence[App] = field(default=())
    counted: Sequence[Row] = field(default=())


def rows_of(apps: Sequence[App], now: datetime, live: Mapping[tuple[str, str], Live] | None = None) -> list[Row]:
    """A row per schedule. A disabled or paused schedule has no next instant."""
    rows = []
    for app in apps:
        for schedule in app.schedules:
            known = (live or {}).get((app.name, schedule.name))
            fires = schedule.enabled and not (known and known.is_paused)
            upcoming = next_firings(schedule.trigger, now, 1) if fires else ()
            rows.append(Row(app=app.name, schedule=schedule, next_at=upcoming[0] if upcoming else None, live=known))
    return rows


def table_text(table: Table, width: int) -> str:
    """The table with its closing line."""
    body = [_cells(row, table) for row in table.rows]
    text = _fitting([("SCHEDULE", "CRON", "ZONE", "NEXT", "IN", "STATE"), *body], width) if body else ""
    if left := table.total - len(table.rows):
        text += f"… {left} more; --all lists them\n"
    text += _handlers_text(table.apps, width)
    zone = "" if table.zone or not body else "  Times in each schedule's own zone; --utc for UTC."
    noun = "schedule" if table.total == 1 else "schedules"
    closing = f"{table.total} {noun}{_tally(table)}.{zone}"
    return text + "\n".join(wrap(closing, max(width, 20)) if len(closing) > width else [closing]) + "\n"


def _tally(table: Table) -> str:
    """What is odd among all rows, the ones left out included."""
    live = [row.live for row in table.counted or table.rows if row.live is not None]
    counts = {
        "paused": sum(1 for each in live if each.is_paused),
        "drifted": sum(1 for each in live if each.is_drifted),
        "not applied": sum(1 for each in live if each.is_unapplied),
        "disabled": sum(1 for row in table.counted or table.rows if not row.schedule.enabled),
    }
    found = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f": {found}" if found else ""


def table_document(table: Table) -> dict[str, Any]:
    """A versioned document with every row that was asked for."""
    now = second_text(table.now)
    return {"v": 1, "now": now, "schedules": [_row_document(row) for row in table.rows]}


def detail_text(detail: Detail, width: int) -> str:
    """One schedule: the block of its firings, then its contract and where it comes from."""
    schedule, live = detail.row.schedule, detail.row.live
    status = " · ".join(part for part in (live.sync, live.health) if part) if live else ""
    lines = [f"{detail.row.name:<{max(width - len(status) - 1, 1)}} {status}".rstrip()]
    kind = "cron" if isinstance(schedule.trigger, Cron) else "every"
    lines += firing.field(kind, [firing.trigger_line(schedule.trigger).removeprefix("every ")], width)
    lines += firing.block(schedule.trigger, detail.ahead, detail.caveats, width)
    lines += firing.field("state", _odd(detail.row), width)
    lines += firing.field("handler", [f"{schedule.contract.handler}    {detail.handler_at}".rstrip()], width)
    capped_to = live.capped_to if live else None
    lines += firing.field("timeout", [contract_text(schedule, capped_to)], width)
    if schedule.description:
        lines += firing.field("about", [" ".join(schedule.description.split())], width)
    if live and live.last:
        lines += firing.field("last", [live.last], width)
    source = f"{detail.source}, {live.release}" if live and live.release else detail.source
    lines += firing.field("source", [source] if source else [], width)
    return "\n".join(lines) + "\n"


def detail_document(detail: Detail) -> dict[str, Any]:
    """A versioned document."""
    schedule = detail.row.schedule
    return {
        "v": 1,
        "now": second_text(detail.ahead.now),
        **_row_document(detail.row),
        **firing.as_document(schedule.trigger, detail.ahead, detail.caveats),
        "handler_at": detail.handler_at,
        "timeout_s": schedule.contract.timeout.total_seconds(),
        "retries": schedule.contract.retries,
        "overlap": schedule.overlap.value,
        "catch_up": schedule.catch_up.value,
        "jitter_s": schedule.jitter.total_seconds(),
        "description": schedule.description,
        "source": detail.source,
    }


def _odd(row: Row) -> list[str]:
    found = [row.live.state] if row.live is not None and row.live.state else []
    return found if row.schedule.enabled else ["disabled in the template: nothing fires", *found]


def contract_text(schedule: Schedule, capped_to: timedelta | None = None) -> str:
    """`2m    retries 2`, with what else is not as usual; it says where default or cap decided the timeout."""
    contract: Contract = schedule.contract
    own = "" if contract.has_own_timeout else " (default)"
    own += f" (capped to {format_duration(capped_to)} by the workers)" if capped_to is not None else ""
    parts = [f"{format_duration(contract.timeout)}{own}", f"retries {contract.retries}"]
    if schedule.overlap.value != "allow":
        parts.append(f"overlap {schedule.overlap.value}")
    if schedule.catch_up.value != "latest":
        parts.append(f"catch up {schedule.catch_up.value}")
    if schedule.jitter:
        parts.append(f"jitter {format_duration(schedule.jitter)}")
    return "    ".join(parts)


def _cells(row: Row, table: Table) -> tuple[str, ...]:
    trigger = row.schedule.trigger
    zone = table.zone or zone_of(trigger)
    return (
        row.name,
        trigger.expression.strip() if isinstance(trigger, Cron) else firing.every_text(trigger),
        trigger.timezone if isinstance(trigger, Cron) else "-",
        "-" if row.next_at is None else local_short(row.next_at, zone),
        "-" if row.next_at is None else span_short(timedelta(seconds=round((row.next_at - table.now).total_seconds()))),
        row.state,
    )


def _fitting(rows: Sequence[tuple[str, ...]], width: int) -> str:
    """In a narrow terminal the zone goes first, since each time names its own, then the cron, then the time itself."""
    text = columns(rows)
    if max(map(len, text.splitlines())) <= width:
        return text
    for left_out in ((), (2,), (1, 2), (1, 2, 3)):
        kept = [[cell for place, cell in enumerate(row) if place not in left_out] for row in rows]
        # A long state may be cut; a part of it has to be seen.
        short = [[*row[:-1], row[-1][:_STATE_SEEN]] for row in kept]
        if max(map(len, columns(short, gap=2).splitlines())) <= width:
            break
    return columns(kept, gap=2, width=width)


def _handlers_text(apps: Sequence[App], width: int) -> str:
    """Event rules and services of the apps that were named; they have no next instant."""
    rows = [("EVENT RULE", "PATTERN")]
    rows += [(f"{app.name}/{rule.contract.handler}", rule.pattern.canonical) for app in apps for rule in app.events]
    services = [("SERVICE", "RUNS")]
    services += [
        (f"{app.name}/{service.name}", service.entrypoint or " ".join(" ".join(service.command or ()).split()))
        for app in apps
        for service in app.services
    ]
    return "".join(f"\n{columns(part, width=width)}" for part in (rows, services) if len(part) > 1) + (
        "\n" if apps else ""
    )


def _row_document(row: Row) -> dict[str, Any]:
    trigger = row.schedule.trigger
    written = (
        {"cron": trigger.expression, "timezone": trigger.timezone}
        if isinstance(trigger, Cron)
        else {"every": trigger.canonical}
    )
    live = row.live
    return {
        "app": row.app,
        "schedule": row.schedule.name,
        "handler": row.schedule.contract.handler,
        **written,
        "enabled": row.schedule.enabled,
        "next_at": None if row.next_at is None else instant_text(row.next_at.astimezone(UTC)),
        "state": row.state,
        **(
            {}
            if live is None
            else {"sync": live.sync, "health": live.health, "last": live.last, "release": live.release}
        ),
    }
