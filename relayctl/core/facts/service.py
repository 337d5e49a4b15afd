"""Facts of the services of an app: their replicas come, go, fail and are replaced."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from relayctl.core.facts.fact import Fact, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStarted(Fact):
    """A replica's process was started; `port` is the one it was told."""

    event: ClassVar[str] = "service-started"
    app: str
    service: str
    replica: int
    pid: int
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUp(Fact):
    """A replica works: its check passed, or it has lived for a moment."""

    event: ClassVar[str] = "service-up"
    level: ClassVar[Level] = Level.DEBUG
    app: str
    service: str
    replica: int
    after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEnded(Fact):
    """A replica ended that nobody told to, or was ended because its check failed; it is started again after a pause."""

    event: ClassVar[str] = "service-ended"
    level: ClassVar[Level] = Level.WARNING
    app: str
    service: str
    replica: int
    reason: str
    lived: timedelta
    restart_in: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNotStarted(Fact):
    """A replica could not be started at all; told once for each reason."""

    event: ClassVar[str] = "service-not-started"
    level: ClassVar[Level] = Level.ERROR
    app: str
    service: str
    replica: int
    reason: str
    retry_in: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStopped(Fact):
    """A replica was told to end and did; `is_killed` where it did not within the grace."""

    event: ClassVar[str] = "service-stopped"
    app: str
    service: str
    replica: int
    reason: str
    is_killed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCrashLoop(Fact):
    """A replica has failed several times in a row; told once, until it has stayed up for a minute."""

    event: ClassVar[str] = "service-crash-loop"
    level: ClassVar[Level] = Level.ERROR
    app: str
    service: str
    replica: int
    failures: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecovered(Fact):
    """A replica that was in a crash loop has stayed up for a minute."""

    event: ClassVar[str] = "service-recovered"
    app: str
    service: str
    replica: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReplaced(Fact):
    """All replicas of a service that has changed are of the new definition now."""

    event: ClassVar[str] = "service-replaced"
    app: str
    service: str
    replicas: int
    took: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHeld(Fact):
    """A service has changed and its new definition does not come up; `old` replicas of the one before go on."""

    event: ClassVar[str] = "service-held"
    level: ClassVar[Level] = Level.ERROR
    app: str
    service: str
    old: int
    reason: str
