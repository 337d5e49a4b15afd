"""One worker whose loops are stepped by the caller's thread, so that what happens at an instant has one order.

Only its children run beside it, in real time; the loops are the very ones of `relayctl serve`. It moves no clock.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from relayctl.host.clock import SystemClock
from relayctl.host.secrets import SecretStore
from relayctl.host.state import StateDir
from relayctl.runners.environ import base_environ
from relayctl.sources.directory import DirectorySource
from relayctl.worker.auditor import SETTLE_S
from relayctl.worker.options import HeldTime, Options
from relayctl.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from relayctl.core.facts import Emit
    from relayctl.host.clock import HeldClock
    from relayctl.store.keys import Keys
    from relayctl.store.target import Target

QUIET_WAIT_S = 3600.0
"""The longest time that may pass at once while nothing is due and nothing is in doubt."""
WATCHFUL_WAIT_S = 2.0
"""The same while leases, removals or another definition are waited on: the pace of a worker's own housekeeping."""
_WATCHFUL_AFTER_START_S = 40.0
_ALARMED_WAIT_S = 30.0
_SWEEP_S = 1.0
_SOON_S = 0.3
_MAX_CHILDREN = 16
_DRAIN_WITHIN_S = 10.0
_FOR_EVER_MS = 1 << 52


class _RunClock:
    """What children go by: real time, begun anew at each instant of the held clock where a wall time is wanted."""

    def __init__(self, held: HeldClock) -> None:
        self._held = held
        self._real = SystemClock()
        self._instant = held.now()
        self._since = self._real.monotonic()

    def now(self) -> datetime:
        held, real = self._held.now(), self._real.monotonic()
        if held != self._instant:
            self._instant, self._since = held, real
        return held + timedelta(seconds=real - self._since)

    def time(self) -> float:
        return self.now().timestamp()

    def monotonic(self) -> float:
        return self._real.monotonic()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        return self._real.wait(event, timeout)


class SteppedWorker:
    """A worker on one tree, one state directory and one held clock. `worker` is the real one inside."""

    def __init__(
        self,
        *,
        target: Target,
        keys: Keys,
        apps: Path,
        state: Path,
        clock: HeldClock,
        instant: Callable[[], int],
        emit: Emit,
        horizon: timedelta,
    ) -> None:
        """`instant` is the broker's time in milliseconds, which need not be this machine's."""
        home = StateDir(state).create()
        self.clock = clock
        self.apps = apps
        self.state = state
        self.worker = Worker(
            target=target,
            keys=keys,
            source=DirectorySource(apps, clock),
            watch=None,
            resolve_secret=SecretStore(None, home.secrets).resolve,
            options=Options(
                drain=timedelta(seconds=_DRAIN_WITHIN_S),
                resync=None,
                cap=timedelta(hours=1),
                horizon=horizon,
                max_event_bytes=256 * 1024,
                max_children=_MAX_CHILDREN,
                base_environ=base_environ(),
                outbox=home.outbox,
                last_good=home.last_good,
            ),
            clock=clock,
            emit=emit,
            held=HeldTime(instant=instant, runs=_RunClock(clock)),
        )
        self._gate_wait_s: float | None = None
        self._reconcile_wait_s = 0.0
        self._audit_at = clock.monotonic() + SETTLE_S
        self._retry_at = 0.0
        self._watchful_until = 0.0
        self._is_started = False

    @property
    def id(self) -> str:
        """The worker's id in the fleet."""
        return self.worker.id

    def start(self) -> None:
        """Join the fleet. Raises ModeConflict, BrokerUnavailable or BrokerRefused."""
        self._be_watchful()
        self.worker.open()
        self.worker.consumer.step(block_ms=1)
        self._is_started = True

    def look(self) -> None:
        """Take a look at the tree with the next round."""
        self._be_watchful()
        self.worker.reconcile()

    def hear(self) -> None:
        """Ask the broker with the next round what is new: the time, its epoch, and what others did."""
        self.worker.scheduler.beat_now()

    def round(self) -> None:
        """Step every loop once, as far as this instant asks for it."""
        worker, now = self.worker, self.clock.monotonic()
        wait_s = worker.scheduler.step()
        # A pass that did not come through is held up: by a broker that is away, rows of the outbox, or peers.
        self._gate_wait_s = None if worker.scheduler.last_pass_at >= now else wait_s
        if not worker.stream.is_all_routed():
            worker.consumer.step(block_ms=1)
        worker.claimer.step()
        self._reconcile_wait_s = worker.reconciler.step()
        if now >= self._audit_at:
            self._audit_at = now + worker.auditor.step()
        if now >= self._retry_at:
            self._retry_at = now + worker.rescue.retrier.step()

    def is_busy(self) -> bool:
        """Whether this instant still asks something of it, its children included."""
        return self.is_due() or not self.worker.stream.is_all_routed() or self.is_running()

    def is_due(self) -> bool:
        """Whether a firing is due that nothing holds up."""
        due = self.worker.scheduler.next_due_ms()
        return self._gate_wait_s is None and due is not None and due <= self.worker.time.now_ms()

    def is_running(self) -> bool:
        """Whether its children have work, or could take some that is due."""
        live = self.worker.reconciler.snapshot.live
        ready = self.worker.invocations.ready_apps(self.worker.time.now_ms())
        return not self.worker.claimer.is_settled() or any(app in live for app in ready)

    def wait_s(self) -> float:
        """How long nothing will be asked of it: time may pass by so much at once."""
        now_ms = self.worker.time.now_ms()
        waits = [WATCHFUL_WAIT_S if self._is_watchful() else QUIET_WAIT_S]
        if self.worker.auditor.unaccounted:
            waits.append(_ALARMED_WAIT_S)
        if self._gate_wait_s is not None:
            waits.append(self._gate_wait_s)
        if self._reconcile_wait_s < _SOON_S:
            waits.append(self._reconcile_wait_s)
        heads = self.worker.registrar.heads.values()
        resumes = (head.paused_until * 1000 for head in heads if head.paused_until is not None)
        dues = (self.worker.scheduler.next_due_ms(), self.worker.invocations.next_due_ms(), *resumes)
        waits += [(due - now_ms) / 1000 for due in dues if due is not None and due > now_ms]
        if self.worker.invocations.expired(_FOR_EVER_MS, count=1):
            waits.append(_SWEEP_S)
        return max(0.001, min(waits))

    def stop(self) -> None:
        """Leave the fleet in an orderly way; what does not end within some real seconds is interrupted."""
        if not self._is_started:
            return
        self._is_started = False
        self.worker.claimer.stop_claiming()
        if not self._settles():
            self.worker.executor.interrupt_all("the worker is stopping")
            self._settles()
        self.worker.drain("the test", lambda: True)

    def _settles(self) -> bool:
        real, pause = SystemClock(), threading.Event()
        until = real.monotonic() + _DRAIN_WITHIN_S
        while not self.worker.claimer.is_settled():
            if real.monotonic() > until:
                return False
            self.worker.claimer.step()
            pause.wait(0.002)
        return True

    def _is_watchful(self) -> bool:
        worker = self.worker
        return (
            self.clock.monotonic() < self._watchful_until
            or self._gate_wait_s is not None
            or bool(worker.registrar.behind)
        )

    def _be_watchful(self) -> None:
        self._watchful_until = self.clock.monotonic() + _WATCHFUL_AFTER_START_S
