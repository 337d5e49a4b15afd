"""Facts from tick to stream."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from relayctl.core.facts.fact import Fact, Level


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
    """Firings of a long gap that catch-up leaves out, closed as missed: from `first_at` to `last_at`, both included.

    `count` says how many this worker closed; `reason` is `horizon` or the policy.
    """

    event: ClassVar[str] = "passed-over"
    level: ClassVar[Level] = Level.WARNING
    app: str
    schedule: str
    first_at: datetime
    last_at: datetime
    policy: str
    count: int = 1
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue(Fact):
    """Firings that were due more than a minute ago and are neither published nor closed, told once by who audits."""

    event: ClassVar[str] = "overdue"
    level: ClassVar[Level] = Level.ERROR
    app: str
    schedule: str
    first_at: datetime
    last_at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed(Fact):
    """Overdue firings that are waited for no longer: closed as missed, with the reason."""

    event: ClassVar[str] = "missed"
    level: ClassVar[Level] = Level.ERROR
    app: str
    schedule: str
    first_at: datetime
    last_at: datetime
    count: int
    reason: str


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
class SchedulerChanged(Fact):
    """The scheduler entered another state: running, offline, degraded or unavailable."""

    event: ClassVar[str] = "scheduler-changed"
    level: ClassVar[Level] = Level.WARNING
    state: str
    reason: str
