"""The supervisor's thread: owns the pool of children and nothing else, so a stalled broker delays no deadline.

Other threads reserve capacity before they claim, hand claims over, and take what ended. Children die with the thread
that spawned them, which is why this one lives as long as the worker.
"""

from __future__ import annotations

import os
import selectors
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, ImportsUnshared, LoopFailed, OutputLine, RunStarted
from relayctl.core.lifecycle import Claim, run_variables
from relayctl.core.occurrence import from_epoch, instant_from_text, instant_text
from relayctl.errors import UsageError
from relayctl.runners.cgroups import NOTHING, Delegation
from relayctl.runners.deployed import Settled
from relayctl.runners.invocation import Ended, Outcome, Run, Telling
from relayctl.runners.pool import Pool
from relayctl.worker.guests import Guests, Turns

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.runners.build import Build
    from relayctl.worker.snapshot import LiveApp

_LONGEST_WAIT_S = 1.0
_ANSWER_WITHIN_S = 1.0
SILENT_S = 1.0
"""A run is not asked for its output before it has run for so long: most end within it, and their end tells."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A claim and how its run ended, with wall times in milliseconds since 1970."""

    claim: Claim
    ended: Ended
    started_ms: int
    finished_ms: int


@dataclass(frozen=True, slots=True)
class Printed:
    """A claim whose run goes on, and what it has printed so far. `started_ms` is a wall time."""

    claim: Claim
    telling: Telling
    started_ms: int


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
        self._claims: dict[str, Claim] = {}
        self._finished: deque[Finished] = deque()
        self._over: set[str] = set()
        self._printed: dict[str, Printed] = {}
        self._known: dict[str, int] = {}
        self._settled: deque[Settled] = deque()
        self._apps: tuple[str, ...] = ()
        self._foreign: frozenset[str] = frozenset()
        self._turns = Turns()
        self.guests = Guests(self.wake)
        """What somebody on this machine asked for: it runs here beside the claims, and is none of them."""
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
            free = max(0, min(most, self._capacity.get(app, 0) - self._reserved.get(app, 0) - kept))
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
        with self._lock:
            for claim in claims:
                self._claims[claim.key] = claim
        if claims:
            self._orders.extend(partial(self._start, claim) for claim in claims)
            self.wake()

    def demand(self, app: str, count: int) -> None:
        """There is work for so many more runs: let the pool start children."""
        if app not in self._grown:
            self._order(lambda: self._pool.demand(app, count))

    def deploy(self, builds: Sequence[Build]) -> None:
        """Put builds in force."""
        for build in builds:
            self._order(lambda build=build: self._deploy(build))  # type: ignore[misc]  # bound now, not later

    def retire(self, apps: Sequence[str]) -> None:
        """Take apps out of service."""
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
        self._order(lambda: self._pool.stop(claim.key, reason))

    def interrupt_all(self, reason: str) -> None:
        """End every run: SIGTERM, a grace, SIGKILL."""
        self._order(lambda: self._pool.interrupt_all(reason))

    def take_finished(self) -> list[Finished]:
        """What ended since the last call."""
        with self._lock:
            finished, self._finished = list(self._finished), deque()
        return finished

    def gather_output(self) -> None:
        """Note what runs of a second or more have printed since they were last asked; `take_printed` gives it out."""
        self._order(self._gather_output)

    def take_printed(self, most: int) -> list[Printed]:
        """Up to `most` of what was gathered, the longest waiting first."""
        with self._lock:
            return [self._printed.pop(key) for key in list(self._printed)[:most]]

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
        with self._lock:
            return bool(self.guests.count()) or any(key not in self._over for key in self._claims)

    def running(self) -> list[Claim]:
        """Claims whose end has not been taken yet, those that are about to start included."""
        with self._lock:
            return list(self._claims.values())

    def forget(self, claims: Sequence[Claim]) -> None:
        """These claims are ended in the broker, or lost: their leases are renewed no more."""
        with self._lock:
            for claim in claims:
                self._claims.pop(claim.key, None)
                self._over.discard(claim.key)

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
            self._pool.close()
            self._collect(self._pool.take_ended())
            self.guests.abandon()
            self._on_change()

    def _turn(self) -> None:
        self._has_news = False
        has_orders = bool(self._orders)
        while self._orders:
            self._orders.popleft()()
        ended = self._pool.take_ended()
        if has_orders or ended:
            self._collect(ended)
        self._serve_guests()
        self._serve_claims()
        self._is_asleep = True
        self._pool.turn(0.0 if self._has_news else _LONGEST_WAIT_S)
        self._is_asleep = False
        self._collect(self._pool.take_ended())

    def _collect(self, runs: Sequence[Ended]) -> None:
        """Publish what ended and what could start now, and say so if either is news."""
        ended = [item for item in runs if not self.guests.end(item)]
        settled = self._pool.take_settled()
        now, now_ms = self._clock.monotonic(), int(self._clock.time() * 1000)
        with self._lock:
            for item in ended:
                claim = self._claims[item.run.key]
                self._over.add(item.run.key)
                self._known.pop(item.run.key, None)
                self._printed.pop(item.run.key, None)
                self._finished.append(
                    Finished(
                        claim=claim,
                        ended=item,
                        started_ms=now_ms - int((now - item.started_at) * 1000),
                        finished_ms=now_ms - int((now - item.finished_at) * 1000),
                    )
                )
            self._settled.extend(settled)
            if settled:
                self.serving = {**self.serving, **{it.app: it.revision for it in settled if it.is_serving}}
            capacity = {app: self._pool.capacity(app) for app in self._apps}
            has_grown = any(free > self._capacity.get(app, 0) for app, free in capacity.items())
            self._capacity = capacity
            self._grown = frozenset(filter(self._pool.is_grown, self._apps))
            self.unable = (*self._pool.unable(), *self._foreign)
        for app, reason in self._pool.take_unshared():
            self._emit(ImportsUnshared(app=app, reason=reason))
        if ended or settled or has_grown:
            self._on_change()

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
            if places - self._reserved.get(app, 0) - self._turns.kept_for_stream(app) <= 0:
                return False
            self._capacity[app] = max(0, self._capacity.get(app, 0) - 1)
            self._turns.took_guest(app)
        return True

    def _gather_output(self) -> None:
        now, now_ms = self._clock.monotonic(), int(self._clock.time() * 1000)
        told = self._pool.tellings(self._known, since=now - SILENT_S)
        with self._lock:
            for telling in told:
                claim = self._claims.get(telling.key)
                if claim is not None:
                    self._known[telling.key] = telling.printed
                    started_ms = now_ms - int((now - telling.started_at) * 1000)
                    self._printed[telling.key] = Printed(claim, telling, started_ms)

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
        self._apps = tuple({*self._apps, build.app})

    def _retire(self, app: str) -> None:
        self._pool.retire(app)
        with self._lock:
            self.serving = {name: revision for name, revision in self.serving.items() if name != app}
            self._turns.took_stream(app)
        self._foreign -= {app}
        self._apps = tuple(name for name in self._apps if name != app)

    def _start(self, claim: Claim) -> None:
        with self._lock:
            self._reserved[claim.app] = max(0, self._reserved.get(claim.app, 0) - 1)
            self._capacity[claim.app] = max(0, self._capacity.get(claim.app, 0) - 1)
        self._pool.start(self._run_of(claim))
        # While it runs already: nobody waits for the words.
        self._emit(
            RunStarted(
                app=claim.app,
                handler=claim.descriptor.handler,
                message=claim.message,
                attempt=claim.attempt,
                schedule=claim.descriptor.schedule,
                scheduled_at=scheduled_at(claim),
            )
        )

    def _run_of(self, claim: Claim) -> Run:
        timeout_s = claim.descriptor.timeout_ms / 1000
        return Run(
            key=claim.key,
            app=claim.app,
            handler=claim.descriptor.handler,
            stdin=claim.payload().encode(),
            variables=run_variables(
                app=claim.app,
                handler=claim.descriptor.handler,
                attempt=claim.attempt,
                message=claim.message,
                deadline=_instant_text(int(self._clock.time() + timeout_s)),
                schedule=claim.descriptor.schedule,
                firing=claim.occurrence,
            ),
            timeout_s=timeout_s,
            label=f"{claim.app}/{claim.descriptor.handler}@{claim.message}",
            timeout_from=claim.descriptor.timeout_from,
        )

    def _line(self, run: Run, stream: str, line: str) -> None:
        self.guests.print(run, stream, line)
        self._emit(OutputLine(label=run.label, stream=stream, line=line))


@lru_cache(maxsize=64)
def _instant_text(second: int) -> str:
    """RFC 3339; the deadlines of runs that begin in the same second are alike."""
    return instant_text(from_epoch(second))


def scheduled_at(claim: Claim) -> datetime | None:
    """The instant that an occurrence's claim is for."""
    text = claim.scheduled_at
    return instant_from_text(text) if text else None


def is_charged(ended: Ended) -> bool:
    """Whether the end counts as an attempt: not when the handler was cut by us or never began for our reasons."""
    return ended.outcome not in {Outcome.INTERRUPTED, Outcome.REFUSED}
