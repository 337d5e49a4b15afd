"""Facts from message to end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from relayctl.core.facts.fact import Fact, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class EventUnmatched(Fact):
    """An external event matched no rule."""

    event: ClassVar[str] = "event-unmatched"
    level: ClassVar[Level] = Level.DEBUG
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRejected(Fact):
    """An entry cannot be worked on and went to the dead letters."""

    event: ClassVar[str] = "message-rejected"
    level: ClassVar[Level] = Level.ERROR
    message: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Fact):
    """An attempt began."""

    event: ClassVar[str] = "run-started"
    level: ClassVar[Level] = Level.DEBUG
    app: str
    handler: str
    message: str
    attempt: int
    schedule: str | None = None
    scheduled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Fact):
    """An attempt ended well."""

    event: ClassVar[str] = "run-ended"
    app: str
    handler: str
    message: str
    attempt: int
    took: timedelta
    schedule: str | None = None
    scheduled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(Fact):
    """An attempt failed; `retry_in` is None when it was the last. `look` is the command that shows its output."""

    event: ClassVar[str] = "run-failed"
    level: ClassVar[Level] = Level.ERROR
    app: str
    handler: str
    message: str
    attempt: int
    attempts: int
    reason: str
    took: timedelta
    look: str
    retry_in: timedelta | None = None
    schedule: str | None = None
    scheduled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterrupted(Fact):
    """An attempt was cut by a stop and is ready for a peer, uncharged."""

    event: ClassVar[str] = "run-interrupted"
    level: ClassVar[Level] = Level.WARNING
    app: str
    handler: str
    message: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Fact):
    """A peer took over an attempt; the child here was ended."""

    event: ClassVar[str] = "lease-lost"
    level: ClassVar[Level] = Level.WARNING
    app: str
    handler: str
    message: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReadmitted(Fact):
    """The broker had lost its record of an attempt that runs here; it was written anew."""

    event: ClassVar[str] = "run-readmitted"
    level: ClassVar[Level] = Level.WARNING
    app: str
    handler: str
    message: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAbandoned(Fact):
    """What no live worker could run since `since_at` ended as failed. `handler` is @schedule where that never ran."""

    event: ClassVar[str] = "run-abandoned"
    level: ClassVar[Level] = Level.ERROR
    app: str
    handler: str
    message: str
    since_at: datetime
    reason: str = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRefused(Fact):
    """The broker will not take the end of an attempt: its place is free again, and its lease runs out."""

    event: ClassVar[str] = "end-refused"
    level: ClassVar[Level] = Level.ERROR
    app: str
    handler: str
    message: str
    attempt: int
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerLeft(Fact):
    """Something was written by a newer relayctl and is left for a worker that knows it. `kind` says what it is."""

    event: ClassVar[str] = "newer-left"
    level: ClassVar[Level] = Level.WARNING
    kind: str
    name: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeEnded(Fact):
    """A run that somebody on this machine asked for ended; whoever waited for it has been told how."""

    event: ClassVar[str] = "invoke-ended"
    app: str
    handler: str
    message: str
    outcome: str
    took: timedelta
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine(Fact):
    """A line that a handler printed, already made harmless and masked."""

    event: ClassVar[str] = "output"
    label: str
    stream: str
    line: str
