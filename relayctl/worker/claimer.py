"""Claims due work for free places, records what ended, keeps leases alive, takes back what dead workers held.

It waits for the broker so that the supervisor of children never has to. An end that could not be recorded stays here
and is recorded later under the same token; whoever took the work over meanwhile wins.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, EndRefused, LeaseLost, LoopFailed, RunEnded, RunFailed, RunInterrupted
from relayctl.core.lifecycle import Claim, Slot, descriptor_of
from relayctl.core.output import look_command
from relayctl.errors import BrokerError, BrokerRefused
from relayctl.runners.invocation import Outcome
from relayctl.store.invocations import Attempt, ClaimRefusal, EndVerdict, Wanted
from relayctl.worker.executor import Executor, Finished, is_charged, scheduled_at
from relayctl.worker.leasewatch import LOOK_S, LeaseWatch
from relayctl.worker.newer import NewerTold
from relayctl.worker.printing import Printing

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.invocations import Invocations, Look
    from relayctl.store.outputs import Outputs
    from relayctl.store.stream import Grant
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.leftovers import Leftovers
    from relayctl.worker.snapshot import LiveApp, Snapshot
    from relayctl.worker.stranded import Lookout

LEASE_MS = 7_000
RENEW_S = 2.0
POLL_S = 0.25
"""Due work that no hint told of is found this often: a retry runs when its backoff ends."""
SWEEP_S = 1.0
_BROKEN_WAIT_S = 1.0
_PARDON_S = 2 * RENEW_S
"""After an outage every lease may look ended: nobody's is taken back before all could renew."""
_SKIPPED_FOR_S = 5.0
_FEW_SKIPPED = 100
_MOST_REFUSALS = 10
_REFUSED_AGAIN_S = 1.0
"""An end that the broker refuses for good is given up after so many tries, this far apart."""
_LEFT_FOR_S = 60.0
"""A lease that cannot be judged here is looked at again after that."""
_MOST_EXPIRED = 100
_LOOK_AHEAD = 8
"""So much due work of an app is asked for along with other questions; where more can run it is asked again."""

