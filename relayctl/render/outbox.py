"""The rows of the outbox as a table for people and as JSON. Nothing is read here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from relayctl.core.intent import Row
from relayctl.core.occurrence import instant_text, second_text
from relayctl.render.escapes import harmless_line
from relayctl.render.instants import span_short
from relayctl.render.table import columns

DOCUMENT_VERSION = 1


def text(rows: Sequence[Row], now: datetime, *, width: int) -> str:
    """One line per row, oldest firing first: what it is, how often it was tried, when it is tried again, and why."""
    if not rows:
        return "the outbox is empty: nothing waits to be published\n"
    head = ("FIRING", "TRIED", "NEXT", "LAST ERROR")
    bad = sum(1 for row in rows if row.intent is None)
    table = columns([head, *(_cells(row, now) for row in rows)], width=width)
    kept = f", {bad} kept and never published" if bad else ""
    return f"{table}\n{len(rows)} {'row' if len(rows) == 1 else 'rows'}{kept}\n"


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """A versioned document; `trouble` says why a row is not published, `intent` is absent there."""
    return {"v": DOCUMENT_VERSION, "rows": [_row(row) for row in rows]}


def _cells(row: Row, now: datetime) -> tuple[str, str, str, str]:
    name = harmless_line(row.id.removeprefix("schedule:"))
    if row.intent is None:
        return name, "-", "never", harmless_line(f"kept: {row.trouble}")
    at = f"{row.intent.occurrence.app}/{row.intent.occurrence.schedule}@"
    name = at + instant_text(row.intent.occurrence.scheduled_at)
    tried = f"{row.intent.attempts}{'?' if row.intent.is_ambiguous else ''}"
    return name, tried, _next(row, now), harmless_line(row.intent.last_error or "-")


def _next(row: Row, now: datetime) -> str:
    if row.holder and row.held_until is not None and row.held_until > now:
        return "now"
    return "due" if row.next_at <= now else f"in {span_short(row.next_at - now)}"


def _row(row: Row) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": row.id, "trouble": row.trouble, "rounds": row.rounds}
    shown |= {"next_at": second_text(row.next_at), "holder": row.holder}
    intent = row.intent
    if intent is not None:
        shown["intent"] = {
            "app": intent.occurrence.app,
            "schedule": intent.occurrence.schedule,
            "handler": intent.occurrence.handler,
            "scheduled_at": instant_text(intent.occurrence.scheduled_at),
            "gen": intent.occurrence.gen,
            "attempts": intent.attempts,
            "is_ambiguous": intent.is_ambiguous,
            "first_failed_at": second_text(intent.first_failed_at),
            "last_error": intent.last_error,
        }
    return shown
