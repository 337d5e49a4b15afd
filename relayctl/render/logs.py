"""A run and its kept output as text, as one document, and as a stream of objects while it goes on.

What a handler printed is not wrapped, and stands two columns in, so that it cannot pass for words of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from textwrap import wrap
from typing import Any

from relayctl.core.lifecycle import Kind
from relayctl.core.occurrence import instant_text
from relayctl.core.output import KeptOutput
from relayctl.core.record import Record
from relayctl.core.runlog import Absence, Began, Follower, Lines, News, RunLog
from relayctl.render.instants import local_text, span_text
from relayctl.render.why import headline, moment_text, time_text

LOGS_VERSION = 1
_INDENT = "  "
_ABSENCE = {
    Absence.NEVER_RAN: "nothing ran, so nothing was printed",
    Absence.NOT_BEGUN: "it has printed nothing, since no attempt has begun",
    Absence.NOT_YET: "nothing it printed has arrived yet; --follow waits for it",
    Absence.SILENT: "it printed nothing, or its worker keeps no output",
    Absence.GONE: "nothing of its output is kept any more",
}


def text(runs: Sequence[RunLog], now: datetime, *, width: int, attempt: int | None = None) -> str:
    """Each run with its attempts, in order."""
    return "\n".join(
        head(run, now, width=width) + news(Follower(attempt, is_only_look=True).news(run)) + _absence(run)
        for run in runs
    )


def head(run: RunLog, now: datetime, *, width: int) -> str:
    """Which run it is, and how it ended or where it stands."""
    when = "" if run.scheduled_at is None or run.slot.kind is Kind.EVENT else local_text(run.scheduled_at, run.zone)
    kind = "manual run" if run.slot.kind is Kind.MANUAL else ""
    handler = "" if run.handler == run.name else run.handler
    lines = [run.target, *wrap("   ".join(part for part in (when, kind, handler) if part), max(width, 40))]
    lines += wrap(ending(run, now), max(width, 40))
    return "".join(f"{line}\n" for line in lines)


def ending(run: RunLog, now: datetime) -> str:
    """How the run ended, or where it stands."""
    if run.record is not None and run.record.is_run:
        return _record_words(run.record)
    if run.judgement is not None:
        return headline(run.judgement, now)
    match run.state:
        case "running":
            return f"running now: attempt {_begun(run)}"
        case "retrying":
            return f"failed attempt {_begun(run)}; the next one is due later"
        case "waiting":
            return "waits for a worker with a free place"
        case _:
            return "over; its record is not kept any more"


def _begun(run: RunLog) -> str:
    """The number of the last attempt, and how many there may be where that is kept."""
    allowed = run.attempts[-1].allowed if run.attempts else 0
    return f"{run.begun} of {allowed}" if allowed else str(run.begun)


def tail(run: RunLog, now: datetime, *, width: int) -> str:
    """What is said of a followed run when it is over."""
    return "".join(f"{line}\n" for line in ["", *wrap(ending(run, now), max(width, 40))]) + _absence(run)


def news(found: Iterable[News]) -> str:
    """What is new of a run's attempts: where one begins, what it printed, where it ends."""
    return "".join(f"{line}\n" for item in found for line in _news_lines(item))


def _news_lines(item: News) -> list[str]:
    match item:
        case Began(kept):
            where = f" on {kept.worker}" if kept.worker else ""
            return ["", f"attempt {_number(kept)}, begun {moment_text(kept.started_at)}{where}"]
        case Lines():
            cut = _cut(item)
            return [*([f"{_INDENT}[{cut}]"] if cut else []), *(f"{_INDENT}{line.expandtabs()}" for line in item.texts)]
        case _:
            return [outcome_text(item.kept)]


def outcome_text(kept: KeptOutput) -> str:
    """How an attempt ended."""
    took = ""
    if kept.finished_at is not None:
        took = f" after {span_text(max(kept.finished_at - kept.started_at, timedelta(0)))}"
    number = f"attempt {_number(kept)} "
    how = f" (exit {kept.exit})" if kept.exit not in {"", "0"} and kept.exit not in kept.reason else ""
    reason = f": {kept.reason}" if kept.reason else ""
    return f"{number}{kept.outcome}{took}{reason}{how}"


def _number(kept: KeptOutput) -> str:
    return f"{kept.attempt} of {kept.allowed}" if kept.allowed else str(kept.attempt)


