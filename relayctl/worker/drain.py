"""How a worker stops: nothing new is claimed, what runs may end for a while, what is left is interrupted and recorded.

It decides how long is waited for whom; the loops themselves say what they still have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.facts import Draining, Emit, Stopped
from relayctl.errors import BrokerError

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.fleet import Fleet
    from relayctl.worker.claimer import Claimer
    from relayctl.worker.executor import Executor
    from relayctl.worker.loops import Loops
    from relayctl.worker.rescue import Rescue
    from relayctl.worker.services import Services

GRACE_S = 3.0
_AFTER_KILL_S = 2.0
_BROKER_WAIT_S = 10.0
"""How long a stop waits, once nothing runs any more, for a broker that is away to take the ends."""
_POLL_S = 0.05
_INTAKE = ("watch", "environments", "reconciler", "scheduler", "consumer", "auditor", "retrier")


class Drain:
    """The end of one worker. `run` belongs to the thread that started its loops."""

    def __init__(
        self,
        *,
        worker: str,
        loops: Loops,
        supervisor: threading.Thread,
        claimer: Claimer,
        executor: Executor,
        services: Services,
        rescue: Rescue,
        fleet: Fleet,
        limit: timedelta,
        clock: Clock,
        emit: Emit,
    ) -> None:
        """`supervisor` is the executor's thread, `limit` how long what runs may take to end by itself."""
        self._worker = worker
        self._loops = loops
        self._supervisor = supervisor
        self._claimer = claimer
        self._executor = executor
        self._services = services
        self._rescue = rescue
        self._fleet = fleet
        self._limit = limit
        self._clock = clock
        self._emit = emit

    def run(self, reason: str, hurry: Callable[[], bool], close: Callable[[], None]) -> None:
        """Stop claiming, let what runs end, interrupt what is left. `hurry` says that nobody wants to wait on.

        `close` is called last, when nothing needs the broker any more.
        """
        began = self._clock.monotonic()
        running = len(self._executor.running()) - self._executor.in_hand() + self._executor.guests.count()
        self._emit(Draining(reason=reason, running=running, limit=self._limit))
        self._claimer.stop_claiming()
        self._executor.guests.close()
        self._loops.end(*_INTAKE)
        self._rescue.close()
        if not self._claimer.is_broken:
            self._leave()
        self._end_runs(began + self._limit.total_seconds(), hurry)
        # After the handlers, which may need them.
        self._loops.end("services")
        self._services.close()
        self._settles_by(self._clock.monotonic() + _AFTER_KILL_S, lambda: self._claimer.is_broken)
        self._loops.end("claimer")
        close()
        self._emit(
            Stopped(
                after=timedelta(seconds=self._clock.monotonic() - began),
                finished=self._claimer.ended,
                interrupted=self._claimer.interrupted,
            )
        )

    def _end_runs(self, until: float, hurry: Callable[[], bool]) -> None:
        if not self._settles_by(until, hurry):
            self._executor.interrupt_all("the worker is stopping")
            self._settles_by(self._clock.monotonic() + GRACE_S + _AFTER_KILL_S, self._is_idle)
        self._executor.close()
        if self._supervisor.is_alive():
            self._supervisor.join()

    def _settles_by(self, until: float, hurry: Callable[[], bool]) -> bool:
        never = threading.Event()
        idle_until = self._clock.monotonic() + _BROKER_WAIT_S
        while self._executor.guests.count() or not self._claimer.is_settled():
            now = self._clock.monotonic()
            if not self._is_idle():
                idle_until = now + _BROKER_WAIT_S
            if now >= min(until, idle_until) or hurry():
                return False
            self._clock.wait(never, _POLL_S)
        return True

    def _is_idle(self) -> bool:
        """Whether nothing runs any more, and only a broker that is away keeps what ended from being recorded."""
        return self._claimer.is_broken and not self._executor.is_busy()

    def _leave(self) -> None:
        try:
            self._fleet.leave(self._worker)
        except BrokerError:
            # The record expires by itself.
            return
