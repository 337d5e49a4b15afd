"""Observes a worker for `core.health`: the beat and the last pass of its loops, the broker, what is due, what is held.

It asks the broker over a connection of its own with short waits, so that a probe never waits for the loops' calls.
"""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl import __version__
from relayctl.core.health import OVERDUE_GRACE_S, HealthReport, LoopSigns, Signs, State, judge
from relayctl.core.occurrence import from_epoch, instant_text, occurrence_id
from relayctl.core.timing import jitter_of
from relayctl.errors import BrokerError, FileFailure
from relayctl.store.connect import Kind, connect, measure_offset
from relayctl.store.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from relayctl.host.clock import Clock
    from relayctl.store.keys import Keys
    from relayctl.store.target import Target
    from relayctl.worker.agenda import Name
    from relayctl.worker.worker import Worker

PROBE_WITHIN_S = 1.0
_FRESH_S = 0.5
_MOST_NAMED = 1000


class BeatClock:
    """A loop's own clock: that the loop asks for the time, or comes out of a wait, is its sign of life.

    A pass that fails for want of a broker beats too, while `last_pass_at` only counts complete ones.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.beat_at = clock.monotonic()

    def now(self) -> datetime:
        return self._clock.now()

    def time(self) -> float:
        return self._clock.time()

    def monotonic(self) -> float:
        self.beat_at = self._clock.monotonic()
        return self.beat_at

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self.monotonic()
        try:
            return self._clock.wait(event, timeout)
        finally:
            self.monotonic()


class Vitals:
    """What there is to know of one worker's health, gathered when somebody asks."""

    def __init__(self, worker: Worker, target: Target, keys: Keys, clock: Clock, resync: timedelta | None) -> None:
        self._worker = worker
        self._clock = clock
        self._resync = resync
        self._client = connect(
            target, client_name=f"{worker.id}-health", connect_timeout_s=PROBE_WITHIN_S, timeout_s=PROBE_WITHIN_S
        )
        self._stream = Stream(self._client, keys)
        # In a Cluster the clock that counts is that of the node with the keys.
        self._clock_key = keys.events if target.kind is Kind.CLUSTER else None
        self._lock = threading.Lock()
        self._signs: Signs | None = None
        self._looked_at = 0.0
        self.state = State.STARTING
        self.http: str | None = None

    def report(self) -> HealthReport:
        """What to think of the worker now."""
        return judge(self.look())

    def look(self) -> Signs:
        """What is observed now; several that ask at about the same time share one look."""
        with self._lock:
            if self._signs is None or self._clock.monotonic() - self._looked_at > _FRESH_S:
                self._signs = self._observe()
                self._looked_at = self._clock.monotonic()
            return self._signs

    def enter(self, state: State) -> None:
        """The worker is in that state now."""
        self.state = state
        with self._lock:
            self._signs = None

    def _observe(self) -> Signs:
        worker, reconciler, source = self._worker, self._worker.reconciler, self._worker.source
        trouble, difference = self._ask_broker() if self.state is not State.STARTING else (None, None)
        snapshot = reconciler.snapshot
        armed = worker.scheduler.armed()
        rows, age, outbox_trouble = self._outbox()
        overdue, overdue_by = self._overdue(armed) if self.state is State.RUNNING else ([], timedelta())
        return Signs(
            worker=worker.id,
            pid=os.getpid(),
            version=__version__,
            state=self.state,
            uptime=self._clock.now() - worker.started_at,
            loops=self.loops(),
            resync=self._resync,
            apps=len(snapshot.live),
            schedules=sum(len(item.app.schedules) for item in snapshot.live.values()),
            armed=len(armed),
            running=len(worker.executor.running()) - worker.executor.in_hand(),
            is_registered=reconciler.holdings_seq > 0 or bool(source.awaits),
            broker_trouble=trouble,
            clock_difference=difference,
            overdue=overdue,
            overdue_by=overdue_by,
            outbox_rows=rows,
            outbox_age=age,
            outbox_trouble=outbox_trouble,
            source=source.words,
            source_notes=source.notes,
            source_busy=source.busy,
            is_source_lost=reconciler.is_source_lost and not source.awaits,
            held_removal=worker.held_removal,
            broken=reconciler.broken_names,
            behind=reconciler.drift,
            revision=reconciler.revision,
            http=self.http,
            services=worker.services.standings,
            unbuilt=worker.environments.unbuilt,
        )

    def loops(self) -> dict[str, LoopSigns]:
        """Each loop that should be running."""
        now = self._clock.monotonic()
        passes = self._worker.passes()
        return {
            name: LoopSigns(
                beat_age_s=max(0.0, now - beat_at),
                pass_age_s=None if passes.get(name) is None else max(0.0, now - passes[name]),
                is_alive=is_alive,
            )
            for name, (is_alive, beat_at) in self._worker.beats().items()
        }

    def unaccounted(self) -> int:
        """Firings that the audit of this worker finds overdue."""
        return self._worker.auditor.unaccounted

    def backlog(self) -> int | None:
        """How many entries the stream holds, or None where the broker does not say."""
        try:
            return self._stream.backlog()
        except BrokerError:
            return None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _outbox(self) -> tuple[int, timedelta | None, str | None]:
        try:
            rows, oldest = self._worker.rescue.outbox.standing()
        except FileFailure as error:
            return 0, None, error.message
        return rows, None if oldest is None else max(timedelta(), self._clock.now() - oldest), None

    def _ask_broker(self) -> tuple[str | None, timedelta | None]:
        try:
            offset = measure_offset(self._client, self._clock, key=self._clock_key)
        except BrokerError as error:
            return error.message, None
        here = self._clock.time() - self._clock.monotonic()
        return None, timedelta(seconds=here - offset)

    def _overdue(self, armed: Mapping[Name, int | None]) -> tuple[list[str], timedelta]:
        """The firings that should have been published a grace ago, the oldest first."""
        now_ms = self._worker.time.now_ms()
        limit_ms = now_ms - int(OVERDUE_GRACE_S * 1000)
        found = [
            (due_ms, name, at)
            for name, at in armed.items()
            # Jitter only ever delays, so it is computed for the few that could be late.
            if at is not None and at * 1000 < limit_ms and (due_ms := self._due_ms(name, at)) < limit_ms
        ]
        if not found:
            return [], timedelta()
        found.sort()
        named = [f"{app}/{schedule}@{instant_text(from_epoch(at))}" for _, (app, schedule), at in found[:_MOST_NAMED]]
        return named, timedelta(milliseconds=now_ms - found[0][0])

    def _due_ms(self, name: Name, at: int) -> int:
        live = self._worker.reconciler.snapshot.live.get(name[0])
        schedule = None if live is None else live.app.schedule(name[1])
        if schedule is None or not schedule.jitter:
            return at * 1000
        spread = jitter_of(occurrence_id(*name, from_epoch(at)), schedule.jitter)
        return at * 1000 + spread // timedelta(milliseconds=1)
