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
from relayctl.core.facts import ClockStepped, Emit, LoopFailed, PublishFailed
from relayctl.core.occurrence import from_epoch, occurrence_id
from relayctl.errors import BrokerError
from relayctl.worker.agenda import Agenda, Armed, Job, Name
from relayctl.worker.gate import Gate
from relayctl.worker.passedover import PassedOverFirings
from relayctl.worker.publisher import Outcome, Publisher, Standing
from relayctl.worker.recovery import RETRY_S, State

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.closings import Closings
    from relayctl.store.fleet import Fleet, Pulse, WorkerRecord
    from relayctl.store.stream import Stream
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.peers import Peers
    from relayctl.worker.poison import Poison
    from relayctl.worker.recovery import Recovery

BEAT_S = 2.0
_BATCH = 500
_LONGEST_WAIT_S = 1.0
"""The wall clock is looked at this often, so a suspended machine notices within a second of waking."""
_HELD_S = 1.0
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
    drain: Callable[[bool], int] = lambda _is_first: 0
    """Works on one batch of the outbox, and counts it."""
    is_abreast: Callable[[], bool] = lambda: True
    """Whether what is armed is registered with the present broker."""
    is_elsewhere: Callable[[str], bool] = lambda _app: False
    """Whether an app is bound to another revision than this worker has, so that its firings are its peers'."""


