"""One record of history: a run that ended, or firings that were closed without one. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from relayctl.core.occurrence import from_epoch, instant_from_text

RECORD_VERSION = 1
MARKS = ("late", "caught_up", "replayed", "triggered")
"""How a firing came to its verdict, where that is worth saying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What history keeps of one end. `scheduled_at` is None for an event's run; `first_at` only for a closed range.

    `published_at` is when its message entered the stream, `by` who published it, `worker` who ran or closed it.
    """

    recorded_at: datetime
    verdict: str
    reason: str = ""
    kind: str = ""
    message: str = ""
    handler: str = ""
    scheduled_at: datetime | None = None
    first_at: datetime | None = None
    count: int = 1
    attempts: int = 0
    attempts_allowed: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit: str = ""
    by: str = ""
    worker: str = ""
    marks: tuple[str, ...] = ()

    @property
    def published_at(self) -> datetime | None:
        """When its message was appended."""
        return message_time(self.message)

    @property
    def took(self) -> timedelta | None:
        """How long its last attempt ran."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at

    @property
    def is_run(self) -> bool:
        """Whether a message stands behind it, rather than a closing."""
        return bool(self.message)

    def covers(self, at: datetime) -> bool:
        """Whether it speaks of the firing at this instant; a manual run is no firing."""
        if self.scheduled_at is None or self.kind == "manual":
            return False
        return (self.first_at or self.scheduled_at) <= at <= self.scheduled_at


def message_time(message: str) -> datetime | None:
    """When this entry was appended: its id begins with that time."""
    return _at_ms(message.partition("-")[0])


def message_order(message: str) -> tuple[int, int]:
    """What sorts messages by their publication."""
    ms, _, number = message.partition("-")
    return _number(ms), _number(number)


def read_record(id_ms: int, fields: Mapping[str, str]) -> Record | None:
    """Read a record that was written at that time in milliseconds; None for one of a higher version."""
    if _number(fields.get("v")) > RECORD_VERSION:
        return None
    return Record(
        recorded_at=from_epoch(0) + timedelta(milliseconds=id_ms),
        verdict=fields.get("verdict", ""),
        reason=fields.get("reason", ""),
        kind=fields.get("kind", ""),
        message=fields.get("message", ""),
        handler=fields.get("handler", ""),
        scheduled_at=instant_from_text(fields.get("scheduled_at", "")),
        first_at=instant_from_text(fields.get("from", "")),
        count=_number(fields.get("count")) or 1,
        attempts=_number(fields.get("attempts")),
        attempts_allowed=_number(fields.get("of")),
        started_at=_at_ms(fields.get("started", "")),
        finished_at=_at_ms(fields.get("finished", "")),
        exit=fields.get("exit", ""),
        by=fields.get("by", ""),
        worker=fields.get("worker", ""),
        marks=tuple(mark for mark in fields.get("marks", "").split(",") if mark),
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() else 0


def _at_ms(text: str) -> datetime | None:
    number = _number(text)
    return from_epoch(0) + timedelta(milliseconds=number) if number else None
