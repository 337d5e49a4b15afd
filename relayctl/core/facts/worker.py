"""Facts of a worker and what it stands on: broker, clocks, loops, operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from relayctl.core.facts.fact import Fact, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Fact):
    """A worker is up: its id, process and broker (without a password)."""

    event: ClassVar[str] = "worker-started"
    worker: str
    pid: int
    version: str
    broker: str
    namespace: str
    apps: int
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFiring(Fact):
    """What a worker that has just started will run next; `trigger` is the schedule as it is written."""

    event: ClassVar[str] = "next-firing"
    app: str
    schedule: str
    handler: str
    trigger: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsUnenforced(Fact):
    """Limits that templates ask for and this machine cannot enforce."""

    event: ClassVar[str] = "limits-unenforced"
    level: ClassVar[Level] = Level.WARNING
    limits: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining(Fact):
    """A stop was asked for; nothing new is claimed."""

    event: ClassVar[str] = "draining"
    reason: str
    running: int
    limit: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Fact):
    """The worker is done. `interrupted` invocations went back to their peers, uncharged."""

    event: ClassVar[str] = "stopped"
    after: timedelta
    finished: int
    interrupted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStarted(Fact):
    """An embedded broker runs on this state directory."""

    event: ClassVar[str] = "broker-started"
    pid: int
    flavour: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLost(Fact):
    """The broker does not answer; work that runs goes on."""

    event: ClassVar[str] = "broker-lost"
    level: ClassVar[Level] = Level.ERROR
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBack(Fact):
    """The broker answers again."""

    event: ClassVar[str] = "broker-back"
    after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeRemade(Fact):
    """The stream or its consumer group was gone and was made again, by this worker for all."""

    event: ClassVar[str] = "intake-remade"
    level: ClassVar[Level] = Level.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWarning(Fact):
    """The broker is set up so that something may be lost."""

    event: ClassVar[str] = "broker-warning"
    level: ClassVar[Level] = Level.WARNING
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped(Fact):
    """The wall clock moved by itself; forward is positive."""

    event: ClassVar[str] = "clock-stepped"
    level: ClassVar[Level] = Level.WARNING
    by: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFailed(Fact):
    """One pass of a loop failed and will be tried again."""

    event: ClassVar[str] = "loop-failed"
    level: ClassVar[Level] = Level.ERROR
    loop: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlUsed(Fact):
    """An operator paused, resumed, triggered or reloaded something."""

    event: ClassVar[str] = "control-used"
    action: str
    target: str
    by: str = ""
    reason: str = ""
