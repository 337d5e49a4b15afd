"""The tick loop: takes what is due off the agenda, publishes it, and writes the worker's heartbeat.

The heartbeat is written here and nowhere else, so a hung loop drops out of the fleet's ranks. Reconciling, routing
and running happen on other threads; the agenda's lock is never held over a round trip.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.due import DAY_S, Due
from relayctl.core.facts import ClockStepped, Emit, LoopFailed, PublishFailed, SchedulerChanged
from relayctl.core.occurrence import from_epoch
from relayctl.errors import BrokerError
from relayctl.worker.agenda import Agenda, Armed, Job, Name
from relayctl.worker.publisher import Outcome, Publisher, Standing

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.fleet import Fleet, Pulse, WorkerRecord
    from relayctl.store.stream import Stream
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.peers import Peers

BEAT_S = 2.0
_BATCH = 500
_LONGEST_WAIT_S = 1.0
"""The wall clock is looked at this often, so a suspended machine notices within a second of waking."""
_RETRY_S = (0.1, 0.5, 2.0, 5.0)
_EARLY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the loop tells the rest of the worker, and asks of it."""

    record: Callable[[bool], WorkerRecord]
    """Makes the heartbeat's record; its argument says whether this worker publishes."""
    on_pulse: Callable[[Pulse], None]
    """Hears every heartbeat's answer."""
    on_superseded: Callable[[Sequence[Name]], None]
    """Hears which schedules the registry knows another definition of."""


