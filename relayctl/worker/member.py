"""One replica of a service on this worker, from what it was started to how it is doing; values and no decisions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relayctl.core import service as rules
from relayctl.core.service import Phase, Wanted

if TYPE_CHECKING:
    from relayctl.core.model import Service
    from relayctl.runners.build import Build
    from relayctl.runners.httpcheck import HttpCheck
    from relayctl.runners.service import ReplicaProcess
    from relayctl.worker.crew import Crew


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A service as it should be: its definition, what its processes are made from, and the version of both."""

    service: Service
    build: Build
    version: str

    @property
    def wanted(self) -> Wanted:
        """The part of it that decisions are made from."""
        return Wanted(version=self.version, replicas=self.service.replicas, port=self.service.port)


class NotStarted(Exception):
    """A replica cannot be started now; the text is the reason."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One replica that has a process. `leaves` says why it was told to end, `failing` where that was its own fault."""

    crew: Crew
    index: int
    version: str
    port: int | None
    started_at: float
    process: ReplicaProcess
    begun_at: float | None = None
    phase: Phase = Phase.STARTING
    up_at: float | None = None
    leaves: str = ""
    failing: str = ""
    check: HttpCheck | None = None
    check_at: float = 0.0
    failed_checks: int = 0
    check_trouble: str = "it was not asked yet"

    def alarm(self) -> float:
        """When its process or its check wants to be looked at."""
        check = math.inf if self.check is None else self.check.alarm
        return min(check, self.process.alarm)

    def due_at(self, has_check: bool, *, has_trouble: bool) -> float:
        """When something is to be decided about it as long as it goes on as it does."""
        if self.phase is Phase.STOPPING or self.process.is_over or self.begun_at is None:
            return math.inf
        is_checked = has_check and self.port is not None
        at = self.check_at if is_checked and self.check is None else math.inf
        if self.phase is Phase.STARTING:
            return min(at, self.begun_at + (rules.CHECKED_WITHIN_S if is_checked else rules.SETTLED_AFTER_S))
        if has_trouble and self.up_at is not None:
            return min(at, self.up_at + rules.STABLE_AFTER_S)
        return at
