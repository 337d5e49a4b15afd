"""The kept output of one attempt: what it printed last, and how it went. The document in the broker, and its reading.

Collecting, masking and bounding the text is done by `runners.output`; when to write it by the worker.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from relayctl.core.lifecycle import Claim, Kind, Slot
from relayctl.core.occurrence import from_epoch

OUTPUT_VERSION = 1
RUNNING = "running"
LOST = "lost"
"""The outcome of an attempt that left no end: its worker vanished."""
MOST_ATTEMPTS = 50
MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """What is kept: the newest attempts of each schedule and event handler, and bytes in all. No attempts: nothing."""

    attempts: int = MOST_ATTEMPTS
    total_bytes: int = MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOutput:
    """One attempt and the end of its output, harmless and masked. Times in milliseconds, `finished_ms` 0 until it ends.

    `outcome` is running, succeeded, failed, interrupted or lost. `printed` counts all bytes that came, `lines` the
    line ends among them; `is_cut` says that `text` is only the end.
    """

    app: str
    slot: str
    message: str
    token: str
    handler: str
    attempt: int
    allowed: int
    scheduled_at: str
    worker: str
    started_ms: int
    finished_ms: int = 0
    outcome: str = RUNNING
    reason: str = ""
    exit: str = ""
    text: str = ""
    printed: int = 0
    lines: int = 0
    is_cut: bool = False

    @property
    def name(self) -> str:
        """What names it in the broker: the claim."""
        return f"{self.app}|{self.message}|{self.slot}|{self.token}"

    @property
    def schedule(self) -> str | None:
        """The schedule it ran for, None for an event."""
        return Slot(self.slot).schedule

    @property
    def kind(self) -> Kind:
        """What kind of message owed it."""
        return Slot(self.slot).kind

    @property
    def is_running(self) -> bool:
        """Whether it had not ended when this was written."""
        return self.outcome == RUNNING

    @property
    def started_at(self) -> datetime:
        """When the handler began."""
        return _at(self.started_ms)

    @property
    def finished_at(self) -> datetime | None:
        """When it ended, None while it runs or where nobody saw its end."""
        return _at(self.finished_ms) if self.finished_ms else None

    @property
    def first_line(self) -> int:
        """The number, from 0, of the first line of `text` in the whole output."""
        return max(0, self.lines - self.text.count("\n"))

    def as_lost(self) -> KeptOutput:
        """The same, where nobody works on it any more and no end was recorded."""
        return replace(self, outcome=LOST, reason="its worker vanished before it ended")

    def to_json(self) -> str:
        """The document kept in the broker."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        return json.dumps({"v": OUTPUT_VERSION, **document}, ensure_ascii=False, separators=(",", ":"))


_TYPES: dict[str, type] = {"str": str, "int": int, "bool": bool}


def read_output(text: str) -> KeptOutput | None:
    """Read a document; None for one that is damaged or of a higher version."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    # `true` equals 1 here.
    if not isinstance(document, dict) or repr(document.pop("v", None)) != str(OUTPUT_VERSION):
        return None
    known: dict[str, Any] = {}
    for each in fields(KeptOutput):
        value = document.get(each.name)
        if type(value) is not _TYPES[str(each.type)]:
            return None
        known[each.name] = value
    return KeptOutput(**known) if known["slot"] else None


def output_of(claim: Claim, *, worker: str, started_ms: int) -> KeptOutput:
    """The record of an attempt that runs and has printed nothing."""
    return KeptOutput(
        app=claim.app,
        slot=claim.slot.text,
        message=claim.message,
        token=claim.token,
        handler=claim.descriptor.handler,
        attempt=claim.attempt,
        allowed=claim.descriptor.attempts,
        scheduled_at=claim.scheduled_at,
        worker=worker,
        started_ms=started_ms,
    )


def look_command(app: str, slot: Slot, message: str, scheduled_at: str = "") -> str:
    """The command that shows the output of this run: by its instant if it is a firing, else by its message."""
    return f"relayctl logs {app}/{slot.schedule or slot.text}@{scheduled_at or message}"


def _at(ms: int) -> datetime:
    return from_epoch(0) + timedelta(milliseconds=ms)