class Scheduler:
    """Armed schedules of one worker. `arm` and `retire` may be called from any thread, `run` owns the loop."""

    def __init__(
        self,
        *,
        stream: Stream,
        fleet: Fleet,
        peers: Peers,
        time: FleetTime,
        clock: Clock,
        token: str,
        surroundings: Surroundings,
        emit: Emit,
        horizon: timedelta = timedelta(seconds=DAY_S),
    ) -> None:
        """`horizon` is how far back a missed firing is still caught up."""
        self._stream = stream
        self._fleet = fleet
        self._peers = peers
        self._time = time
        self._clock = clock
        self._around = surroundings
        self._emit = emit
        self._horizon_s = horizon // timedelta(seconds=1)
        self._publisher = Publisher(stream, token, emit)
        self._agenda = Agenda(peers.delay_ms)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._next_beat = 0.0
        self._is_offline = False
        self.last_pass_at = clock.monotonic()
        """When the loop last came round, on the monotonic clock: the sign of life that health looks at."""

    def arm(self, schedules: Sequence[Armed]) -> None:
        """Fire these from now on; a schedule whose definition did not change keeps its timer."""
        with self._lock:
            for armed in schedules:
                self._agenda.arm(armed)
        self._wake.set()

    def retire(self, names: Sequence[Name], end_ms: int) -> None:
        """End these schedules at that instant; what they owe up to then is still published."""
        with self._lock:
            for name in names:
                self._agenda.retire(name, end_ms)
        self._wake.set()

    def drop(self, names: Sequence[Name]) -> None:
        """Forget these schedules: somebody else is in charge of them."""
        with self._lock:
            for name in names:
                self._agenda.drop(name)

    def armed(self) -> dict[Name, int | None]:
        """Every armed schedule with its next instant in epoch seconds."""
        with self._lock:
            return {job.name: job.next_at for job in self._agenda}

    def wake(self) -> None:
        """Make the loop come round now."""
        self._wake.set()

    def beat_now(self) -> None:
        """Make the next pass write the heartbeat, because what it says has changed."""
        self._next_beat = 0.0
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; whoever sets it also calls `wake`."""
        while not stop.is_set():
            try:
                wait_s = self.step()
            except BrokerError as error:
                wait_s = self._offline(error)
            except Exception as error:  # noqa: BLE001  a loop that dies takes every later firing with it
                self._emit(LoopFailed(loop="scheduler", reason=f"{type(error).__name__}: {error}"))
                wait_s = _LONGEST_WAIT_S
            self._clock.wait(self._wake, min(wait_s, _LONGEST_WAIT_S))
            self._wake.clear()

    def step(self) -> float:
        """One pass; how many seconds may go by until the next."""
        self._watch_clock()
        self._beat()
        while True:
            now_ms = self._time.now_ms()
            with self._lock:
                jobs = self._agenda.pop_due(now_ms, _BATCH)
                passes = [(job, job.take(now_ms, self._horizon_s)) for job in jobs]
            if not passes:
                break
            try:
                is_through = self._fire(passes, now_ms)
            except BaseException:
                # Whatever went wrong, no job may fall off the agenda.
                self._replan(jobs, now_ms + 1000)
                raise
            self._beat()
            if not is_through:
                # Each further batch could wait as long for a broker that does not answer, and a stop would wait too.
                break
        self.last_pass_at = self._clock.monotonic()
        with self._lock:
            due = self._agenda.next_due_ms()
        return _LONGEST_WAIT_S if due is None else max(0.0, (due - self._time.now_ms()) / 1000)

    def _fire(self, passes: list[tuple[Job, Due]], now_ms: int) -> bool:
        """Publish what is due; False where the broker failed some of it."""
        mine: list[tuple[Job, Due]] = []
        seconded: list[tuple[Job, Due]] = []
        for job, due in passes:
            (seconded if job.rank > 1 and due.firings else mine).append((job, due))
        outcomes = self._publisher.publish(mine, now_ms) + self._second(seconded, now_ms)
        superseded: list[Name] = []
        failed: list[Outcome] = []
        with self._lock:
            for outcome in outcomes:
                self._apply(outcome, now_ms)
                if outcome.standing is Standing.SUPERSEDED:
                    superseded.append(outcome.job.name)
                elif outcome.standing is Standing.FAILED:
                    failed.append(outcome)
        if superseded:
            self._around.on_superseded(superseded)
        if failed:
            self._tell_failed(failed)
        elif any(due.firings for _, due in passes):
            self._online()
        return not failed

    def _second(self, passes: list[tuple[Job, Due]], now_ms: int) -> list[Outcome]:
        """For schedules that a peer acts on first: publish only what it has not."""
        if not passes:
            return []
        try:
            marks = self._stream.highest_published([job.name for job, _ in passes])
        except BrokerError as error:
            return [Outcome(job=job, standing=Standing.FAILED, cursor=job.cursor, error=error) for job, _ in passes]
        done, left = [], []
        for (job, due), mark in zip(passes, marks, strict=True):
            if mark is not None and mark >= due.firings[-1][0]:
                done.append(Outcome(job=job, standing=Standing.DONE, cursor=due.cursor))
            else:
                left.append((job, due))
        return done + self._publisher.publish(left, now_ms)

    def _apply(self, outcome: Outcome, now_ms: int) -> None:
        job = outcome.job
        job.cursor = max(job.cursor, outcome.cursor)
        if self._agenda.get(job.name) is not job:
            return
        match outcome.standing:
            case Standing.DONE:
                job.failures = 0
                self._agenda.plan(job)
            case Standing.EARLY:
                self._agenda.plan(job, now_ms + int(_EARLY_S * 1000))
            case Standing.FAILED:
                job.failures += 1
                wait = _RETRY_S[min(job.failures, len(_RETRY_S)) - 1]
                self._agenda.plan(job, now_ms + int(wait * 1000))
            case Standing.SUPERSEDED:
                # Asked for again at a slow pace, should nobody answer.
                self._agenda.plan(job, now_ms + int(_RETRY_S[-1] * 1000))

    def _replan(self, jobs: Sequence[Job], not_before_ms: int) -> None:
        with self._lock:
            for job in jobs:
                if self._agenda.get(job.name) is job:
                    self._agenda.plan(job, not_before_ms)

    def _beat(self) -> None:
        asked_at = self._clock.monotonic()
        if asked_at < self._next_beat:
            return
        self._next_beat = asked_at + BEAT_S
        pulse = self._fleet.beat(self._around.record(True))
        step = self._time.learn(pulse.now_ms, asked_at, self._clock.monotonic())
        if step is not None:
            self._emit(ClockStepped(by=step))
        self._peers.update(pulse.now_ms)
        self._around.on_pulse(pulse)
        self._online()

    def _watch_clock(self) -> None:
        if self._time.wall_stepped() is not None:
            # Either the wall clock was set or the monotonic one stood still: only the broker can tell.
            self._next_beat = 0.0

    def _tell_failed(self, failed: Sequence[Outcome]) -> None:
        first = failed[0]
        assert first.error is not None
        if not self._is_offline:
            self._emit(
                PublishFailed(
                    app=first.job.app,
                    schedule=first.job.schedule,
                    scheduled_at=from_epoch(first.job.next_at or first.cursor),
                    attempt=first.job.failures,
                    reason=first.error.message,
                )
            )
        if first.job.failures > len(_RETRY_S):
            self._offline(first.error)

    def _offline(self, error: BrokerError) -> float:
        if not self._is_offline:
            self._is_offline = True
            self._emit(SchedulerChanged(state="offline", reason=error.message))
        self._next_beat = min(self._next_beat, self._clock.monotonic() + _LONGEST_WAIT_S)
        return _LONGEST_WAIT_S

    def _online(self) -> None:
        if self._is_offline:
            self._is_offline = False
            self._emit(SchedulerChanged(state="running", reason="the broker answers again"))
