"""Dead letters as a table, one letter in full, and both as documents for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from relayctl.core.deadletter import DeadLetter
from relayctl.core.lifecycle import Slot
from relayctl.core.occurrence import second_text
from relayctl.core.output import KeptOutput, look_command
from relayctl.render.instants import span_short, utc_text
from relayctl.render.logs import last_lines
from relayctl.render.table import columns

SHOWN_OF_AN_EVENT = 4096
"""How much of an event `show` prints, in characters."""
SHOWN_LINES = 10
"""How many of the last lines of output."""


def text(letters: Sequence[DeadLetter], now: datetime, *, total: int, evicted: int, width: int) -> str:
    """A row per letter, the newest first, then the counts."""
    lines = ""
    if letters:
        rows = [("ID", "AGE", "REASON", "WHAT", "DETAIL"), *(_row(each, now) for each in letters)]
        lines = columns(rows)
        if max(map(len, lines.splitlines())) > width:
            # Why in full is what `show` is for.
            lines = columns([row[:-1] for row in rows], width=width)
    noun = f"{total:,} dead letter{'' if total == 1 else 's'}"
    shown = f", {len(letters):,} shown" if len(letters) != total else ""
    gone = f"; {evicted:,} evicted by number or age" if evicted else ""
    return f"{lines}{noun}{shown}{gone}\n"


def show_text(letter: DeadLetter, kept: KeptOutput | None = None) -> str:
    """Everything about one letter, and the last lines that the last attempt printed, as far as they are kept."""
    rows = [
        ("what", letter.target or "(unknown)"),
        ("reason", _reason(letter)),
        ("when", utc_text(letter.at)),
        ("handler", letter.handler),
        ("attempts", str(letter.attempts) if letter.attempts else ""),
        ("message", letter.message),
        ("worker", letter.worker),
        ("replay", _replay(letter)),
        ("output", _output(letter, kept)),
        ("contract", letter.descriptor),
        ("event", _event(letter)),
    ]
    return f"{letter.id}\n" + "".join(f"  {label:<9} {value}\n" for label, value in rows if value)


def document(letters: Sequence[DeadLetter], *, total: int, evicted: int) -> dict[str, Any]:
    """A versioned document; without the events, which `show` has."""
    return {
        "v": 1,
        "total": total,
        "evicted": evicted,
        "letters": [_fields(letter) for letter in letters],
    }


def show_document(letter: DeadLetter, kept: KeptOutput | None = None) -> dict[str, Any]:
    """A versioned document of one letter, with its contract, its event as text, and what was printed last."""
    return {
        "v": 1,
        **_fields(letter),
        "descriptor": _decoded(letter.descriptor),
        "event": letter.event,
        "output": None if kept is None else kept.text,
    }


def _row(letter: DeadLetter, now: datetime) -> tuple[str, ...]:
    running = f"replayed now as message {letter.replaying}" if letter.replaying else ""
    newer = "written by a newer relayctl" if letter.is_newer else ""
    detail = "; ".join(part for part in (newer, running, letter.detail) if part)
    return (
        letter.id,
        span_short(max(now - letter.at, timedelta(0))),
        letter.reason,
        letter.target or "(unknown)",
        detail,
    )


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "at": second_text(letter.at),
        "app": letter.app or None,
        "schedule": letter.schedule or None,
        "handler": letter.handler or None,
        "scheduled_at": letter.scheduled_at or None,
        "message": letter.message or None,
        "reason": letter.reason,
        "detail": letter.detail,
        "attempts": letter.attempts,
        "worker": letter.worker or None,
        "size": letter.size,
        "replayable": letter.is_replayable and not letter.is_newer,
        "replaying": letter.replaying or None,
    }


def _reason(letter: DeadLetter) -> str:
    parts = [part for part in (letter.reason, letter.detail) if part]
    running = f" (replayed now as message {letter.replaying})" if letter.replaying else ""
    return ": ".join(parts) + running


def _replay(letter: DeadLetter) -> str:
    if letter.replaying:
        return f"runs now as message {letter.replaying}"
    if letter.is_newer:
        return "not here: a newer relayctl wrote it"
    if not letter.is_replayable:
        return "not possible: it could not be used, and only its beginning was kept"
    return f"relayctl dlq replay {letter.id}"


def _output(letter: DeadLetter, kept: KeptOutput | None) -> str:
    if kept is None:
        return ""
    look = look_command(letter.app, Slot(letter.slot), letter.message, letter.scheduled_at)
    lines = last_lines(kept, SHOWN_LINES)
    return "\n            ".join([look, *lines]) if lines else f"{look} (it printed nothing)"


def _event(letter: DeadLetter) -> str:
    kept = letter.event[:SHOWN_OF_AN_EVENT]
    size = len(kept.encode(errors="surrogateescape"))
    return kept if size >= letter.size else f"{kept}… ({letter.size:,} bytes in all)"


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text or None
