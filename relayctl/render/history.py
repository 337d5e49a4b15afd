"""What has not ended of a schedule or handler, and its records, as a table and as JSON, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from textwrap import wrap
from typing import Any

from relayctl.core.account import reason_words
from relayctl.core.counting import counted
from relayctl.core.occurrence import instant_text
from relayctl.core.record import Record
from relayctl.core.underway import Underway
from relayctl.render.instants import clock_text, local_short, span_short, span_text
from relayctl.render.table import columns
from relayctl.render.why import time_text

HISTORY_VERSION = 1
_WIDE = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The records to show, and the runs without an end as they stand at `now`. `is_cut`: there may be older records.

    `zone` is that of the schedule. `newer` counts records of a newer relayctl, which cannot be shown. Those under the
    names that it was `moved_from` (as app/schedule) are among them; `moved_to` is the name under which it goes on.
    """

    app: str
    name: str
    is_schedule: bool
    zone: tzinfo
    records: Sequence[Record]
    now: datetime
    unfinished: Sequence[Underway] = ()
    is_cut: bool = False
    newer: int = 0
    moved_from: Sequence[str] = ()
    moved_to: str = ""


def text(history: History, *, width: int) -> str:
    """One line per run; a wide table also says who published and who ran it. A reason without room goes below."""
    newer = ""
    if history.newer:
        records = "record" if history.newer == 1 else "records"
        newer = f"{history.newer:,} {records} of a newer relayctl cannot be shown here\n"
    newer += f"with those of its former name: {', '.join(history.moved_from)}\n" if history.moved_from else ""
    if history.moved_to:
        newer += f"it goes on as {history.moved_to}: relayctl history {history.moved_to}\n"
    if not history.records and not history.unfinished:
        return newer or f"nothing on record of {history.app}/{history.name}\n"
    is_wide = width >= _WIDE
    head = ["SCHEDULED" if history.is_schedule else "PUBLISHED", "VERDICT", "ATTEMPT", "TOOK"]
    head += ["LATE", "PUBLISHED BY", "RAN ON"] if is_wide else []
    rows, reasons = [head], ["WHY"]
    for run in history.unfinished:
        took = run.took(history.now)
        row = [_when(run, history), run.state, _attempt(run), "-" if took is None else span_short(took)]
        rows.append([*row, *(["-", "-", run.worker or "-"] if is_wide else [])])
        by_hand = ["[triggered]"] if run.kind == "manual" else []
        reasons.append(" ".join([*by_hand, _standing(run, history.now, is_wide=is_wide)]))
    for record in history.records:
        row = [_when(record, history), record.verdict, _attempt(record), _took(record)]
        rows.append([*row, *([_late(record), record.by or "-", record.worker or "-"] if is_wide else [])])
        reasons.append(_why(record))
    more = f"… there may be older ones; --limit {2 * len(history.records)} shows more\n" if history.is_cut else ""
    return _with_reasons(rows, reasons, width) + more + newer


def _with_reasons(rows: Sequence[Sequence[str]], reasons: Sequence[str], width: int) -> str:
    """The table with each reason behind its row, or below it: beside five columns there is no room to wrap one."""
    lines = columns(rows).splitlines()
    wide = max(map(len, lines)) + 3
    shown = []
    for line, reason in zip(lines, reasons, strict=True):
        if wide + len(reason) <= width:
            shown.append(f"{line:<{wide}}{reason}".rstrip())
        else:
            below = wrap(reason, max(width - 2, 38), break_long_words=False, break_on_hyphens=False)
            shown += [line, *(f"  {part}" for part in below)]
    return "".join(f"{line}\n" for line in shown)


def _standing(run: Underway, now: datetime, *, is_wide: bool) -> str:
    """Where a run without an end is."""
    number = run.attempts + 1
    wait = "now" if run.due_at is None or run.due_at <= now else f"in {span_text(run.due_at - now)}"
    match run.state:
        case "running":
            since = "" if run.started_at is None else f"since {clock_text(run.started_at)}"
            where = f"on {run.worker}" if run.worker and not is_wide else ""
            return " ".join(part for part in (since, where) if part)
        case "retrying":
            reason = f": {run.reason}" if run.reason else ""
            return f"attempt {number} is due {wait}; attempt {run.attempts} failed{reason}"
        case _ if run.due_at is None:
            return "waits for another run of its schedule to end (overlap: queue)"
        case _:
            return "waits for a worker with a free place" if wait == "now" else f"is due {wait}"


def _when(record: Record | Underway, history: History) -> str:
    at = record.scheduled_at if history.is_schedule else record.published_at
    return "-" if at is None else local_short(at, history.zone)


def _attempt(record: Record | Underway) -> str:
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
        parts.append(f"{counted(record.count, 'firing')} from {instant_text(record.first_at)}:")
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
        "unfinished": [_unfinished_document(run) for run in history.unfinished],
        "records": [_record_document(record) for record in history.records],
        "cut": history.is_cut,
        "newer": history.newer,
        "moved_from": list(history.moved_from),
        "moved_to": history.moved_to or None,
    }


def _unfinished_document(run: Underway) -> dict[str, Any]:
    return {
        "kind": run.kind,
        "state": run.state,
        "scheduled_at": None if run.scheduled_at is None else instant_text(run.scheduled_at),
        "message": run.message,
        "handler": run.handler or None,
        "published_at": time_text(run.published_at),
        "started_at": time_text(run.started_at),
        "due_at": time_text(run.due_at),
        "attempts": run.attempts,
        "attempts_allowed": run.attempts_allowed,
        "reason": run.reason or None,
        "worker": run.worker or None,
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
