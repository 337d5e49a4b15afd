"""What became of one firing, in words and as JSON: expected or not, published by whom, ended how, where it is now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from textwrap import wrap
from typing import Any

from relayctl.core.account import reason_words
from relayctl.core.counting import counted
from relayctl.core.definition import Firing, Generation
from relayctl.core.occurrence import from_epoch, instant_text, second_text
from relayctl.core.verdict import Judgement, State
from relayctl.render.instants import local_text, span_text, utc_text

WHY_VERSION = 1
_INDENT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The firings asked for, judged at `now`; `more` are further ones of the same day that are not among them."""

    app: str
    schedule: str
    now: datetime
    zone: tzinfo
    firings: Sequence[Judgement]
    more: int = 0
    moved_to: str = ""
    """The name, as app/schedule, under which it goes on: the firings are judged by that one's account."""

    @property
    def name(self) -> str:
        """`app/schedule`."""
        return f"{self.app}/{self.schedule}"


def text(why: Why, *, width: int) -> str:
    """One firing in full, or one line each where a day was asked for that has several."""
    lines = [f"{why.name} was moved: it goes on as {why.moved_to}"] if why.moved_to else []
    if len(why.firings) == 1:
        return "".join(f"{line}\n" for line in lines) + _in_full(why, why.firings[0], width)
    for found in why.firings:
        head = f"{local_text(found.at, why.zone)}  {instant_text(found.at)}  "
        lines += wrap(head + headline(found, why.now), max(width, 40), subsequent_indent=" " * 4)
    if why.more:
        lines.append(f"… and {why.more:,} more on that day; ask for one: relayctl why {why.name}@INSTANT")
    return "".join(f"{line}\n" for line in lines)


def headline(found: Judgement, now: datetime) -> str:
    """What became of it, in one line."""
    match found.state:
        case State.ENDED:
            return _ended(found)
        case State.CLOSED:
            return f"{found.verdict}: {reason_words(found.reason)}"
        case State.NOT_EXPECTED:
            return f"not expected: {'; '.join(found.objections)}"
        case State.UNJUDGED:
            return "cannot be judged here: its definition rests on another evaluator or other zone data"
        case State.AHEAD:
            paused = ", if the pause has ended by then" if found.paused_at is not None else ""
            return f"not due yet: in {span_text(found.at - now)}{paused}"
        case State.DUE:
            return f"due {span_text(now - found.at)} ago and not published yet; after a minute that is an alarm"
        case State.OVERDUE:
            return f"overdue: due {span_text(now - found.at)} ago, and no worker has published it"
        case State.PAUSED:
            since = "" if found.paused_at is None else f" since {utc_text(found.paused_at)}"
            return f"not run: the schedule is paused{since}"
        case State.SETTLED:
            if found.newer_records:
                return "settled: how it ended is on record in the form of a newer relayctl, or not kept any more"
            return "settled: it was published or closed, and how it ended is not kept any more"
        case _:
            return _underway(found, now)


def _ended(found: Judgement) -> str:
    record = found.record
    took = None if record is None else record.took
    words = found.verdict
    if record is not None and record.attempts:
        allowed = f" of {record.attempts_allowed}" if record.attempts_allowed else ""
        words += f" in attempt {record.attempts}{allowed}"
    if took is not None:
        words += f" after {span_text(took)}"
    return f"{words}: {reason_words(found.reason)}" if found.reason else words


def _underway(found: Judgement, now: datetime) -> str:
    live = found.live
    if live is not None and live.is_newer:
        return "published; a newer relayctl wrote it, and only a worker that knows its form can go on with it"
    if found.state is State.PUBLISHED or live is None:
        return "published, and waits in the stream for a worker to read it"
    number = live.attempts if found.state is State.RUNNING else live.attempts + 1
    attempt = f"attempt {number}" + (f" of {live.attempts_allowed}" if live.attempts_allowed else "")
    if found.state is State.RUNNING:
        return f"running now: {attempt}" + (f" on {found.worker}" if found.worker else "")
    if live.state == "waiting":
        return "waits for another run of its schedule to end (overlap: queue)"
    if live.stranded_since is not None and live.stranded_since <= now:
        since = span_text(now - live.stranded_since)
        return f"{attempt} is due, and no live worker has been able to run it for {since}; after 24 h it fails"
    wait = "now" if live.due_at is None or live.due_at <= now else f"in {span_text(live.due_at - now)}"
    if found.state is State.RETRYING:
        return f"failed attempt {live.attempts}; {attempt} is due {wait}"
    return f"published, and waits for a worker with a free place: {attempt}"


def _in_full(why: Why, found: Judgement, width: int) -> str:
    lines = [f"{why.name}@{instant_text(found.at)}   {local_text(found.at, why.zone)}"]
    lines += wrap(headline(found, why.now), max(width, 40))
    lines.append("")
    for label, words in _rows(why, found):
        lines += wrap(
            f"{label:<{_INDENT}}{words}", max(width, 40), subsequent_indent=" " * _INDENT, break_on_hyphens=False
        )
    return "".join(f"{line}\n" for line in lines)