Member = tuple[str, str, Slot]
"""An invocation: app, message, slot."""


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
        outputs: Outputs,
        executor: Executor,
        leftovers: Leftovers,
        lookout: Lookout,
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
        self._printing = Printing(executor, outputs, worker)
        self._leftovers = leftovers
        self._lookout = lookout
        self._watch: LeaseWatch[Member] = LeaseWatch()
        self._newer = NewerTold(clock, emit)
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
        # Peers that lived through an outage renew first: a worker that starts just then must not take theirs for lost.
        self._sweep_at = clock.monotonic() + _PARDON_S
        self._watch_at = 0.0
        self._refusals: dict[str, tuple[int, float]] = {}
        self._left: dict[Member, float] = {}
        self._skipped: dict[tuple[str, str, str], float] = {}
        self._turn = 0
        self._due_apps: Sequence[str] = ()
        self._look: Look | None = None
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
            if self._clock.monotonic() >= self._renew_at:
                # However much is due, leases come first.
                self._wake.set()
                break
        if now >= self._sweep_at:
            self._take_back()
            self._lookout.look(self._time.now_ms())
            self._sweep_at = now + SWEEP_S
            if self._is_claiming:
                live = self._snapshot().live.keys()
                self._leftovers.end(self._time.now_ms(), live, self._tokens.next(), LEASE_MS)
        self._printing.step(now)
        self.last_pass_at = self._clock.monotonic()

    # Ends

    def _record_ends(self) -> None:
        self._look = None
        self._unrecorded += self._executor.take_finished()
        if not self._unrecorded:
            return
        batch = self._unrecorded
        ended = [(item.claim, self._attempt(item)) for item in batch]
        # Their places are free now, so what is due is the next question.
        answers, self._look = self._invocations.end_and_look(ended, self._ahead(), self._time.now_ms())
        self._unrecorded = []
        for item, answer in zip(batch, answers, strict=True):
            if isinstance(answer, BrokerError):
                if not self._is_given_up(item, answer):
                    self._unrecorded.append(item)
                continue
            self._refusals.pop(item.claim.key, None)
            self._executor.forget([item.claim])
            self._tell_end(item, *answer)

    def _is_given_up(self, item: Finished, error: BrokerError) -> bool:
        """Whether an end that no retry can record is let go: it would keep its place and its lease for ever.

        Whoever finds its lease ended counts the attempt as lost. A broker that is away or short of something never
        costs an end.
        """
        claim, now = item.claim, self._clock.monotonic()
        tries, at = self._refusals.get(claim.key, (0, now))
        if not isinstance(error, BrokerRefused) or now < at:
            return False
        self._refusals[claim.key] = (tries + 1, now + _REFUSED_AGAIN_S)
        if tries + 1 < _MOST_REFUSALS:
            return False
        del self._refusals[claim.key]
        self._executor.forget([claim])
        self._emit(
            EndRefused(
                app=claim.app,
                handler=claim.descriptor.handler,
                message=claim.message,
                attempt=claim.attempt,
                outcome=item.ended.outcome.value,
                reason=error.message,
            )
        )
        return True

    def _attempt(self, item: Finished) -> Attempt:
        ended = item.ended
        exit_text = (
            f"signal {ended.signal}" if ended.signal else "" if ended.exit_code is None else str(ended.exit_code)
        )
        outcome = (
            "released" if not is_charged(ended) else "succeeded" if ended.outcome is Outcome.SUCCEEDED else "failed"
        )
        return Attempt(
            outcome=outcome,
            reason=ended.reason,
            exit=exit_text,
            started_ms=item.started_ms,
            finished_ms=item.finished_ms,
            worker=self._worker,
            output=self._printing.at_end(item, outcome, exit_text),
            is_silent=outcome == "succeeded" and not ended.output_bytes,
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
                    look=look_command(claim.app, claim.slot, claim.message, claim.scheduled_at),
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
        now = self._clock.monotonic()
        self._left = {item: until for item, until in self._left.items() if until > now}
        # What is left alone stands first for as long as it is, and must not hide what stands behind.
        found = self._invocations.expired(self._time.now_ms(), _MOST_EXPIRED + len(self._left))
        expired = [item for item in found if item not in self._left]
        if expired:
            self._judge(expired, self._invocations.take_back(expired, by=self._worker), now)
        if now >= self._watch_at:
            self._watch_at = now + LOOK_S
            still = self._watch.look(self._invocations.leases(), now)
            gone = {item: ends for item, ends in still.items() if item not in self._left}
            if gone:
                answers = self._invocations.take_back(list(gone), by=self._worker, seen=list(gone.values()))
                self._judge(list(gone), answers, now)

    def _judge(self, items: Sequence[Member], answers: Sequence[tuple[str, int] | BrokerError], now: float) -> None:
        newer: list[str] = []
        refused: list[str] = []
        for item, answer in zip(items, answers, strict=True):
            if isinstance(answer, BrokerRefused):
                self._left[item] = now + _LEFT_FOR_S
                refused.append(f"{item[0]}/{item[2].text}@{item[1]} cannot be taken back: {answer.message}")
            elif isinstance(answer, BrokerError):
                raise answer
            elif answer[0] == "newer":
                self._left[item] = now + _LEFT_FOR_S
                newer.append(item[1])
        self._newer.tell("invocation", newer)
        self._tell_refused(refused)

    def _tell_refused(self, refused: Sequence[str]) -> None:
        if refused:
            others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            self._emit(LoopFailed(loop="claimer", reason=refused[0] + others))

    # Claims

    def _claim(self) -> bool:
        """One round over the apps that have due work; whether there may be more to claim at once."""
        now_ms = self._time.now_ms()
        snapshot = self._snapshot()
        look, self._look = self._look or self._invocations.look(self._ahead(), now_ms), None
        self._due_apps = due_apps = [app for app in look.apps if app in snapshot.live]
        places = dict(self._reserve(self._in_turn(due_apps), snapshot)) if due_apps else {}
        if not places:
            self._executor.starve(due_apps)
            return False
        left = dict(places)
        wanted: list[Wanted] = []
        more: set[str] = set()
        try:
            for app, message, slot in self._due(places, look, now_ms):
                if left[app] == 0:
                    more.add(app)
                    continue
                wanted.append(self._wanted(app, message, slot, snapshot))
                left[app] -= 1
        finally:
            for app, count in left.items():
                self._executor.give_back(app, count)
        self._executor.starve([app for app in due_apps if app in more or app not in places])
        self._unanswered += wanted
        is_worth_another = self._resolve()
        for app in more:
            # Where every place was free nobody has asked yet for the children that come next.
            self._executor.demand(app, snapshot.live[app].app.concurrency)
        return is_worth_another

    def _resolve(self) -> bool:
        """Ask for the claims that have no answer yet, and start those that are granted.

        Answers whether there may be more to claim at once: what is refused here must not hide what stands behind.

        An error leaves them for the next pass: a grant whose reply was lost must not wait for its lease to end.
        """
        asked = list(self._unanswered)
        if not asked:
            return False
        answers = list(zip(asked, self._invocations.claim(asked, lease_ms=LEASE_MS), strict=True))
        claims = [answer for _, answer in answers if isinstance(answer, Claim)]
        del self._unanswered[: len(asked)]
        is_past = self._pass_over([(item, answer) for item, answer in answers if not isinstance(answer, Claim)])
        if self._is_claiming:
            self._executor.submit(claims)
            # Where all were granted, nothing else is due or no place is free; whatever changes that wakes this loop.
            return len(claims) < len(asked) and (bool(claims) or is_past)
        for claim in claims:
            self._executor.give_back(claim.app, 1)
        self._invocations.release(claims)
        return False

    def _pass_over(self, refused: Sequence[tuple[Wanted, ClaimRefusal | BrokerError]]) -> bool:
        """Leave what was not granted; whether some of it stays where it is in the ready set, before other work."""
        newer: list[str] = []
        bad: list[str] = []
        is_past = False
        for item, answer in refused:
            self._executor.give_back(item.app, 1)
            if answer is ClaimRefusal.ELSEWHERE:
                # Asking for many of them again and again would cost more than what it finds.
                is_few = len(self._skipped) < _FEW_SKIPPED
                self._skip(item.app, item.message, item.slot, _SKIPPED_FOR_S if is_few else _LEFT_FOR_S)
                self._lookout.refused(item.app, item.message, item.slot)
            elif answer is ClaimRefusal.NEWER:
                self._skip(item.app, item.message, item.slot, _LEFT_FOR_S)
                newer.append(item.message)
            elif isinstance(answer, BrokerRefused):
                self._skip(item.app, item.message, item.slot, _LEFT_FOR_S)
                bad.append(f"{item.app}/{item.slot.text}@{item.message} cannot be claimed: {answer.message}")
            else:
                # Gone, or not due after all, or of a broker that has to be asked again.
                continue
            is_past = True
        self._newer.tell("invocation", newer)
        self._tell_refused(bad)
        return is_past

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

    def _ahead(self) -> dict[str, int]:
        """What to ask for before it is known which apps have due work, and places for it."""
        return dict.fromkeys(self._due_apps, _LOOK_AHEAD)

    def _due(self, places: Mapping[str, int], look: Look, now_ms: int) -> Iterator[Member]:
        """Due work of these apps without what is left to peers; of each one more than there are places."""
        skipped = self._skipped_now()
        of_app = Counter(name[0] for name in skipped)
        asked = {app: count + of_app[app] + 1 for app, count in places.items()}
        seen = Counter(item[0] for item in look.due)
        known = {app for app, count in asked.items() if look.asked.get(app, 0) >= min(count, seen[app] + 1)}
        rest = [(app, count) for app, count in asked.items() if app not in known]
        found = [item for item in look.due if item[0] in known]
        found += self._invocations.due(rest, now_ms) if rest else []
        return (item for item in found if (item[0], item[1], item[2].text) not in skipped)

    def _wanted(self, app: str, message: str, slot: Slot, snapshot: Snapshot) -> Wanted:
        live = snapshot.live[app]
        item = live.resolve(slot)
        # Without it only a claim whose descriptor is pinned already can succeed.
        descriptor = "" if item is None else descriptor_of(app, item, cap=self._cap, revision=live.revision).to_json()
        return Wanted(
            message=message,
            app=app,
            slot=slot,
            token=self._tokens.next(),
            descriptor=descriptor,
            revision=live.revision,
        )

    def _skip(self, app: str, message: str, slot: Slot, for_s: float) -> None:
        """Leave it to a peer for a while, so that it does not stand before what can run here."""
        self._skipped[app, message, slot.text] = self._clock.monotonic() + for_s

    def _skipped_now(self) -> frozenset[tuple[str, str, str]]:
        now = self._clock.monotonic()
        self._skipped = {name: until for name, until in self._skipped.items() if until > now}
        return frozenset(self._skipped)

    def _tell_broken(self, reason: str) -> float:
        self._sweep_at = self._clock.monotonic() + _PARDON_S
        self._watch.forget()
        # What is due there cannot be claimed now, so nobody needs to leave it a place.
        self._executor.starve(())
        if not self.is_broken:
            self.is_broken = True
            self._emit(LoopFailed(loop="claimer", reason=reason))
        return _BROKEN_WAIT_S
