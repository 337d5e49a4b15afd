"""Facts of what did not succeed at once, and of what was forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from relayctl.core.facts.fact import Fact, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxDamaged(Fact):
    """The outbox could not be read and was set aside as `file`; a new one was begun, without what it held."""

    event: ClassVar[str] = "outbox-damaged"
    level: ClassVar[Level] = Level.ERROR
    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRowBad(Fact):
    """A row of the outbox that cannot be trusted: it is kept, and neither published nor deleted. Told once an hour."""

    event: ClassVar[str] = "outbox-row-bad"
    level: ClassVar[Level] = Level.ERROR
    row: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxGivenUp(Fact):
    """A firing that was surely not published was closed as missed, since its schedule has too many in the outbox."""

    event: ClassVar[str] = "outbox-given-up"
    level: ClassVar[Level] = Level.ERROR
    app: str
    schedule: str
    scheduled_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasBehind(Fact):
    """Publications that fewer replicas hold than are asked for; they stay in the outbox until enough do."""

    event: ClassVar[str] = "replicas-behind"
    level: ClassVar[Level] = Level.WARNING
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRestored(Fact):
    """The broker was flushed or replaced; it was told what this worker remembers of its schedules."""

    event: ClassVar[str] = "state-restored"
    level: ClassVar[Level] = Level.WARNING
    offered: int
    restored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLost(Fact):
    """The broker was flushed or replaced, and nobody remembers these schedules: what they owed before is missed."""

    event: ClassVar[str] = "state-lost"
    level: ClassVar[Level] = Level.ERROR
    schedules: tuple[str, ...]
