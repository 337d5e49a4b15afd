"""An app as the reconciler, the scheduler and the runners see it: frozen values, defaults filled in, all checked.

Only `templates.meaning` makes them from files. Two templates that mean the same give equal values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from relayctl.core.cron import Cron, Every
from relayctl.core.names import AppName, ScheduleName, ServiceName
from relayctl.core.pattern import Pattern
from relayctl.core.problem import Place

DEFAULT_TIMEOUT = timedelta(seconds=6)
DEFAULT_RETRIES = 4
DEFAULT_BACKOFF = (
    timedelta(minutes=1),
    timedelta(minutes=2),
    timedelta(minutes=5),
    timedelta(minutes=10),
)
DEFAULT_CONCURRENCY = 2


class Isolation(Enum):
    """Whether a child serves many invocations or one."""

    WARM = "warm"
    FRESH = "fresh"


class Overlap(Enum):
    """What an occurrence does that finds another unfinished one of its schedule."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"


class CatchUp(Enum):
    """Which occurrences of a long gap are still published."""

    LATEST = "latest"
    OLDEST = "oldest"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Limits of one process tree; None is no limit. `memory` in bytes, `cpus` in cores."""

    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None

    @property
    def declared(self) -> tuple[str, ...]:
        """The names of the limits that are set."""
        return tuple(name for name in ("memory", "cpus", "pids") if getattr(self, name) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """How an invocation is run: `timeout` before the cap, `retries` beyond the first attempt, `backoff` in between."""

    handler: str
    timeout: timedelta = DEFAULT_TIMEOUT
    retries: int = DEFAULT_RETRIES
    backoff: tuple[timedelta, ...] = DEFAULT_BACKOFF
    has_own_timeout: bool = field(default=False, compare=False)
    has_own_retries: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A named trigger with the handler to run. `input` is canonical JSON text of a mapping, or None."""

    name: ScheduleName
    trigger: Cron | Every
    contract: Contract
    enabled: bool = True
    overlap: Overlap = Overlap.ALLOW
    catch_up: CatchUp = CatchUp.LATEST
    jitter: timedelta = timedelta(0)
    input: str | None = None
    moved_from: tuple[AppName, ScheduleName] | None = None
    description: str = ""
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRule:
    """A pattern over external events, with the handler to run."""

    pattern: Pattern
    contract: Contract
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An HTTP check of a service."""

    path: str
    interval: timedelta = timedelta(seconds=10)
    timeout: timedelta = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A long-lived process: `entrypoint` is a file of the app, `command` an argument list; one of the two is set."""

    name: ServiceName
    entrypoint: str | None = None
    command: tuple[str, ...] | None = None
    port: int | None = None
    replicas: int = 1
    check: Check | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One directory with its template. `env` and `secrets` are sorted by name; a secret is a reference, not a value."""

    name: AppName
    runtime: str | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    isolation: Isolation = Isolation.WARM
    resources: Resources = Resources()
    env: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    events: tuple[EventRule, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    services: tuple[Service, ...] = ()

    def schedule(self, name: str) -> Schedule | None:
        """The schedule of that name."""
        return next((schedule for schedule in self.schedules if schedule.name == name), None)

    def handlers(self) -> frozenset[str]:
        """Every handler that a schedule or an event rule names."""
        rules = {rule.contract.handler for rule in self.events}
        return frozenset(rules | {schedule.contract.handler for schedule in self.schedules})
