"""The supervisor's thread: owns the pool of children and nothing else, so a stalled broker delays no deadline.

Other threads reserve capacity before they claim, hand claims over, and take what ended. Claims in hand begin here as
soon as a child is free. Children die with the thread that spawned them, so this one lives as long as the worker.
"""

from __future__ import annotations

import os
import selectors
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, ImportsUnshared, LoopFailed, OutputLine
from relayctl.core.lifecycle import Claim
from relayctl.errors import UsageError
from relayctl.runners.cgroups import NOTHING, Delegation
from relayctl.runners.deployed import Settled
from relayctl.runners.invocation import Ended, Run
from relayctl.runners.pool import Pool
from relayctl.worker.beginning import run_of, started_fact
from relayctl.worker.guests import Guests, Turns
from relayctl.worker.inhand import InHand
from relayctl.worker.ledger import Finished, Ledger, Printed
from relayctl.worker.secretwatch import SecretWatch

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.runners.build import Build
    from relayctl.worker.snapshot import LiveApp

_LONGEST_WAIT_S = 1.0
_ANSWER_WITHIN_S = 1.0
_TOLD_WITHIN_S = 0.002
"""While enough is in hand for the children, so many ends as come in this time are told at once."""


class Executor:
    """Runs claims. `run` owns the pool; everything else may be called from any thread."""

    def __init__(
        self,
        *,
        secrets: Callable[[str], str],
        clock: Clock,
        emit: Emit,
        max_children: int,
        base_environ: Mapping[str, str],
        on_change: Callable[[], None],
        delegation: Delegation = NOTHING,
    ) -> None:
        """`on_change` is called when something ended or capacity grew; it must not block."""
        self._clock = clock
        self._emit = emit
        self._on_change = on_change
        self._selector = selectors.DefaultSelector()
        self._pool = Pool(
            self._selector,
            clock,
            secrets,
            self._line,
            max_children=max_children,
            base_environ=base_environ,
            delegation=delegation,
        )
        self._lock = threading.Lock()
        self._orders: deque[Callable[[], None]] = deque()
        self._has_news = False
        self._is_asleep = False
        self._capacity: dict[str, int] = {}
        self._reserved: dict[str, int] = {}
        self._grown: frozenset[str] = frozenset()
        self._children: dict[str, int] = {}
        self._ledger = Ledger(clock)
        self._hand = InHand()
        self._at_work: Counter[str] = Counter()
        self._untold: set[str] = set()
        self._untold_since: float | None = None
        self._has_returned = False
        self._settled: deque[Settled] = deque()
        self._apps: tuple[str, ...] = ()
        self._foreign: frozenset[str] = frozenset()
        self._turns = Turns()
        self.guests = Guests(self.wake)
        """What somebody on this machine asked for: it runs here beside the claims, and is none of them."""
        self.secrets = SecretWatch(secrets)
        """Which apps cannot get their secrets here."""
        self.serving: Mapping[str, str] = {}
        """App to the revision whose code runs: that of the build before where a newer one is not ready, or refused."""
        self.unable: tuple[str, ...] = ()
        """Apps that cannot be run here: no child of them can be had now, or their runtime is not there at all."""
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._drain_wakeups)
        self._is_over = False

    # What other threads call

    def reserve(self, app: str, most: int) -> int:
        """Take up to `most` places of an app that can start a run at once; how many were free."""
        with self._lock:
            kept = self._turns.kept_for_guest(app, is_waiting=self.guests.is_waiting(app))
            taken = self._reserved.get(app, 0) + self._hand.count(app) + kept
            free = max(0, min(most, self._capacity.get(app, 0) - taken))
            if free:
                self._reserved[app] = self._reserved.get(app, 0) + free
                self._turns.took_stream(app)
            return free

    def give_back(self, app: str, count: int) -> None:
        """Return reserved places that no claim came for."""
        if count:
            with self._lock:
                self._reserved[app] = max(0, self._reserved.get(app, 0) - count)
            if self.guests.is_waiting(app):
                self.wake()

    def starve(self, apps: Collection[str]) -> None:
        """These apps, and no others, may have more due work than places: guests leave them every other one."""
        with self._lock:
            self._turns.starve(apps)
        if self.guests.apps():
            self.wake()

    def is_foreign(self, app: str) -> bool:
        """Whether this worker has no runtime for the app."""
        return app in self._foreign

    def submit(self, claims: Sequence[Claim]) -> None:
        """Start these claims; each uses up one reserved place of its app."""
        if claims:
            self._ledger.open(claims)
            self._orders.extend(partial(self._start, claim) for claim in claims)
            self.wake()

    def is_grown(self, app: str) -> bool:
        """Whether the app has all the children that it can have here."""
        return app in self._grown or app in self.unable

    def room_in_hand(self, app: str) -> int:
        """How many claims of the app are worth having in hand, beyond those that are."""
        if app not in self._grown:
            return 0
        with self._lock:
            return self._hand.room(app, self._children.get(app, 0), self._clock.monotonic())

    def hold(self, claims: Sequence[Claim]) -> None:
        """Begin these claims as children become free, or give them back as ended before they began."""
        if not claims:
            return
        self._ledger.open(claims)
        with self._lock:
            if not self._hand.take(claims, self._clock.monotonic()):
                self._return(claims, "this worker is stopping")
        self.wake()

    def let_go(self) -> None:
        """Give back what is in hand, and take nothing in hand any more."""
        with self._lock:
            self._return(self._hand.close(), "this worker is stopping")
        self.wake()

    def demand(self, app: str, count: int) -> None:
        """There is work for so many more runs: let the pool start children."""
        if app not in self._grown:
            self._order(lambda: self._pool.demand(app, count))

    def deploy(self, builds: Sequence[Build]) -> None:
        """Put builds in force."""
        self.secrets.deploy(builds)
        for build in builds:
            self._order(lambda build=build: self._deploy(build))  # type: ignore[misc]  # bound now, not later

    def retire(self, apps: Sequence[str]) -> None:
        """Take apps out of service."""
        self.secrets.retire(apps)
        for app in apps:
            self._order(lambda app=app: self._retire(app))  # type: ignore[misc]  # bound now, not later

    def directories(self) -> frozenset[Path] | None:
        """Where the code lies that runs or may yet; None where this loop does not answer soon."""
        found: set[Path] = set()
        is_done = threading.Event()

        def look() -> None:
            found.update(self._pool.directories())
            is_done.set()

        self._order(look)
        return frozenset(found) if is_done.wait(_ANSWER_WITHIN_S) else None

    def stop_run(self, claim: Claim, reason: str) -> None:
        """Kill the run of a claim that is not ours any more."""
        self._order(lambda: self._stop_run(claim, reason))

    def interrupt_all(self, reason: str) -> None:
        """End every run: SIGTERM, a grace, SIGKILL. What is in hand does not begin."""
        self.let_go()
        self._order(lambda: self._pool.interrupt_all(reason))

    def take_finished(self) -> list[Finished]:
        """What ended since the last call."""
        return self._ledger.take_finished()

    def gather_output(self) -> None:
        """Note what runs of a second or more have printed since they were last asked; `take_printed` gives it out."""
        self._order(self._gather_output)

    def take_printed(self, most: int) -> list[Printed]:
        """Up to `most` of what was gathered, the longest waiting first."""
        return self._ledger.take_printed(most)

    def take_settled(self) -> list[Settled]:
        """Which builds serve now, and which were refused."""
        with self._lock:
            settled, self._settled = list(self._settled), deque()
        return settled

    def revision_of(self, live: LiveApp) -> str:
        """The revision whose code a run of that app has: the build before, where the newest is not ready or refused."""
        return self.serving.get(live.app.name, live.revision)

    def has_settled(self) -> bool:
        """Whether `take_settled` has something to say."""
        return bool(self._settled)

    def is_busy(self) -> bool:
        """Whether a run has not ended yet, or is about to start."""
        return bool(self.guests.count()) or self._ledger.has_open()

    def running(self) -> list[Claim]:
        """Claims whose end has not been taken yet, those that are about to start or in hand included."""
        return self._ledger.claims()

    def in_hand(self) -> int:
        """How many of those have not begun and wait for a child."""
        with self._lock:
            return self._hand.total()

    def forget(self, claims: Sequence[Claim]) -> None:
        """These claims are ended in the broker, or lost: their leases are renewed no more."""
        self._ledger.forget(claims)

    def close(self) -> None:
        """Let the loop end: what still runs is killed."""
        self.guests.close()
        self._is_over = True
        self.wake()

    def wake(self) -> None:
        """Make the loop come round now."""
        self._has_news = True
        # While it does not sleep it looks for news before it does, and is spared the call.
        if self._is_asleep:
            self._is_asleep = False
            with suppress(BlockingIOError, OSError):
                os.write(self._wake_writer, b"\0")

    # The loop

    def run(self) -> None:
        """Supervise until `close`."""
        try:
            while not self._is_over:
                try:
                    self._turn()
                except Exception as error:  # noqa: BLE001  children must never be left without their supervisor
                    self._emit(LoopFailed(loop="executor", reason=f"{type(error).__name__}: {error}"))
        finally:
            self.let_go()
            self._pool.close()
            self._note(self._pool.take_ended())
            self.guests.abandon()
            self._on_change()

    def _turn(self) -> None:
        self._has_news = False
        while self._orders:
            self._orders.popleft()()
        self._note(self._pool.take_ended())
        self._serve_guests()
        self._serve_claims()
        self._serve_hand()
        # What could not even be started has ended already.
        self._note(self._pool.take_ended())
        self._tell_change()
        self._is_asleep = True
        self._pool.turn(0.0 if self._has_news else self._wait_s())
        self._is_asleep = False

    def _wait_s(self) -> float:
        ends = [self._hand.late_at(), None if self._untold_since is None else self._untold_since + _TOLD_WITHIN_S]
        until = min((end for end in ends if end is not None), default=None)
        return _LONGEST_WAIT_S if until is None else max(0.0, min(_LONGEST_WAIT_S, until - self._clock.monotonic()))

    def _note(self, runs: Sequence[Ended]) -> None:
        """Keep what ended for whoever records it."""
        ended = [item for item in runs if not self.guests.end(item)]
        if not ended:
            return
        with self._lock:
            for claim, item in zip(self._ledger.note(ended), ended, strict=True):
                self._at_work[claim.app] -= 1
                self._untold.add(claim.app)
                if item.started:
                    self._hand.ran(claim.app, item.duration_s)
        if self._untold_since is None:
            self._untold_since = self._clock.monotonic()

    def _tell_change(self) -> None:
        """Publish what could start now, and say so if that or what ended is news."""
        settled = self._pool.take_settled()
        capacity = {app: self._pool.capacity(app) for app in self._apps}
        grown = frozenset(filter(self._pool.is_grown, self._apps))
        with self._lock:
            if settled:
                self._settle(settled)
            has_grown = any(free > self._capacity.get(app, 0) for app, free in capacity.items())
            self._capacity, self._grown = capacity, grown
            self.unable = (*self._pool.unable(), *self._foreign)
            is_news = bool(settled) or has_grown or self._has_returned or self._are_ends_news()
            if is_news:
                self._has_returned, self._untold_since = False, None
                self._untold.clear()
        for app, reason in self._pool.take_unshared():
            self._emit(ImportsUnshared(app=app, reason=reason))
        if is_news:
            self._on_change()

    def _settle(self, settled: Sequence[Settled]) -> None:
        self._settled.extend(settled)
        self.serving = {**self.serving, **{it.app: it.revision for it in settled if it.is_serving}}
        for each in settled:
            if each.is_serving:
                self._return(self._hand.drop(each.app), "its app has new code")

    def _are_ends_news(self) -> bool:
        """Whether to tell of what ended: not at once where that would only make more of small steps."""
        if self._untold_since is None:
            return False
        if self._clock.monotonic() >= self._untold_since + _TOLD_WITHIN_S:
            return True
        return any(self._hand.is_low(app, self._children.get(app, 0)) for app in self._untold)

    def _return(self, claims: Sequence[Claim], reason: str) -> None:
        """Under the lock: what was in hand ends without having begun, which charges nothing."""
        if claims:
            self._ledger.unbegun(claims, reason)
            self._has_returned = True

    def _serve_guests(self) -> None:
        for app in self.guests.apps():
            while self._has_place_for_guest(app) and (run := self.guests.begin(app)) is not None:
                self._start_guest(run)
        for app in self.guests.running_apps():
            # One that waits for its child is in nobody's ready set: without this no claimer would ask for the child.
            self._pool.demand(app, 0)

    def _serve_claims(self) -> None:
        """Let claims that wait for a child have what other apps have left meanwhile.

        Their leases are held, so no claimer asks for children of theirs; and the pool looks at an app that waits only
        when something happens to a child of that app.
        """
        for app in self._pool.waited_for():
            self._pool.demand(app, 0)

    def _serve_hand(self) -> None:
        """Begin what is in hand where a child is free, and give back what should not wait for one any longer."""
        if not self._hand.total():
            return
        with self._lock:
            self._return(self._hand.late(self._clock.monotonic()), "its app's children are busy for long")
        for app in self._hand.apps():
            while (claim := self._next_in_hand(app)) is not None:
                self._begin(claim)

    def _next_in_hand(self, app: str) -> Claim | None:
        free = self._pool.capacity(app)
        with self._lock:
            if not self._hand.count(app):
                return None
            kept = self._turns.kept_for_guest(app, is_waiting=self.guests.is_waiting(app))
            if free - self._reserved.get(app, 0) - kept > 0:
                self._turns.took_stream(app)
                return self._hand.next(app)
            if not free and self._at_work[app] <= 0:
                # Its children were lost, and new ones are asked for by whoever has a place for a claim.
                self._return(self._hand.drop(app), "no child of its app is at work")
        return None

    def _start_guest(self, run: Run) -> None:
        try:
            self._pool.start(run)
        except Exception as error:
            self.guests.lose(run, error)
            raise

    def _has_place_for_guest(self, app: str) -> bool:
        """Take a place for a guest, if its turn has come. An app that is not here is refused by the pool."""
        if app not in self._apps:
            return True
        places = self._pool.places(app)
        with self._lock:
            kept = self._turns.kept_for_stream(app, is_waiting=bool(self._hand.count(app)))
            if places - self._reserved.get(app, 0) - kept <= 0:
                return False
            self._capacity[app] = max(0, self._capacity.get(app, 0) - 1)
            self._turns.took_guest(app)
        return True

    def _gather_output(self) -> None:
        self._ledger.gather(lambda known, since: self._pool.tellings(known, since=since))

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        self.wake()

    def _drain_wakeups(self, _mask: int) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wake_reader, 4096):
                pass

    def _deploy(self, build: Build) -> None:
        try:
            self._pool.deploy(build)
        except UsageError as error:
            with self._lock:
                self._settled.append(Settled(build.app, build.revision, False, error.message))
            # A build before it goes on, and another worker may have what this one lacks.
            self._foreign |= {build.app} - set(self._apps)
            return
        self._foreign -= {build.app}
        self._children[build.app] = build.concurrency
        self._apps = tuple({*self._apps, build.app})

    def _retire(self, app: str) -> None:
        self._pool.retire(app)
        with self._lock:
            self.serving = {name: revision for name, revision in self.serving.items() if name != app}
            self._turns.took_stream(app)
            self._return(self._hand.drop(app), "its app is gone")
        self._foreign -= {app}
        self._apps = tuple(name for name in self._apps if name != app)

    def _start(self, claim: Claim) -> None:
        with self._lock:
            self._reserved[claim.app] = max(0, self._reserved.get(claim.app, 0) - 1)
        self._begin(claim)

    def _begin(self, claim: Claim) -> None:
        with self._lock:
            self._capacity[claim.app] = max(0, self._capacity.get(claim.app, 0) - 1)
        self._at_work[claim.app] += 1
        self._pool.start(run_of(claim, self._clock.time()))
        # While it runs already: nobody waits for the words.
        self._emit(started_fact(claim))

    def _stop_run(self, claim: Claim, reason: str) -> None:
        with self._lock:
            is_in_hand = self._hand.pull(claim)
            if is_in_hand:
                self._return([claim], reason)
        if not is_in_hand:
            self._pool.stop(claim.key, reason)

    def _line(self, run: Run, stream: str, line: str) -> None:
        self.guests.print(run, stream, line)
        self._emit(OutputLine(label=run.label, stream=stream, line=line))
