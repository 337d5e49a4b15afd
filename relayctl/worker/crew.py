"""The replicas of one service on this worker: does what `core.service` decides, and tells what becomes of them.

One thread drives it. It knows no other service and nothing of the broker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from relayctl.core import service as rules
from relayctl.core.facts import (
    Emit,
    ServiceCrashLoop,
    ServiceEnded,
    ServiceHeld,
    ServiceNotStarted,
    ServiceRecovered,
    ServiceReplaced,
    ServiceStarted,
    ServiceStopped,
    ServiceUp,
)
from relayctl.core.service import Phase, Start, Trouble
from relayctl.core.servicestanding import ServiceStanding, standing_of
from relayctl.runners.service import is_port_taken
from relayctl.worker.member import Member, NotStarted, Spec

if TYPE_CHECKING:
    from relayctl.core.model import Check
    from relayctl.runners.service import End, ReplicaProcess

_ASK_AGAIN_S = 0.25
"""The time between two checks of a replica that has not passed one yet, where its interval is not shorter."""


class Launcher(Protocol):
    """What a crew needs of the loop that drives it."""

    def launch(self, crew: Crew, spec: Spec, index: int) -> ReplicaProcess:
        """Start the process of one replica. Raises NotStarted."""
        ...

    def preflight(self, crew: Crew, spec: Spec, index: int) -> None:
        """Look whether a replica could be started, as far as that is known beforehand. Raises NotStarted."""
        ...

    def holder_of(self, port: int) -> str:
        """The replica here that was told this port, or empty."""
        ...

    def ask(self, member: Member, port: int, check: Check) -> None:
        """Begin a check; `member.check` is it, and its end calls `Crew.checked`."""
        ...


@dataclass(slots=True, kw_only=True)
class _Change:
    """A new definition on its way through the replicas."""

    began_at: float
    is_held_told: bool = False


class Crew:
    """The replicas of one service. `alarm` is when `turn` wants to be called, at once where `is_stirred`."""

    def __init__(self, app: str, name: str, launcher: Launcher, emit: Emit) -> None:
        self.app = app
        self.name = name
        self._launcher = launcher
        self._emit = emit
        self._spec: Spec | None = None
        self._members: dict[int, Member] = {}
        self._troubles: dict[int, Trouble] = {}
        self._told: dict[int, str] = {}
        self._change: _Change | None = None
        self._end_reason = rules.REMOVED
        self._restarts = 0
        self.alarm = math.inf
        self.is_stirred = False
        self.has_unstarted = False
        self.standing: ServiceStanding | None = None
        """How it stood after the last turn, or None where it is on its way out."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it is wanted and nothing runs."""
        return self._spec is None and not self._members

    @property
    def members(self) -> list[Member]:
        """The replicas that have a process."""
        return list(self._members.values())

    def want(self, spec: Spec, now: float) -> None:
        """Be that from now on."""
        before, self._spec = self._spec, spec
        self.is_stirred = True
        if before is not None and before.version == spec.version:
            self._troubles = {index: it for index, it in self._troubles.items() if index < spec.service.replicas}
            return
        self._troubles.clear()
        self._told.clear()
        self._change = _Change(began_at=now) if self._members else None

    def disband(self, reason: str) -> None:
        """End all of it."""
        self._spec, self._change, self._end_reason = None, None, reason
        self.is_stirred = True

    def turn(self, now: float, room: int) -> int:
        """Look at every replica and do what is due, with at most `room` starts; how many there were."""
        self.is_stirred = self.has_unstarted = False
        for member in self.members:
            self._look_at(member, now)
        started = self._obey(now, room)
        self._tell_change(now)
        self.alarm = self._next_alarm()
        self.standing = self._stand()
        return started

    # One replica

    def _look_at(self, member: Member, now: float) -> None:
        process = member.process
        if process.alarm <= now:
            process.tick(now)
        if member.check is not None and member.check.alarm <= now:
            member.check.tick(now)
        if process.end is not None:
            self._bury(member, process.end, now)
        elif process.is_begun and not process.is_over and member.phase is not Phase.STOPPING:
            if member.begun_at is None:
                member.begun_at = now
            self._judge(member, member.begun_at, now)

    def _judge(self, member: Member, begun_at: float, now: float) -> None:
        spec = self._spec
        check = spec.service.check if spec is not None and member.version == spec.version else None
        if check is not None and member.port is not None:
            self._ask_when_due(member, member.port, check, now)
            if member.phase is Phase.STARTING and now >= begun_at + rules.CHECKED_WITHIN_S:
                self._fail(member, f"its check did not pass within {rules.CHECKED_WITHIN_S:g}s: {member.check_trouble}")
        elif member.phase is Phase.STARTING and now >= begun_at + rules.SETTLED_AFTER_S:
            self._come_up(member, now)
        trouble = self._troubles.get(member.index)
        if trouble is not None and member.up_at is not None and now >= member.up_at + rules.STABLE_AFTER_S:
            self._forget_trouble(member.index)

    def _forget_trouble(self, index: int) -> None:
        trouble = self._troubles.pop(index, None)
        if trouble is not None and trouble.is_loop:
            self._emit(ServiceRecovered(app=self.app, service=self.name, replica=index))

    def _ask_when_due(self, member: Member, port: int, check: Check, now: float) -> None:
        if member.check is None and now >= member.check_at:
            interval = check.interval.total_seconds()
            is_up = member.phase is Phase.UP
            member.check_at = now + (interval if is_up else min(interval, _ASK_AGAIN_S))
            self._launcher.ask(member, port, check)

    def checked(self, member: Member, reason: str, now: float) -> None:
        """A check has ended: `reason` is why it failed, empty where it did not."""
        member.check = None
        self.is_stirred = True
        member.check_trouble = reason
        if member.phase is Phase.STARTING and not reason:
            self._come_up(member, now)
        elif member.phase is Phase.UP:
            member.failed_checks = member.failed_checks + 1 if reason else 0
            if member.failed_checks >= rules.MOST_FAILED_CHECKS:
                self._fail(member, f"its check failed {member.failed_checks} times in a row: {reason}")

    def _come_up(self, member: Member, now: float) -> None:
        member.phase, member.up_at = Phase.UP, now
        check = None if self._spec is None else self._spec.service.check
        member.check_at = now + (0.0 if check is None else check.interval.total_seconds())
        if self._told.pop(member.index, None) is not None:
            # What kept it from being started is gone: this is no crash that may come again.
            self._forget_trouble(member.index)
        after = timedelta(seconds=now - member.started_at)
        self._emit(ServiceUp(app=self.app, service=self.name, replica=member.index, after=after))

    def _fail(self, member: Member, reason: str) -> None:
        member.failing = reason
        self._stop(member, reason)

    def _stop(self, member: Member, reason: str) -> None:
        member.phase, member.leaves = Phase.STOPPING, reason
        if member.check is not None:
            member.check.cancel()
            member.check = None
        self.is_stirred = True

    def _bury(self, member: Member, end: End, now: float) -> None:
        del self._members[member.index]
        if member.check is not None:
            member.check.cancel()
        if member.leaves and not member.failing:
            self._emit(
                ServiceStopped(
                    app=self.app,
                    service=self.name,
                    replica=member.index,
                    reason=member.leaves,
                    is_killed=end.is_killed,
                )
            )
            return
        up_s = 0.0 if member.up_at is None else now - member.up_at
        self._restarts += 1
        self._told.pop(member.index, None)
        trouble = self._note(member.index, member.version, member.failing or end.reason, up_s, now)
        is_wanted = self._spec is not None and self._spec.version == member.version
        self._emit(
            ServiceEnded(
                app=self.app,
                service=self.name,
                replica=member.index,
                reason=trouble.reason,
                lived=timedelta(seconds=now - member.started_at),
                restart_in=timedelta(seconds=trouble.retry_at - now if is_wanted else 0.0),
            )
        )
        self._tell_loop(member.index, trouble)

    def _note(self, index: int, version: str, reason: str, up_s: float, now: float) -> Trouble:
        trouble = rules.failed(self._troubles.get(index), version, reason, up_s=up_s, now=now)
        self._troubles[index] = trouble
        return trouble

    def _tell_loop(self, index: int, trouble: Trouble) -> None:
        if trouble.failures == rules.LOOP_FROM:
            self._emit(
                ServiceCrashLoop(
                    app=self.app,
                    service=self.name,
                    replica=index,
                    failures=trouble.failures,
                    reason=trouble.reason,
                )
            )

    # All of them

    def _replicas(self) -> Mapping[int, rules.Replica]:
        return {
            index: rules.Replica(version=it.version, phase=it.phase, port=it.port)
            for index, it in self._members.items()
        }

    def _stand(self) -> ServiceStanding | None:
        if self._spec is None:
            return None
        return standing_of(self.app, self.name, self._spec.wanted, self._replicas(), self._troubles, self._restarts)

    def _obey(self, now: float, room: int) -> int:
        spec = self._spec
        wanted = None if spec is None else spec.wanted
        started = 0
        for order in rules.decide(wanted, self._replicas(), self._troubles, now):
            if not isinstance(order, Start):
                member = self._members[order.index]
                if spec is None or order.reason != rules.REPLACED or self._can_follow(spec, member, now):
                    self._stop(member, self._end_reason if spec is None else order.reason)
            elif started >= room:
                self.has_unstarted = True
            elif spec is not None and self._start(spec, order.index, now):
                started += 1
        for member in self._members.values():
            if member.phase is Phase.STOPPING:
                member.process.stop(now)
        return started

    def _can_follow(self, spec: Spec, member: Member, now: float) -> bool:
        """Whether the one that is to replace it could be started; what works is not given up for what cannot."""
        port = spec.wanted.port_of(member.index)
        if member.phase is not Phase.UP:
            return True
        try:
            if port != member.port:
                self._check_port(port)
            self._launcher.preflight(self, spec, member.index)
        except NotStarted as error:
            self._not_started(spec, member.index, str(error), now)
            return False
        return True

    def _check_port(self, port: int | None) -> None:
        if port is not None and is_port_taken(port):
            holder = self._launcher.holder_of(port) or "another process on this machine"
            raise NotStarted(f"port {port} is taken by {holder}")

    def _start(self, spec: Spec, index: int, now: float) -> bool:
        port = spec.wanted.port_of(index)
        try:
            self._check_port(port)
            process = self._launcher.launch(self, spec, index)
        except NotStarted as error:
            self._not_started(spec, index, str(error), now)
            return False
        self._members[index] = Member(
            crew=self, index=index, version=spec.version, port=port, started_at=now, process=process
        )
        self._emit(ServiceStarted(app=self.app, service=self.name, replica=index, pid=process.process.pid, port=port))
        return True

    def _not_started(self, spec: Spec, index: int, reason: str, now: float) -> None:
        trouble = self._note(index, spec.version, reason, 0.0, now)
        if self._told.get(index) != reason:
            self._told[index] = reason
            retry_in = timedelta(seconds=trouble.retry_at - now)
            self._emit(
                ServiceNotStarted(app=self.app, service=self.name, replica=index, reason=reason, retry_in=retry_in)
            )
        self._tell_loop(index, trouble)

    def _tell_change(self, now: float) -> None:
        change, spec = self._change, self._spec
        if change is None or spec is None:
            return
        replicas = self._replicas()
        old = rules.outdated(spec.wanted, replicas)
        is_through = not old and all(
            index in replicas and replicas[index].phase is Phase.UP for index in range(spec.wanted.replicas)
        )
        if is_through:
            self._change = None
            self._emit(
                ServiceReplaced(
                    app=self.app,
                    service=self.name,
                    replicas=spec.wanted.replicas,
                    took=timedelta(seconds=now - change.began_at),
                )
            )
        looping = next((it for it in self._troubles.values() if it.is_loop and it.version == spec.version), None)
        if old and looping is not None and not change.is_held_told:
            change.is_held_told = True
            self._emit(ServiceHeld(app=self.app, service=self.name, old=len(old), reason=looping.reason))

    def _next_alarm(self) -> float:
        wanted = None if self._spec is None else self._spec.wanted
        retry_at = rules.next_at(wanted, self._replicas(), self._troubles)
        alarms = [math.inf if retry_at is None else retry_at]
        has_check = self._spec is not None and self._spec.service.check is not None
        for member in self._members.values():
            alarms.append(member.alarm())
            alarms.append(member.due_at(has_check, has_trouble=member.index in self._troubles))
        return min(alarms)