def _cut(lines: Lines) -> str:
    """What is missing in front of these lines."""
    if lines.missing:
        return f"{lines.missing:,} line{'' if lines.missing == 1 else 's'} before this {_are(lines.missing)} not kept"
    if lines.kept.is_cut and lines.first == lines.kept.first_line == 0:
        return "what was printed before this is not kept"
    return ""


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _absence(run: RunLog) -> str:
    return "" if run.attempts else f"{_ABSENCE[run.absence]}\n"


def _record_words(record: Record) -> str:
    words = record.verdict
    if record.attempts:
        words += f" in attempt {record.attempts}"
        words += f" of {record.attempts_allowed}" if record.attempts_allowed else ""
    if record.took is not None:
        words += f" after {span_text(record.took)}"
    marks = f" [{', '.join(record.marks)}]" if record.marks else ""
    return f"{words}{marks}: {record.reason}" if record.reason else f"{words}{marks}"


def document(runs: Sequence[RunLog], now: datetime, *, name: str, attempt: int | None = None) -> dict[str, Any]:
    """The same for programs."""
    return {"v": LOGS_VERSION, "name": name, "runs": [_run_document(run, now, attempt) for run in runs]}


def _run_document(run: RunLog, now: datetime, attempt: int | None) -> dict[str, Any]:
    return {
        **_run_fields(run, now),
        "absence": None if run.attempts else run.absence.value,
        "attempts": [
            {**_attempt_fields(kept), "text": kept.text} for kept in run.attempts if attempt in {None, kept.attempt}
        ],
    }


def _run_fields(run: RunLog, now: datetime) -> dict[str, Any]:
    record, judgement = run.record, run.judgement
    verdict = record.verdict if record is not None else judgement.verdict if judgement is not None else ""
    return {
        "app": run.app,
        "schedule": run.slot.schedule,
        "handler": run.handler or None,
        "kind": run.slot.kind.value,
        "scheduled_at": None if run.scheduled_at is None else instant_text(run.scheduled_at),
        "message": run.message or None,
        "state": run.state if run.message else "never published",
        "verdict": verdict or None,
        "reason": (record.reason or None) if record is not None else None,
        "summary": ending(run, now),
    }


def _attempt_fields(kept: KeptOutput) -> dict[str, Any]:
    return {
        "attempt": kept.attempt,
        "attempts_allowed": kept.allowed,
        "outcome": kept.outcome,
        "reason": kept.reason or None,
        "exit": kept.exit or None,
        "worker": kept.worker or None,
        "started_at": time_text(kept.started_at),
        "finished_at": time_text(kept.finished_at),
        "printed_bytes": kept.printed,
        "first_line": kept.first_line,
        "cut": kept.is_cut,
    }


def stream(runs: Sequence[RunLog], now: datetime, *, attempt: int | None = None) -> str:
    """The stream of runs as far as they are, one object per line."""
    return "".join(
        stream_head(run, now)
        + stream_news(run, Follower(attempt, is_only_look=True).news(run))
        + (stream_end(run, now) if run.is_over else "")
        for run in runs
    )


def stream_head(run: RunLog, now: datetime) -> str:
    """The object with which a stream begins."""
    return _line({"type": "run", **_run_fields(run, now)})


def stream_news(run: RunLog, found: Iterable[News]) -> str:
    """An object for each beginning, line and end of an attempt."""
    return "".join(_line(item) for each in found for item in _news_objects(run, each))


def stream_end(run: RunLog, now: datetime) -> str:
    """The object with which a stream ends."""
    return _line({"type": "run_end", **_run_fields(run, now)})


def _news_objects(run: RunLog, item: News) -> list[dict[str, Any]]:
    of = {"app": run.app, "schedule": run.slot.schedule, "message": run.message, "attempt": item.kept.attempt}
    match item:
        case Lines():
            return [
                {"type": "line", **of, "number": number, "text": line}
                for number, line in enumerate(item.texts, item.first)
            ]
        case Began(kept):
            return [{"type": "attempt", **of, **_attempt_fields(kept), "time": time_text(kept.started_at)}]
        case _:
            return [
                {"type": "attempt_end", **of, **_attempt_fields(item.kept), "time": time_text(item.kept.finished_at)}
            ]


def _line(fields: dict[str, Any]) -> str:
    return json.dumps({"v": LOGS_VERSION, **fields}, ensure_ascii=False, separators=(",", ":")) + "\n"


def last_lines(kept: KeptOutput, most: int) -> list[str]:
    """The last lines of an attempt's output, for a look at something else."""
    lines = kept.text.removesuffix("\n").split("\n") if kept.text else []
    return [line.expandtabs() for line in lines[-most:]]