def _rows(why: Why, found: Judgement) -> list[tuple[str, str]]:
    rows = []
    if found.generation is not None:
        rows.append(("definition", _definition(found.generation)))
    if found.published_at is not None:
        by = f" by {found.by}" if found.by else ""
        rows.append(("published", f"{moment_text(found.published_at)}, {_lateness(found.published_at - found.at)}{by}"))
    record = found.record
    if record is not None and record.marks:
        rows.append(("marks", ", ".join(record.marks)))
    if record is not None and record.is_run:
        rows += _run_rows(found)
    elif record is not None:
        rows.append(("closed", _closed(found)))
    if found.message:
        rows.append(("message", found.message))
    if found.replaced is not None:
        rows.append(("replaced", f"it had been closed as {found.replaced.verdict}: {found.replaced.reason}"))
    if found.before is not None:
        rows.append(("before it", _firing(found.before, why)))
    if found.after is not None:
        rows.append(("after it", _firing(found.after, why)))
    return [*rows, *_ways_out(why, found)]


def _lateness(after: timedelta) -> str:
    # A publisher may be early by what its clock is off; only a person's order publishes well before the time.
    if after < -timedelta(seconds=1):
        return f"{span_text(-after)} before its instant"
    return f"{span_text(max(after, timedelta(0)))} after its instant"


def _run_rows(found: Judgement) -> list[tuple[str, str]]:
    record = found.record
    if record is None or record.started_at is None or record.finished_at is None:
        return []
    where = f" on {record.worker}" if record.worker else ""
    how = f", exit {record.exit}" if record.exit else ""
    rows = [("ran", f"{moment_text(record.started_at)} to {moment_text(record.finished_at)}{where}{how}")]
    return [*rows, ("handler", record.handler)] if record.handler else rows


def _closed(found: Judgement) -> str:
    record = found.record
    if record is None:
        return ""
    when = moment_text(record.finished_at or record.recorded_at)
    by = f" by {record.worker}" if record.worker else ""
    if record.first_at is None:
        return f"{when}{by}"
    return f"{when}{by}, with {counted(record.count, 'firing')} from {utc_text(record.first_at)} on"


def _ways_out(why: Why, found: Judgement) -> list[tuple[str, str]]:
    match found.state:
        case State.OVERDUE | State.PUBLISHED | State.WAITING:
            return [("look at", f"relayctl status --workers; relayctl inspect {why.name}")]
        case State.PAUSED:
            return [("way out", f"relayctl resume {why.name}")]
        case State.ENDED if found.verdict == "failed":
            return [("look at", f"{_output_of(why, found)}; relayctl dlq ls")]
        case State.RUNNING | State.RETRYING:
            return [("look at", _output_of(why, found))]
        case _:
            return []


def _output_of(why: Why, found: Judgement) -> str:
    return f"relayctl logs {why.name}@{instant_text(found.at)}"


def _definition(generation: Generation) -> str:
    firing = Firing.from_spec(generation.spec)
    words = "nothing fires" if firing.is_comparable else "not to be read here, a newer relayctl or other zone data"
    words = words if firing.trigger is None else firing.trigger.words
    until = "" if generation.to_ms is None else f" until {utc_text(from_epoch(generation.to_ms // 1000))}"
    return f"{words}, in force from {utc_text(from_epoch(generation.from_ms // 1000))}{until}"


def _firing(at: datetime, why: Why) -> str:
    return f"{instant_text(at)}   {local_text(at, why.zone)}"


def moment_text(at: datetime) -> str:
    """`2026-09-29 10:15:02.123Z`."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}Z"


def document(why: Why) -> dict[str, Any]:
    """The same for programs."""
    return {
        "v": WHY_VERSION,
        "schedule": why.name,
        "moved_to": why.moved_to or None,
        "now": second_text(why.now),
        "firings": [_firing_document(found, why.now) for found in why.firings],
        "more": why.more,
    }


def _firing_document(found: Judgement, now: datetime) -> dict[str, Any]:
    record, live, generation = found.record, found.live, found.generation
    return {
        "scheduled_at": instant_text(found.at),
        "state": found.state.value,
        "expected": found.is_expected,
        "summary": headline(found, now),
        "verdict": found.verdict or None,
        "reason": found.reason or None,
        "marks": [] if record is None else list(record.marks),
        "objections": list(found.objections),
        "definition": None
        if generation is None
        else {
            "generation": generation.gen,
            "trigger": None if (trigger := Firing.from_spec(generation.spec).trigger) is None else trigger.words,
            "from": instant_text(from_epoch(generation.from_ms // 1000)),
            "until": None if generation.to_ms is None else instant_text(from_epoch(generation.to_ms // 1000)),
        },
        "published_at": time_text(found.published_at),
        "published_by": found.by or None,
        "message": found.message or None,
        "worker": found.worker or None,
        "attempts": record.attempts if record is not None else live.attempts if live is not None else 0,
        "attempts_allowed": record.attempts_allowed
        if record is not None
        else live.attempts_allowed
        if live is not None
        else 0,
        "next_attempt_at": None if live is None else time_text(live.due_at),
        "started_at": None if record is None else time_text(record.started_at),
        "finished_at": None if record is None else time_text(record.finished_at),
        "exit": None if record is None else record.exit or None,
        "before": None if found.before is None else instant_text(found.before),
        "after": None if found.after is None else instant_text(found.after),
    }


def time_text(at: datetime | None) -> str | None:
    """RFC 3339 with milliseconds, or None."""
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