class Scheduler:
    """Armed schedules of one worker. `arm` and `retire` may be called from any thread, `run` owns the loop."""

    def __init__(
        self,
        *,
        stream: Stream,
        closings: Closings,
        fleet: Fleet,
        peers: Peers,
        time: FleetTime,
        clock: Clock,
        token: str,
        surroundings: Surroundings,
        recovery: Recovery,
        emit: Emit,
        horizon: timedelta = timedelta(seconds=DAY_S),
        poison: Poison | None = None,
    ) -> None:
        """`horizon` is how far back a missed firing is still caught up, `poison` counts what no retry can cure."""
        self._poison = poison
        self._stream = stream
        self._fleet = fleet
        self._peers = peers
        self._time = time
        self._clock = clock
        self._around = surroundings
        self._emit = emit
        self._horizon_s = horizon // timedelta(seconds=1)
        self._recovery = recovery
        self._gate = Gate(recovery=recovery, drain=surroundings.drain, is_abreast=surroundings.is_abreast, clock=clock)
        self._publisher = Publisher(stream, token, emit, PassedOverFirings(closings, emit), recovery, poison)
        self._agenda = Agenda(peers.delay_ms)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._next_beat = 0.0
        self._stop = threading.Event()
        self._told_state = State.RUNNING
        self._last_error = ""
        self._born_at = self.last_pass_at = clock.monotonic()
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

    def is_idle(self) -> bool:
        """Whether it has come round at least once and may fire, and all that is due has its answer."""
        now_ms = self._time.now_ms()
        with self._lock:
            # When a job is looked at next says nothing: one that failed waits for its next attempt.
            owes = any(job.next_at is not None and _is_due(job, job.next_at, now_ms) for job in self._agenda)
        return self.last_pass_at > self._born_at and self._gate.is_open and not owes

    def failing(self) -> str:
        """Which firing could not be published at its last attempt and why, empty where there is none."""
        with self._lock:
            jobs = [job for job in self._agenda if job.failures and job.next_at is not None]
        if not jobs:
            return ""
        first = max(jobs, key=lambda job: job.failures)
        at = from_epoch(first.next_at or first.cursor)
        return f"{occurrence_id(first.app, first.schedule, at)} cannot be published: {self._last_error}"

    def cursors(self) -> dict[Name, int]:
        """Up to which instant (epoch seconds) every armed schedule owes nothing."""
        with self._lock:
            return {job.name: job.cursor for job in self._agenda}

    def next_due_ms(self) -> int | None:
        """When this worker acts next, in fleet time; None where nothing that is armed will ever be due."""
        with self._lock:
            return self._agenda.next_due_ms()

    def settle(self, name: Name, at: int) -> None:
        """An instant that had failed has its answer: it is not owed any more, if it is the next that is."""
        with self._lock:
            job = self._agenda.get(name)
            following = None if job is None else job.timeline.next_after(job.cursor)
            if job is not None and following is not None and following[0] == at:
                job.cursor = at

    def wake(self) -> None:
        """Make the loop come round now."""
        self._wake.set()

    def beat_now(self) -> None:
        """Make the next pass write the heartbeat, because what it says has changed."""
        self._next_beat = 0.0
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; whoever sets it also calls `wake`."""
        self._stop = stop
        while not stop.is_set():
            try:
                wait_s = self.step()
            except Exception as error:  # noqa: BLE001  a loop that dies takes every later firing with it
                self._emit(LoopFailed(loop="scheduler", reason=f"{type(error).__name__}: {error}"))
                wait_s = _LONGEST_WAIT_S
            self._clock.wait(self._wake, min(wait_s, _LONGEST_WAIT_S))
            self._wake.clear()
        self._recovery.hand_over()

    def step(self) -> float:
        """One pass; how many seconds may go by until the next."""
        self._watch_clock()
        self._beat()
        wait_s = self._gate.wait_s()
        if wait_s is not None:
            return min(wait_s, max(0.0, self._next_beat - self._clock.monotonic()))
        if self._recovery.state is not self._told_state:
            self._next_beat = 0.0
        while not self._stop.is_set():
            now_ms = self._time.now_ms()
            with self._lock:
                jobs = self._agenda.pop_due(now_ms, _BATCH)
                passes, broken = self._take(jobs, now_ms)
            self._set_aside(broken, now_ms)
            if not jobs:
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

    def _take(self, jobs: Sequence[Job], now_ms: int) -> tuple[list[tuple[Job, Due]], list[tuple[Job, Exception]]]:
        """What each job owes, and the jobs whose definition could not be evaluated."""
        passes: list[tuple[Job, Due]] = []
        broken: list[tuple[Job, Exception]] = []
        for job in jobs:
            try:
                passes.append((job, job.take(now_ms, self._horizon_s)))
            except Exception as error:  # noqa: BLE001  it must not take the others with it
                broken.append((job, error))
        return passes, broken

    def _set_aside(self, broken: Sequence[tuple[Job, Exception]], now_ms: int) -> None:
        """Tell of jobs that could not be evaluated, and come back to them at a slow pace."""
        for job, error in broken:
            reason = f"{job.app}/{job.schedule} cannot be evaluated: {type(error).__name__}: {error}"
            self._emit(LoopFailed(loop="scheduler", reason=reason))
            at = job.next_at
            if at is None or self._poison is None:
                continue
            if self._poison.refused(job.app, job.schedule, at, reason, now_ms):
                job.cursor = max(job.cursor, at)
        self._replan([job for job, _ in broken], now_ms + int(RETRY_S[-1] * 1000))

    def _fire(self, passes: list[tuple[Job, Due]], now_ms: int) -> bool:
        """Publish what is due; False where the broker failed some of it."""
        mine: list[tuple[Job, Due]] = []
        seconded: list[tuple[Job, Due]] = []
        left: list[tuple[Job, Due]] = []
        for job, due in passes:
            is_elsewhere = bool(due.firings) and self._around.is_elsewhere(job.app)
            (left if is_elsewhere else seconded if job.rank > 1 and due.firings else mine).append((job, due))
        asked_at = self._clock.monotonic()
        outcomes = self._publisher.publish(mine, now_ms) + self._second(seconded, now_ms) + self._leave(left)
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
            self._tell_failed(failed, asked_at)
        return not failed and self._recovery.state is State.RUNNING

    def _second(self, passes: list[tuple[Job, Due]], now_ms: int) -> list[Outcome]:
        """For schedules that a peer acts on first: publish only what it has not."""
        done, left, _ = self._by_peers(passes)
        return done + self._publisher.publish(left, now_ms)

    def _leave(self, passes: list[tuple[Job, Due]]) -> list[Outcome]:
        """For schedules that only peers may act on: go on where they have, and wait where they have not."""
        done, left, marks = self._by_peers(passes)
        return done + [
            Outcome(job=job, standing=Standing.HELD, cursor=max(job.cursor, mark or job.cursor))
            for (job, _), mark in zip(left, marks, strict=True)
        ]

    def _by_peers(self, passes: list[tuple[Job, Due]]) -> tuple[list[Outcome], list[tuple[Job, Due]], list[int | None]]:
        """What peers have published already; and the rest, with the highest instant that they have."""
        if not passes:
            return [], [], []
        try:
            marks = self._stream.highest_published([job.name for job, _ in passes])
        except BrokerError as error:
            failed = [Outcome(job=job, standing=Standing.FAILED, cursor=job.cursor, error=error) for job, _ in passes]
            return failed, [], []
        done, left, left_marks = [], [], []
        for (job, due), mark in zip(passes, marks, strict=True):
            if mark is not None and mark >= due.firings[-1][0]:
                done.append(Outcome(job=job, standing=Standing.DONE, cursor=due.cursor))
            else:
                left.append((job, due))
                left_marks.append(mark)
        return done, left, left_marks

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
                wait = RETRY_S[min(job.failures, len(RETRY_S)) - 1]
                self._agenda.plan(job, now_ms + int(wait * 1000))
            case Standing.HELD:
                self._agenda.plan(job, now_ms + int(_HELD_S * 1000))
            case Standing.SUPERSEDED:
                # Asked for again at a slow pace, should nobody answer.
                self._agenda.plan(job, now_ms + int(RETRY_S[-1] * 1000))

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
        self._told_state = self._recovery.state
        try:
            pulse = self._fleet.beat(self._around.record(self._told_state is State.RUNNING))
            step = self._time.learn(pulse.now_ms, asked_at, self._clock.monotonic())
            self._peers.update(pulse.now_ms)
        except BrokerError as error:
            wait_s = self._gate.beat_failed(asked_at, error)
            self._next_beat = self._clock.monotonic() + wait_s
            return
        if step is not None:
            self._emit(ClockStepped(by=step))
        self._around.on_pulse(pulse)
        self._gate.beat_answered(pulse.epoch)

    def _watch_clock(self) -> None:
        if self._time.wall_stepped() is not None:
            # Either the wall clock was set or the monotonic one stood still: only the broker can tell.
            self._next_beat = 0.0

    def _tell_failed(self, failed: Sequence[Outcome], asked_at: float) -> None:
        first = max(failed, key=lambda outcome: outcome.job.failures)
        assert first.error is not None
        self._last_error = first.error.message
        if self._recovery.state is State.RUNNING:
            self._emit(
                PublishFailed(
                    app=first.job.app,
                    schedule=first.job.schedule,
                    scheduled_at=from_epoch(first.job.next_at or first.cursor),
                    attempt=first.job.failures,
                    reason=first.error.message,
                )
            )
        self._gate.publish_failed(first.job.failures, asked_at, first.error)


def _is_due(job: Job, at: int, now_ms: int) -> bool:
    return at * 1000 <= now_ms and job.due_ms(at) <= now_ms
