"""What happened, as frozen values: logs, counters and tests listen to one `emit(fact)`.

An event's slug, level and field names are interface. The words for people stand in `render.facts`; nothing is
written here. A new fact is one class here, one line of wording there and one example in its golden test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar


class Level(Enum):
    """How much a fact matters to an operator."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_KINDS: dict[str, type[Fact]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that happened. `event` is its slug, `level` its weight; the fields carry ids and never a secret."""

    event: ClassVar[str] = ""
    level: ClassVar[Level] = Level.INFO

    def __init_subclass__(cls) -> None:
        # Making a class slotted makes it a second time, and the second one counts.
        _KINDS[cls.event] = cls

    def to_fields(self) -> dict[str, Any]:
        """The fields as JSON values: instants in UTC, durations in seconds (`…_s`), absent ones left out."""
        found: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, timedelta):
                found[f"{item.name}_s"] = round(value.total_seconds(), 6)
            elif isinstance(value, datetime):
                found[item.name] = value.strftime("%Y-%m-%dT%H:%M:%SZ")
            elif isinstance(value, Enum):
                found[item.name] = value.value
            elif value is not None:
                found[item.name] = list(value) if isinstance(value, tuple) else value
        return found


Emit = Callable[[Fact], None]
"""Where facts go; it never raises and never blocks for long."""


def all_facts() -> tuple[type[Fact], ...]:
    """Every kind of fact, in the order in which they are defined."""
    return tuple(_KINDS.values())


# The worker and what it stands on.


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


# The tree.


@dataclass(frozen=True, slots=True, kw_only=True)
class AppLoaded(Fact):
    """An app is live in a new revision; the counts are schedules."""

    event: ClassVar[str] = "app-loaded"
    app: str
    revision: str
    added: int
    changed: int
    removed: int
    was_broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppBroken(Fact):
    """An app's template has errors; `place` is file:line, `others` the apps that are not affected."""

    event: ClassVar[str] = "app-broken"
    level: ClassVar[Level] = Level.ERROR
    app: str
    place: str
    code: str
    problem: str
    problems: int
    others: int
    has_last_good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRefused(Fact):
    """An app's new code cannot be loaded; the build before it goes on serving."""

    event: ClassVar[str] = "build-refused"
    level: ClassVar[Level] = Level.ERROR
    app: str
    revision: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRemoved(Fact):
    """An app left the tree and its schedules ended."""

    event: ClassVar[str] = "app-removed"
    app: str
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLost(Fact):
    """The apps directory vanished or cannot be read; everything keeps running as it was."""

    event: ClassVar[str] = "source-lost"
    level: ClassVar[Level] = Level.ERROR
    source: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBack(Fact):
    """The apps directory can be read again."""

    event: ClassVar[str] = "source-back"
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalHeld(Fact):
    """A pass wants to remove too much at once and waits for consent."""

    event: ClassVar[str] = "removal-held"
    level: ClassVar[Level] = Level.WARNING
    revision: str
    removed: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBehind(Fact):
    """This checkout's definition is superseded; the fleet's one is run."""

    event: ClassVar[str] = "schedule-behind"
    level: ClassVar[Level] = Level.WARNING
    app: str
    schedule: str
    reason: str


# From tick to stream.


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Fact):
    """A firing is in the stream; `marks` say how it got there."""

    event: ClassVar[str] = "published"
    level: ClassVar[Level] = Level.DEBUG
    app: str
    schedule: str
    scheduled_at: datetime
    entry: str
    late: timedelta
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLate(Fact):
    """A firing went into the stream well after its instant: by lateness, or by the schedule's catch-up policy."""

    event: ClassVar[str] = "published-late"
    app: str
    schedule: str
    scheduled_at: datetime
    late: timedelta
    is_catch_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver(Fact):
    """Firings of a long gap that the catch-up policy leaves out: from `first_at` to `last_at`, both included."""

    event: ClassVar[str] = "passed-over"
    level: ClassVar[Level] = Level.WARNING
    app: str
    schedule: str
    first_at: datetime
    last_at: datetime
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(Fact):
    """A peer had published that firing already."""

    event: ClassVar[str] = "duplicate"
    level: ClassVar[Level] = Level.DEBUG
    app: str
    schedule: str
    scheduled_at: datetime
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFailed(Fact):
    """A publish attempt failed; the intent is kept."""

    event: ClassVar[str] = "publish-failed"
    level: ClassVar[Level] = Level.WARNING
    app: str
    schedule: str
    scheduled_at: datetime
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(Fact):
    """Firings ended without a run: a verdict with its reason over `first_at` to `last_at`."""

    event: ClassVar[str] = "closed"
    level: ClassVar[Level] = Level.WARNING
    app: str
    schedule: str
    verdict: str
    reason: str
    first_at: datetime
    last_at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue(Fact):
    """A firing was due and nobody has accounted for it."""

    event: ClassVar[str] = "overdue"
    level: ClassVar[Level] = Level.ERROR
    app: str
    schedule: str
    scheduled_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerChanged(Fact):
    """The scheduler entered another state: ready, offline, degraded or unavailable."""

    event: ClassVar[str] = "scheduler-changed"
    level: ClassVar[Level] = Level.WARNING
    state: str
    reason: str


# From message to end.


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
class OutputLine(Fact):
    """A line that a handler printed, already made harmless and masked."""

    event: ClassVar[str] = "output"
    label: str
    stream: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChanged(Fact):
    """A replica of a service started, ended or is held back."""

    event: ClassVar[str] = "service-changed"
    app: str
    service: str
    replica: int
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlUsed(Fact):
    """An operator paused, resumed, triggered or reloaded something."""

    event: ClassVar[str] = "control-used"
    action: str
    target: str
    by: str = ""
    reason: str = ""
