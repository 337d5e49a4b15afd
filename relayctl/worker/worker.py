"""One worker: starts its loops in order, says how they stand, drains them in order. `parts` has them and their ties."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from relayctl import __version__
from relayctl.core.facts import LoopFailed, NextFiring, WorkerStarted
from relayctl.core.occurrence import from_epoch
from relayctl.errors import BrokerError
from relayctl.worker.drain import Drain
from relayctl.worker.parts import Parts

if TYPE_CHECKING:
    from relayctl.sources.source import SourceStanding

_MOST_TOLD = 10


class Worker(Parts):
    """The loops of one `relayctl serve` process over one broker and one source."""

    # Starting

    def start(self) -> None:
        """Bring the loops up. Raises ModeConflict, BrokerUnavailable or BrokerRefused before anything runs."""
        self.open()
        self._loops.start("scheduler", self.scheduler.run, self.scheduler.wake)
        self._loops.start("retrier", self.rescue.retrier.run, self.rescue.retrier.wake)
        self._loops.start("claimer", self.claimer.run, self.claimer.wake)
        self._loops.start("consumer", self.consumer.run, lambda: None)
        self._loops.start("reconciler", self.reconciler.run, self.reconciler.wake)
        self._loops.start("auditor", self.auditor.run, self.auditor.wake)
        if self.options.runs_services:
            self._loops.start("services", self.services.run, self.services.wake)
        self._loops.start("environments", self.environments.run, self.environments.wake)
        if self._watch is not None:
            self._loops.start("watch", self._watch.run, self._watch.wake)

    def open(self) -> None:
        """All of `start` but the loops: somebody else steps them. Raises as `start`."""
        self.fleet.enter_mode(self._source.mode)
        self._executor_thread.start()
        # The first pass is done here: its schedules are armed, and what is wrong with them told, before anything else.
        self._first_pass()
        self._emit(
            WorkerStarted(
                worker=self.id,
                pid=os.getpid(),
                version=__version__,
                broker=self._target.display,
                namespace=self._keys.namespace,
                apps=len(self.reconciler.snapshot.live),
                schedules=len(self.registrar.hashes),
            )
        )
        self._tell_next()

    def _tell_next(self) -> None:
        """Say what will run: the soonest firings, since a large tree has too many."""
        now = self.time.now_ms() // 1000
        due = [
            (at, app, schedule)
            for app, item in self.reconciler.snapshot.live.items()
            for schedule in item.app.schedules
            if schedule.enabled and (at := schedule.trigger.next_after_s(now)) is not None
        ]
        for at, app, schedule in sorted(due, key=lambda item: (item[0], item[1], item[2].name))[:_MOST_TOLD]:
            self._emit(
                NextFiring(
                    app=app,
                    schedule=schedule.name,
                    handler=schedule.contract.handler,
                    trigger=schedule.trigger.words,
                    at=from_epoch(at),
                )
            )

    def reconcile(self) -> None:
        """Look at the source now, and have it ask where it comes from."""
        self._source.demand()
        self.environments.retry()
        self.reconciler.hint(None)

    @property
    def source(self) -> SourceStanding:
        """Where its apps come from, and how that stands."""
        return self._source.standing

    def is_for(self, app: str) -> bool:
        """Whether it is meant to run that app, as far as its name says."""
        return self._source.is_wanted(app)

    @property
    def held_removal(self) -> str:
        """The revision whose removals wait for consent, or empty."""
        return self.reconciler.held_removal

    def beats(self) -> dict[str, tuple[bool, float]]:
        """Whether each loop lives, and when it last came round (monotonic): also in passes that failed."""
        return {
            name: (lives, self._beats[name].beat_at if name in self._beats else self._clock.monotonic())
            for name, lives in self._loops.alive().items()
        }

    def passes(self) -> dict[str, float]:
        """When each loop that counts its passes last completed one (monotonic)."""
        return {
            "scheduler": self.scheduler.last_pass_at,
            "claimer": self.claimer.last_pass_at,
            "consumer": self.consumer.last_pass_at,
            "reconciler": self.reconciler.last_pass_at,
        }

    def dead_loop(self) -> str | None:
        """The name of a loop that has ended although nobody stopped it, or None."""
        return self._loops.dead() or (None if self._executor_thread.is_alive() else "executor")

    def _first_pass(self) -> None:
        try:
            self.reconciler.step()
        except BrokerError as error:
            self._emit(LoopFailed(loop="reconciler", reason=error.message))

    # Stopping

    def drain(self, reason: str, hurry: Callable[[], bool]) -> None:
        """Stop claiming, let what runs end, interrupt what is left. `hurry` says that nobody wants to wait on."""
        Drain(
            worker=self.id,
            loops=self._loops,
            supervisor=self._executor_thread,
            claimer=self.claimer,
            executor=self.executor,
            services=self.services,
            rescue=self.rescue,
            fleet=self.fleet,
            limit=self.options.drain,
            clock=self._clock,
            emit=self._emit,
        ).run(reason, hurry, self._close)

    def _close(self) -> None:
        self._client.close()
        self._reader.close()
