"""Claims due work for free places, records what ended, keeps leases alive, takes back what dead workers held.

It waits for the broker so that the supervisor of children never has to. An end that could not be recorded stays here
and is recorded later under the same token; whoever took the work over meanwhile wins.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, LeaseLost, LoopFailed, RunEnded, RunFailed, RunInterrupted
from relayctl.core.lifecycle import Claim, Slot, descriptor_of
from relayctl.errors import BrokerError
from relayctl.runners.invocation import Outcome
from relayctl.store.invocations import Attempt, ClaimRefusal, EndVerdict, Wanted
from relayctl.worker.executor import Executor, Finished, is_charged, scheduled_at

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.invocations import Invocations
    from relayctl.store.stream import Grant
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.leftovers import Leftovers
    from relayctl.worker.snapshot import LiveApp, Snapshot

LEASE_MS = 7_000
RENEW_S = 2.0
POLL_S = 0.25
"""Due work that no hint told of is found this often: a retry runs when its backoff ends."""
SWEEP_S = 1.0
_BROKEN_WAIT_S = 1.0
_PARDON_S = 2 * RENEW_S
"""After an outage every lease may look ended: nobody's is taken back before all could renew."""
_SKIPPED_FOR_S = 5.0


class Tokens:
    """Claim tokens of one process: never the same twice."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """A new token."""
        return f"{self._process}.{next(self._numbers)}"


class Claimer:
    """The loop between broker and executor. `run` owns it; `wake` and `stop_claiming` may come from anywhere."""

    def __init__(
        self,
        *,
        invocations: Invocations,
        executor: Executor,
        leftovers: Leftovers,
        snapshot: Callable[[], Snapshot],
        tokens: Tokens,
        time: FleetTime,
        clock: Clock,
        cap: timedelta,
        worker: str,
        emit: Emit,
    ) -> None:
        """`cap` is the longest timeout this worker grants."""
        self._invocations = invocations
        self._executor = executor
        self._leftovers = leftovers
        self._snapshot = snapshot
        self._tokens = tokens
        self._time = time
        self._clock = clock
        self._cap = cap
        self._worker = worker
        self._emit = emit
        self._wake = threading.Event()
        self._is_claiming = True
        self._unrecorded: list[Finished] = []
        self._unanswered: list[Wanted] = []
        self._renew_at = 0.0
        self._sweep_at = 0.0
        self._skipped: dict[tuple[str, str, str], float] = {}
        self._turn = 0
        self.is_broken = False
        """Whether the last pass failed: the broker is away, say."""
        self.ended = 0
        self.interrupted = 0
        self.last_pass_at = clock.monotonic()

    def wake(self) -> None:
        """Something ended, capacity grew, or work became ready."""
        self._wake.set()

    def stop_claiming(self) -> None:
        """Claim nothing more; ends are still recorded and leases kept."""
        self._is_claiming = False
        self._wake.set()

    def is_settled(self) -> bool:
        """Whether everything that was claimed has its end recorded."""
        return not self._unrecorded and not self._unanswered and not self._executor.running()

    def ask_again(self, wanted: Sequence[Wanted]) -> None:
        """Claims that may have been granted although the answer was lost: they are asked for again by their tokens.

        A place of its app stays reserved for each.
        """
        self._unanswered += wanted
        self._wake.set()

    def grant(self, live: LiveApp, slot: Slot) -> Grant | None:
        """What a claim made while routing pins; None where the template no longer has the slot."""
        from relayctl.store.stream import Grant

        item = live.resolve(slot)
        if item is None:
            return None
        descriptor = descriptor_of(live.app.name, item, cap=self._cap, revision=live.revision)
        return Grant(token=self._tokens.next(), descriptor=descriptor.to_json(), revision=live.revision)

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; whoever sets it also calls `wake`."""
        while not stop.is_set():
            wait_s = POLL_S
            try:
                self.step()
                self.is_broken = False
            except BrokerError as error:
                wait_s = self._tell_broken(error.message)
            except Exception as error:  # noqa: BLE001  claims would be held and never ended
                wait_s = self._tell_broken(f"{type(error).__name__}: {error}")
            self._clock.wait(self._wake, wait_s)
            self._wake.clear()

    def step(self) -> None:
        """One pass: record ends, renew, claim, take back."""
        now = self._clock.monotonic()
        self._record_ends()
        if now >= self._renew_at:
            self._renew()
            self._renew_at = now + RENEW_S
        self._resolve()
        while self._is_claiming and self._claim():
            self._record_ends()
        if now >= self._sweep_at:
            self._take_back()
            self._sweep_at = now + SWEEP_S
            if self._is_claiming:
                live = self._snapshot().live.keys()
                self._leftovers.end(self._time.now_ms(), live, self._tokens.next(), LEASE_MS)
        self.last_pass_at = self._clock.monotonic()

    # Ends

    def _record_ends(self) -> None:
        self._unrecorded += self._executor.take_finished()
        if not self._unrecorded:
            return
        batch = self._unrecorded
        answers = self._invocations.end([(item.claim, self._attempt(item)) for item in batch])
        self._unrecorded = []
        for item, answer in zip(batch, answers, strict=True):
            if isinstance(answer, BrokerError):
                self._unrecorded.append(item)
                continue
            self._executor.forget([item.claim])
            self._tell_end(item, *answer)

    def _attempt(self, item: Finished) -> Attempt:
        ended = item.ended
        exit_text = (
            f"signal {ended.signal}" if ended.signal else "" if ended.exit_code is None else str(ended.exit_code)
        )
        return Attempt(
            outcome="released"
            if not is_charged(ended)
            else "succeeded"
            if ended.outcome is Outcome.SUCCEEDED
            else "failed",
            reason=ended.reason,
            exit=exit_text,
            started_ms=item.started_ms,
            finished_ms=item.finished_ms,
            worker=self._worker,
        )

    def _tell_end(self, item: Finished, verdict: EndVerdict, due_ms: int | None) -> None:
        claim, descriptor = item.claim, item.claim.descriptor
        took = timedelta(seconds=item.ended.duration_s)
        if verdict is EndVerdict.RELEASED:
            self.interrupted += 1
            self._emit(
                RunInterrupted(app=claim.app, handler=descriptor.handler, message=claim.message, attempt=claim.attempt)
            )
        elif verdict is EndVerdict.LOST:
            self._emit(
                LeaseLost(app=claim.app, handler=descriptor.handler, message=claim.message, attempt=claim.attempt)
            )
        elif item.ended.outcome is Outcome.SUCCEEDED:
            self.ended += 1
            self._emit(
                RunEnded(
                    app=claim.app,
                    handler=descriptor.handler,
                    message=claim.message,
                    attempt=claim.attempt,
                    took=took,
                    schedule=descriptor.schedule,
                    scheduled_at=scheduled_at(claim),
                )
            )
        else:
            self.ended += 1
            retry_in = None if due_ms is None else timedelta(milliseconds=max(0, due_ms - self._time.now_ms()))
            self._emit(
                RunFailed(
                    app=claim.app,
                    handler=descriptor.handler,
                    message=claim.message,
                    attempt=claim.attempt,
                    attempts=descriptor.attempts,
                    reason=item.ended.reason,
                    took=took,
                    look=f"relayctl history {claim.app}/{descriptor.schedule or descriptor.handler}",
                    retry_in=retry_in,
                    schedule=descriptor.schedule,
                    scheduled_at=scheduled_at(claim),
                )
            )

    # Leases

    def _renew(self) -> None:
        for claim in self._invocations.renew(self._executor.running(), lease_ms=LEASE_MS):
            self._executor.stop_run(claim, "another worker has taken over this attempt")

    def _take_back(self) -> None:
        expired = self._invocations.expired(self._time.now_ms())
        if expired:
            self._invocations.take_back(expired, by=self._worker)

    # Claims

    def _claim(self) -> bool:
        """One round over the apps that have due work; whether there may be more to claim at once."""
        now_ms = self._time.now_ms()
        snapshot = self._snapshot()
        due_apps = [app for app in self._invocations.ready_apps(now_ms) if app in snapshot.live]
        if not due_apps:
            return False
        places = dict(self._reserve(self._in_turn(due_apps), snapshot))
        if not places:
            return False
        used = dict.fromkeys(places, 0)
        try:
            wanted = self._wanted(places, snapshot, now_ms)
            for item in wanted:
                used[item.app] += 1
        finally:
            for app, count in places.items():
                self._executor.give_back(app, count - used[app])
        self._unanswered += wanted
        return self._resolve()

    def _resolve(self) -> bool:
        """Ask for the claims that have no answer yet, and start those that are granted; whether any was.

        An error leaves them for the next pass: a grant whose reply was lost must not wait for its lease to end.
        """
        asked = list(self._unanswered)
        if not asked:
            return False
        claims: list[Claim] = []
        for item, answer in zip(asked, self._invocations.claim(asked, lease_ms=LEASE_MS), strict=True):
            if isinstance(answer, Claim):
                claims.append(answer)
                continue
            self._executor.give_back(item.app, 1)
            if answer is ClaimRefusal.ELSEWHERE:
                self._skip(item.app, item.message, item.slot)
        del self._unanswered[: len(asked)]
        if self._is_claiming:
            self._executor.submit(claims)
            return bool(claims)
        for claim in claims:
            self._executor.give_back(claim.app, 1)
        self._invocations.release(claims)
        return False

    def _in_turn(self, apps: list[str]) -> list[str]:
        """Another app goes first each time, so that no app waits for a busier one."""
        self._turn += 1
        start = self._turn % len(apps)
        return apps[start:] + apps[:start]

    def _reserve(self, apps: Sequence[str], snapshot: Snapshot) -> Iterator[tuple[str, int]]:
        for app in apps:
            concurrency = snapshot.live[app].app.concurrency
            places = self._executor.reserve(app, concurrency)
            if places < concurrency:
                self._executor.demand(app, concurrency)
            if places:
                yield app, places

    def _wanted(self, places: dict[str, int], snapshot: Snapshot, now_ms: int) -> list[Wanted]:
        skipped = self._skipped_now()
        asked = [(app, count + sum(1 for name in skipped if name[0] == app)) for app, count in places.items()]
        left = dict(places)
        wanted = []
        for app, message, slot in self._invocations.due(asked, now_ms):
            if left[app] == 0 or (app, message, slot.text) in skipped:
                continue
            left[app] -= 1
            live = snapshot.live[app]
            item = live.resolve(slot)
            # Without it only a claim whose descriptor is pinned already can succeed.
            descriptor = (
                "" if item is None else descriptor_of(app, item, cap=self._cap, revision=live.revision).to_json()
            )
            wanted.append(
                Wanted(
                    message=message,
                    app=app,
                    slot=slot,
                    token=self._tokens.next(),
                    descriptor=descriptor,
                    revision=live.revision,
                )
            )
        return wanted

    def _skip(self, app: str, message: str, slot: Slot) -> None:
        """Leave it to a peer for a while, so that it does not stand before what can run here."""
        self._skipped[app, message, slot.text] = self._clock.monotonic() + _SKIPPED_FOR_S

    def _skipped_now(self) -> frozenset[tuple[str, str, str]]:
        now = self._clock.monotonic()
        self._skipped = {name: until for name, until in self._skipped.items() if until > now}
        return frozenset(self._skipped)

    def _tell_broken(self, reason: str) -> float:
        self._sweep_at = self._clock.monotonic() + _PARDON_S
        if not self.is_broken:
            self.is_broken = True
            self._emit(LoopFailed(loop="claimer", reason=reason))
        return _BROKEN_WAIT_S
