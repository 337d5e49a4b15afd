"""The records of a schedule or handler as a table and as JSON, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from relayctl.core.account import reason_words
from relayctl.core.occurrence import instant_text
from relayctl.core.record import Record
from relayctl.render.instants import local_short, span_short
from relayctl.render.table import columns
from relayctl.render.why import time_text

HISTORY_VERSION = 1
_WIDE = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The records to show. `zone` is that of the schedule; `is_cut`: there may be older ones.

    `newer` counts those of a newer relayctl, which cannot be shown. Records under the names that it was `moved_from`
    (as app/schedule) are among them; `moved_to` is the name under which it goes on.
    """

    app: str
    name: str
    is_schedule: bool
    zone: tzinfo
    records: Sequence[Record]
    is_cut: bool = False
    newer: int = 0
    moved_from: Sequence[str] = ()
    moved_to: str = ""


def text(history: History, *, width: int) -> str:
    """One line per record; a wide table also says who published and who ran it."""
    newer = ""
    if history.newer:
        records = "record" if history.newer == 1 else "records"
        newer = f"{history.newer:,} {records} of a newer relayctl cannot be shown here\n"
    newer += f"with those of its former name: {', '.join(history.moved_from)}\n" if history.moved_from else ""
    if history.moved_to:
        newer += f"it goes on as {history.moved_to}: relayctl history {history.moved_to}\n"
    if not history.records:
        return newer or f"nothing on record of {history.app}/{history.name}\n"
    is_wide = width >= _WIDE
    head = ["SCHEDULED" if history.is_schedule else "PUBLISHED", "VERDICT", "ATTEMPT", "TOOK"]
    head += ["LATE", "PUBLISHED BY", "RAN ON"] if is_wide else []
    rows = [(*head, "WHY")]
    for record in history.records:
        row = [_when(record, history), record.verdict, _attempt(record), _took(record)]
        row += [_late(record), record.by or "-", record.worker or "-"] if is_wide else []
        rows.append((*row, _why(record)))
    more = f"… there may be older ones; --limit {2 * len(history.records)} shows more\n" if history.is_cut else ""
    return columns(rows, width=width) + more + newer


def _when(record: Record, history: History) -> str:
    at = record.scheduled_at if history.is_schedule else record.published_at
    return "-" if at is None else local_short(at, history.zone)


def _attempt(record: Record) -> str:
    if not record.attempts:
        return "-"
    return f"{record.attempts} of {record.attempts_allowed}" if record.attempts_allowed else str(record.attempts)


def _took(record: Record) -> str:
    return "-" if record.took is None else span_short(record.took)


def _late(record: Record) -> str:
    if record.published_at is None or record.scheduled_at is None or record.kind == "manual":
        return "-"
    late = record.published_at - record.scheduled_at
    return span_short(late) if late.total_seconds() >= 1 else "-"


def _why(record: Record) -> str:
    parts = [f"[{', '.join(record.marks)}]"] if record.marks else []
    if record.first_at is not None:
        parts.append(f"{record.count:,} firings from {instant_text(record.first_at)}:")
    parts += [reason_words(record.reason)] if record.reason else []
    if record.exit not in {"", "0"} and record.exit not in record.reason:
        parts.append(f"(exit {record.exit})")
    return " ".join(parts)


def document(history: History) -> dict[str, Any]:
    """Everything that is on record, for programs."""
    return {
        "v": HISTORY_VERSION,
        "name": f"{history.app}/{history.name}",
        "kind": "schedule" if history.is_schedule else "handler",
        "records": [_record_document(record) for record in history.records],
        "cut": history.is_cut,
        "newer": history.newer,
        "moved_from": list(history.moved_from),
        "moved_to": history.moved_to or None,
    }


def _record_document(record: Record) -> dict[str, Any]:
    return {
        "kind": record.kind or None,
        "scheduled_at": None if record.scheduled_at is None else instant_text(record.scheduled_at),
        "from": None if record.first_at is None else instant_text(record.first_at),
        "count": record.count,
        "verdict": record.verdict,
        "reason": record.reason or None,
        "marks": list(record.marks),
        "message": record.message or None,
        "handler": record.handler or None,
        "published_at": time_text(record.published_at),
        "published_by": record.by or None,
        "started_at": time_text(record.started_at),
        "finished_at": time_text(record.finished_at),
        "attempts": record.attempts,
        "attempts_allowed": record.attempts_allowed,
        "exit": record.exit or None,
        "worker": record.worker or None,
        "recorded_at": time_text(record.recorded_at),
    }
