"""Claims due work for free places, records what ended, keeps leases alive, takes back what dead workers held.

It waits for the broker so that the supervisor of children never has to. An end that could not be recorded stays here
and is recorded later under the same token; whoever took the work over meanwhile wins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, EndRefused, LoopFailed, RunReadmitted
from relayctl.core.lifecycle import Claim, Slot
from relayctl.errors import BrokerError, BrokerRefused
from relayctl.store.invocations import Answer, Bid, ClaimRefusal, EndVerdict, Wanted, bids_for
from relayctl.worker.bidding import Bidding
from relayctl.worker.contracts import Contracts
from relayctl.worker.endings import attempt_of, fact_of
from relayctl.worker.executor import Executor
from relayctl.worker.leasewatch import LOOK_S, LeaseWatch
from relayctl.worker.ledger import Finished
from relayctl.worker.newer import NewerTold
from relayctl.worker.passedby import Member, PassedBy
from relayctl.worker.printing import Printing

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.invocations import Invocations, Look
    from relayctl.store.outputs import Outputs
    from relayctl.store.readmission import Readmission
    from relayctl.store.stream import Grant
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.leftovers import Leftovers
    from relayctl.worker.snapshot import LiveApp, Snapshot
    from relayctl.worker.stranded import Lookout
    from relayctl.worker.tokens import Tokens

LEASE_MS = 7_000
RENEW_S = 2.0
POLL_S = 0.25
"""Due work that no hint told of is found this often: a retry runs when its backoff ends."""
SWEEP_S = 1.0
_BROKEN_WAIT_S = 1.0
_PARDON_S = 2 * RENEW_S
"""After an outage every lease may look ended: nobody's is taken back before all could renew."""
_JUMP_MS = 1000
"""So much more of the fleet's time than of this worker's own says that a clock was set or the machine slept."""
_MOST_REFUSALS = 10
_REFUSED_AGAIN_S = 1.0
"""An end that the broker refuses for good is given up after so many tries, this far apart."""
_LEFT_FOR_S = 60.0
"""A lease that cannot be judged here is looked at again after that."""
_MOST_EXPIRED = 100


class Claimer:
    """The loop between broker and executor. `run` owns it; `wake` and `stop_claiming` may come from anywhere."""

    def __init__(
        self,
        *,
        invocations: Invocations,
        readmission: Readmission,
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
        self._readmission = readmission
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
        self._contracts = Contracts(cap)
        self._worker = worker
        self._emit = emit
        self._wake = threading.Event()
        self._is_claiming = True
        self._unrecorded: list[Finished] = []
        self._unanswered: list[Bid] = []
        self._renew_at = self._watch_at = self._look_at = 0.0
        self._ahead_ms = time.now_ms() - clock.monotonic() * 1000
        # Peers that lived through an outage renew first: a worker that starts just then must not take theirs for lost.
        self._sweep_at = clock.monotonic() + _PARDON_S
        self._refusals: dict[str, tuple[int, float]] = {}
        self._left: dict[Member, float] = {}
        self._passed = PassedBy(clock)
        self._is_changed = self._is_only_stirred = False
        self._shortage = ""
        self._bidding = Bidding(
            invocations=invocations,
            executor=executor,
            snapshot=snapshot,
            contracts=self._contracts,
            tokens=tokens,
            passed=self._passed,
        )
        self._look: Look | None = None
        self._is_look_due = True
        self.is_broken = False
        """Whether the last pass failed: the broker is away or short of something, say."""
        self.ended = self.interrupted = 0
        self.last_pass_at = clock.monotonic()

    def wake(self) -> None:
        """Work became ready."""
        self._is_look_due = True
        self._wake.set()

    def ask_for_all(self) -> None:
        """What this worker may admit has changed: ask again for what was left to peers."""
        self._is_changed = True
        self.wake()

    def stir(self) -> None:
        """Something ended, or capacity grew: no more is due for that."""
        self._wake.set()

    def stop_claiming(self) -> None:
        """Claim nothing more, and give back what has not begun; ends are still recorded and leases kept."""
        self._is_claiming = False
        self._executor.let_go()
        self._wake.set()

    def is_settled(self) -> bool:
        """Whether everything that was claimed has its end recorded."""
        return not self._unrecorded and not self._unanswered and not self._executor.running()

    def ask_again(self, wanted: Sequence[Wanted]) -> None:
        """Claims that may have been granted although the answer was lost: they are asked for again by their tokens.

        A place of its app stays reserved for each.
        """
        self._unanswered += [replace(bid, is_again=True) for bid in bids_for(wanted)]
        self._wake.set()

    def grant(self, live: LiveApp, slot: Slot) -> Grant | None:
        """What a claim made while routing pins; None where the template no longer has the slot."""
        from relayctl.store.stream import Grant

        descriptor = self._contracts.text(live, slot)
        if descriptor is None:
            return None
        return Grant(token=self._tokens.next(), descriptor=descriptor, revision=self._executor.revision_of(live))

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; whoever sets it also calls `wake`."""
        while not stop.is_set():
            wait_s = POLL_S
            try:
                self.step()
                if self._shortage:
                    wait_s = self._tell_broken(self._shortage)
                else:
                    self.is_broken = False
            except BrokerError as error:
                wait_s = self._tell_broken(error.message)
            except Exception as error:  # noqa: BLE001  claims would be held and never ended
                wait_s = self._tell_broken(f"{type(error).__name__}: {error}")
            is_woken = self._clock.wait(self._wake, wait_s)
            self._wake.clear()
            self._is_only_stirred = is_woken and not self._is_look_due
            self._is_look_due = False

    def step(self) -> None:
        """One pass: record ends, renew, claim, take back."""
        now = self._clock.monotonic()
        self._shortage = ""
        if self._is_changed:
            self._is_changed = False
            self._passed.forget()
        is_more = self._turn()
        self._pardon_after_jump(now)
        if now >= self._renew_at:
            self._renew()
            self._renew_at = now + RENEW_S
        while is_more:
            is_more = self._turn()
            if is_more and self._clock.monotonic() >= self._renew_at:
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

    def _take_ends(
        self, ended: Sequence[Finished], answers: Sequence[tuple[EndVerdict, int | None] | BrokerError]
    ) -> None:
        lost: list[Finished] = []
        for item, answer in zip(ended, answers, strict=True):
            if isinstance(answer, BrokerError):
                if not self._is_given_up(item, answer):
                    self._unrecorded.append(item)
                    self._note_shortage(answer)
                continue
            self._refusals.pop(item.claim.key, None)
            if answer[0] is EndVerdict.LOST:
                lost.append(item)
            else:
                self._let_go(item, *answer)
        self._take_lost(lost)

    def _take_lost(self, lost: Sequence[Finished]) -> None:
        """Ends of attempts that a peer has by now, or of which the broker lost the record: those are recorded again."""
        try:
            kept = self._readmitted([item.claim for item in lost])
        except BrokerError:
            # Nothing was decided: asked once more, the broker says the same of each.
            self._unrecorded += lost
            raise
        for item in lost:
            if item.claim.key in kept:
                self._unrecorded.append(item)
            else:
                self._let_go(item, EndVerdict.LOST, None)

    def _let_go(self, item: Finished, verdict: EndVerdict, due_ms: int | None) -> None:
        self._executor.forget([item.claim])
        if item.has_begun:
            self._tell_end(item, verdict, due_ms)

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

    def _note_shortage(self, error: BrokerError) -> None:
        """A broker that is short of something refuses single steps, and the pass goes on."""
        if error.is_retryable:
            self._shortage = error.message

    def _tell_end(self, item: Finished, verdict: EndVerdict, due_ms: int | None) -> None:
        if verdict is EndVerdict.RELEASED:
            self.interrupted += 1
        elif verdict is not EndVerdict.LOST:
            self.ended += 1
        retry_in = None if due_ms is None else timedelta(milliseconds=max(0, due_ms - self._time.now_ms()))
        self._emit(fact_of(item, verdict, retry_in))

    # Leases

    def _pardon_after_jump(self, now: float) -> None:
        """A machine that slept or a clock that was set makes every lease look ended, this worker's own too."""
        ahead_ms, before_ms = self._time.now_ms() - now * 1000, self._ahead_ms
        self._ahead_ms = ahead_ms
        if ahead_ms - before_ms > _JUMP_MS:
            self._renew_at = 0.0
            self._sweep_at = now + _PARDON_S

    def _renew(self) -> None:
        running = self._executor.running()
        if not running:
            return
        epoch = self._readmission.look()
        lost = self._invocations.renew(running, lease_ms=LEASE_MS)
        kept = self._readmitted(lost)
        for claim in lost:
            if claim.key not in kept:
                self._executor.stop_run(claim, "another worker has taken over this attempt")
        self._readmission.settle(epoch)

    def _readmitted(self, lost: Sequence[Claim]) -> set[str]:
        """Those that no peer has: the broker had lost what it knew of them, and knows it again."""
        kept = self._readmission.readmit(lost, lease_ms=LEASE_MS)
        for claim in kept:
            self._emit(
                RunReadmitted(
                    app=claim.app, handler=claim.descriptor.handler, message=claim.message, attempt=claim.attempt
                )
            )
        return {claim.key for claim in kept}

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

    def _turn(self) -> bool:
        """Record what ended, claim what the last look found due, and look again, all in one round trip.

        Answers whether another one is worth it at once. An error leaves ends and claims for the next pass: a grant
        whose reply was lost must not wait for its lease to end.
        """
        look, self._look = self._look, None
        if look is not None and self._is_claiming and not self._unanswered:
            self._unanswered += self._bidding.bids(look, self._time.now_ms())
        self._unrecorded += self._executor.take_finished()
        ended, bids = self._unrecorded, list(self._unanswered)
        if self._is_only_stirred and not ended and not bids and self._clock.monotonic() < self._look_at:
            self._look = look
            return False
        self._look_at = self._clock.monotonic() + POLL_S
        attempts = [(item.claim, attempt_of(item, self._worker, self._printing)) for item in ended]
        try:
            answers = self._invocations.turn(
                attempts, bids, self._bidding.ahead(), lease_ms=LEASE_MS, due_ms=self._time.now_ms()
            )
        except BaseException:
            # Some of it may be granted all the same.
            self._unanswered[: len(bids)] = [replace(bid, is_again=True) for bid in bids]
            raise
        self._unrecorded = []
        del self._unanswered[: len(bids)]
        self._bidding.answered(bids, answers.bids)
        has_begun = self._begin(bids, answers.bids)
        self._take_ends(ended, answers.ends)
        has_moved = self._pass_over(bids, answers.bids) or has_begun
        if answers.look is None or not self._is_claiming:
            return False
        if has_moved or not bids:
            self._unanswered += self._bidding.bids(answers.look, self._time.now_ms())
        # Where no place is free, whatever changes that wakes this loop, and then it is known what to ask for.
        self._look = None if self._unanswered else answers.look
        return bool(self._unanswered)

    def _begin(self, bids: Sequence[Bid], answers: Sequence[Sequence[Answer]]) -> bool:
        """Start what is granted, or take it in hand; whether there is any."""
        now: list[Claim] = []
        later: list[Claim] = []
        for bid, answered in zip(bids, answers, strict=True):
            granted = [answer for answer in answered if isinstance(answer, Claim)]
            now += granted[: bid.places]
            later += granted[bid.places :]
            self._executor.give_back(bid.app, bid.places - len(granted[: bid.places]))
        if self._is_claiming:
            self._executor.submit(now)
        elif now:
            for claim in now:
                self._executor.give_back(claim.app, 1)
            self._invocations.release(now)
        # Where nothing is to begin any more it comes back with what ended.
        self._executor.hold(later)
        return bool(now or later)

    def _pass_over(self, bids: Sequence[Bid], answers: Sequence[Sequence[Answer]]) -> bool:
        """Leave what was not granted; whether the next look would not find the same."""
        newer: list[str] = []
        bad: list[str] = []
        has_moved = False
        for item, answer in _pairs(bids, answers):
            match answer:
                case Claim() | ClaimRefusal.LATER | ClaimRefusal.LEFT:
                    continue
                case ClaimRefusal.ELSEWHERE:
                    # Asking for many of them again and again would cost more than what it finds.
                    self._passed.leave((item.app, item.message, item.slot), shortly=True)
                    self._lookout.refused(item.app, item.message, item.slot)
                case ClaimRefusal.NEWER:
                    self._passed.leave((item.app, item.message, item.slot))
                    newer.append(item.message)
                case BrokerRefused(message=reason):
                    self._passed.leave((item.app, item.message, item.slot))
                    bad.append(f"{item.app}/{item.slot.text}@{item.message} cannot be claimed: {reason}")
                case BrokerError() as error:
                    self._note_shortage(error)
                    continue
                case ClaimRefusal():
                    # It has gone from what is due.
                    pass
            has_moved = True
        self._newer.tell("invocation", newer)
        self._tell_refused(bad)
        return has_moved

    def _tell_broken(self, reason: str) -> float:
        self._sweep_at = self._clock.monotonic() + _PARDON_S
        self._watch.forget()
        # What is due there cannot be claimed now, so nobody needs to leave it a place.
        self._executor.starve(())
        if not self.is_broken:
            self.is_broken = True
            self._emit(LoopFailed(loop="claimer", reason=reason))
        return _BROKEN_WAIT_S


def _pairs(bids: Sequence[Bid], answers: Sequence[Sequence[Answer]]) -> Iterator[tuple[Wanted, Answer]]:
    for bid, answered in zip(bids, answers, strict=True):
        yield from zip(bid.wanted, answered, strict=True)
