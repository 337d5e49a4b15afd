"""One worker: makes its loops, starts them in order, drains them in order. What they do is in their own modules."""

from __future__ import annotations

import os
import platform
import secrets
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl import __version__
from relayctl.core.cron import EVALUATOR_VERSION
from relayctl.core.facts import (
    Emit,
    LoopFailed,
    NextFiring,
    WorkerStarted,
)
from relayctl.core.occurrence import from_epoch, instant_text
from relayctl.core.routing import wants_verdicts
from relayctl.core.zones import tzdata_version
from relayctl.errors import BrokerError
from relayctl.runners.build import Build
from relayctl.sources.lastgood import LastGood
from relayctl.store.closings import Closings
from relayctl.store.connect import connect
from relayctl.store.controls import Controls
from relayctl.store.definitions import Definitions
from relayctl.store.fleet import Fleet, Pulse, WorkerRecord
from relayctl.store.invocations import Invocations
from relayctl.store.moves import Moves
from relayctl.store.outputs import Outputs
from relayctl.store.releases import Releases
from relayctl.store.replicas import Replicas
from relayctl.store.stranded import Strandings
from relayctl.store.stream import Stream
from relayctl.worker.agenda import Name
from relayctl.worker.auditor import Auditor
from relayctl.worker.binding import Binding
from relayctl.worker.blindspot import Blindspot
from relayctl.worker.buildnews import BuildNews
from relayctl.worker.claimer import Claimer, Tokens
from relayctl.worker.consumer import BLOCK_MS, Consumer
from relayctl.worker.drain import Drain
from relayctl.worker.environments import supplied
from relayctl.worker.executor import Executor
from relayctl.worker.fleettime import FleetTime
from relayctl.worker.health import BeatClock
from relayctl.worker.leftovers import Leftovers
from relayctl.worker.limitwatch import LimitWatch
from relayctl.worker.loops import Loops
from relayctl.worker.lostgaps import LostGaps
from relayctl.worker.options import Options
from relayctl.worker.peers import Peers
from relayctl.worker.poison import Poison
from relayctl.worker.reconciler import Reconciler
from relayctl.worker.registrar import Registrar
from relayctl.worker.renames import Renames
from relayctl.worker.rescue import Rescue
from relayctl.worker.scheduler import Scheduler, Surroundings
from relayctl.worker.services import Services
from relayctl.worker.snapshot import Changes, Snapshot
from relayctl.worker.stranded import Lookout

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.sources.source import Hint, Source, SourceStanding, Watch
    from relayctl.store.keys import Keys
    from relayctl.store.stream import RouteOrder
    from relayctl.store.target import Target
    from relayctl.worker.options import HeldTime

_MOST_TOLD = 10
_LOOPS = ("scheduler", "claimer", "consumer", "reconciler")


class Worker:
    """The loops of one `relayctl serve` process over one broker and one source."""

    def __init__(
        self,
        *,
        target: Target,
        keys: Keys,
        source: Source,
        watch: Callable[[Hint], Watch] | None,
        resolve_secret: Callable[[str], str],
        options: Options,
        clock: Clock,
        emit: Emit,
        on_routed: Callable[[Sequence[RouteOrder]], None] | None = None,
        held: HeldTime | None = None,
    ) -> None:
        """`watch` makes what gives hints about the source (else only the periodic look finds changes), `on_routed`
        hears of every batch of the stream that has been routed, `held` goes with a `clock` that is held."""
        self._target = target
        self._keys = keys
        self._source = source
        self._options = options
        self._clock = clock
        self._emit = emit
        self._limits = LimitWatch(options.delegation, emit)
        self._on_routed = on_routed
        self._beats = {name: BeatClock(clock) for name in (*_LOOPS, "auditor", "retrier")}
        self.token = token = secrets.token_hex(4)
        self.id = f"{platform.node().split('.')[0] or 'worker'}-{token}"
        self.started_at: datetime = clock.now()
        self._client = connect(target, client_name=self.id, instant=None if held is None else held.instant)
        # A stop waits for this reader: it may not hang on a silent broker for longer than it has to.
        self._reader = connect(target, role="reader", block_s=BLOCK_MS / 1000, client_name=f"{self.id}-reader")
        self.time = FleetTime(clock)
        self.fleet = Fleet(self._client, keys)
        self.stream = Stream(self._client, keys)
        self.closings = Closings(self._client, keys, self.id, self._wants_verdicts)
        self.definitions = Definitions(self._client, keys)
        self.invocations = Invocations(self._client, keys, self._wants_verdicts, options.outputs)
        self.confirm_replicas = Replicas(self._client, keys, options.min_replica_acks).confirm
        self.peers = Peers(self.fleet, self.id)
        self.binding = self._make_binding()
        self.rescue = self._make_rescue(token)
        self.scheduler = self._make_scheduler(token)
        runs = clock if held is None else held.runs
        self.executor = self._make_executor(resolve_secret, runs)
        self.services = Services(
            secrets=resolve_secret,
            clock=runs,
            emit=emit,
            base_environ=options.base_environ,
            delegation=options.delegation,
        )
        self.claimer = self._make_claimer(token)
        self.registrar = self._make_registrar()
        self.environments = supplied(self, self._builds_in_use, options, clock, emit)
        self.reconciler = self._make_reconciler()
        self.consumer = self._make_consumer()
        self.auditor = self._make_auditor()
        self._watch = None if watch is None else watch(self.reconciler.hint)
        self._loops, self._builds = Loops(), BuildNews(self.executor, lambda: self.reconciler.snapshot, emit)
        self._executor_thread = threading.Thread(target=self.executor.run, name="executor")

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
        if self._options.runs_services:
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
            limit=self._options.drain,
            clock=self._clock,
            emit=self._emit,
        ).run(reason, hurry, self._close)

    def _close(self) -> None:
        self._client.close()
        self._reader.close()

    # How the loops hang together

    def _make_rescue(self, token: str) -> Rescue:
        return Rescue(
            self,
            path=self._options.outbox,
            token=token,
            acks=self._options.min_replica_acks,
            clock=self._beats["retrier"],
            emit=self._emit,
        )

    def _make_binding(self) -> Binding | None:
        if self._source.mode != "push":
            return None
        releases = Releases(self._client, self._keys)
        return Binding(releases, lambda: self.reconciler.snapshot, self._clock, self._emit, self._on_release)

    def _make_registrar(self) -> Registrar:
        return Registrar(
            definitions=self.definitions,
            scheduler=self.scheduler,
            peers=self.peers,
            clock=self._clock,
            worker=self.id,
            emit=self._emit,
            is_following=self.binding is not None,
            controls=Controls(self._client, self._keys, self._wants_verdicts),
            gaps=LostGaps(self.closings, self.time.now_ms, self._emit),
            renames=Renames(Moves(self._client, self._keys), self._emit, lambda: self.reconciler.elsewhere.apps),
        )

    def _make_auditor(self) -> Auditor:
        return Auditor(
            closings=self.closings,
            definitions=self.definitions,
            peers=self.peers,
            snapshot=lambda: self.reconciler.snapshot,
            time=self.time,
            clock=self._beats["auditor"],
            emit=self._emit,
            unreadable=self.registrar.unreadable,
        )

    def _make_scheduler(self, token: str) -> Scheduler:
        return Scheduler(
            stream=self.stream,
            closings=self.closings,
            fleet=self.fleet,
            peers=self.peers,
            time=self.time,
            clock=self._beats["scheduler"],
            token=token,
            surroundings=Surroundings(
                record=self._record,
                on_pulse=self._on_pulse,
                on_superseded=self._on_superseded,
                drain=self.rescue.drain,
                is_abreast=lambda: self.reconciler.is_abreast,
                is_elsewhere=(lambda _app: False) if self.binding is None else self.binding.is_elsewhere,
            ),
            recovery=self.rescue.recovery,
            emit=self._emit,
            horizon=self._options.horizon,
            poison=Poison(
                controls=Controls(self._client, self._keys),
                closings=self.closings,
                token=token,
                max_bytes=self._options.max_event_bytes,
                emit=self._emit,
            ),
        )

    def _make_executor(self, resolve_secret: Callable[[str], str], clock: Clock) -> Executor:
        return Executor(
            secrets=resolve_secret,
            clock=clock,
            emit=self._emit,
            max_children=self._options.max_children,
            base_environ=self._options.base_environ,
            on_change=self._on_work_changed,
            delegation=self._options.delegation,
        )

    def _make_claimer(self, token: str) -> Claimer:
        return Claimer(
            invocations=self.invocations,
            outputs=Outputs(self._client, self._keys, self._options.outputs),
            executor=self.executor,
            leftovers=Leftovers(
                invocations=self.invocations, definitions=self.definitions, peers=self.peers, worker=self.id
            ),
            lookout=Lookout(
                invocations=self.invocations,
                strandings=Strandings(self._client, self._keys, self._wants_verdicts),
                peers=self.peers,
                clock=self._clock,
                worker=self.id,
                emit=self._emit,
            ),
            snapshot=lambda: self.reconciler.snapshot,
            tokens=Tokens(token),
            time=self.time,
            clock=self._beats["claimer"],
            cap=self._options.cap,
            worker=self.id,
            emit=self._emit,
        )

    def _make_reconciler(self) -> Reconciler:
        return Reconciler(
            source=self._source,
            registrar=self.registrar,
            fleet=self.fleet,
            worker=self.id,
            swap=self._swap,
            announce=self.scheduler.beat_now,
            clock=self._beats["reconciler"],
            resync=self._options.resync,
            emit=self._emit,
            keeper=self.rescue.keeper,
            last_good=self._make_last_good(),
            environments=self.environments,
            builds=self._builds_in_use,
            binding=self.binding,
        )

    def _builds_in_use(self) -> frozenset[Path] | None:
        running = self.executor.directories()
        return None if running is None else running | self.services.directories()

    def _make_last_good(self) -> LastGood | None:
        folder = self._options.last_good
        return None if folder is None else LastGood(folder, self._source.root, self._emit)

    def _make_consumer(self) -> Consumer:
        return Consumer(
            reader=Stream(self._reader, self._keys),
            stream=self._counted_stream(),
            definitions=self.definitions,
            invocations=self.invocations,
            executor=self.executor,
            claimer=self.claimer,
            snapshot=lambda: self.reconciler.snapshot,
            time=self.time,
            clock=self._beats["consumer"],
            worker=self.id,
            max_bytes=self._options.max_event_bytes,
            emit=self._emit,
            blindspot=Blindspot(
                unread=lambda: self.reconciler.unread,
                known=lambda: (*self.reconciler.snapshot.live, *self.reconciler.elsewhere.apps),
                is_partial=self._source.is_partial,
                peers=self.peers,
                clock=self._clock,
                emit=self._emit,
            ),
            has_looked=lambda: self.reconciler.has_looked,
            elsewhere=lambda: self.reconciler.elsewhere.apps,
            homes=Moves(self._client, self._keys).homes,
        )

    def _counted_stream(self) -> Stream:
        if self._on_routed is None:
            return self.stream
        from relayctl.worker.metrics import CountedStream

        return CountedStream(self._client, self._keys, self._on_routed)

    def _on_pulse(self, pulse: Pulse) -> None:
        self.reconciler.on_pulse(pulse)

    def _on_release(self) -> None:
        self.claimer.ask_for_all()

    def _on_superseded(self, names: Sequence[Name]) -> None:
        self.reconciler.refresh(names)

    def _wants_verdicts(self) -> bool:
        return self.peers.wants_verdicts()

    def _on_work_changed(self) -> None:
        if self.executor.has_settled():
            # Somebody may wait to hear that new code serves.
            self.scheduler.beat_now()
            self.claimer.ask_for_all()
        self.claimer.stir()

    def _swap(self, snapshot: Snapshot, changes: Changes) -> None:
        runnable = [item for item in changes.deployed.values() if item.app.handlers()]
        self.executor.deploy([Build.of(it.app, it.directory, it.revision, it.environment) for it in runnable])
        bare = [name for name, item in changes.deployed.items() if not item.app.handlers()]
        self.executor.retire([*changes.removed, *bare])
        self.services.deploy(snapshot.live)
        self.environments.in_force(snapshot.live, changes.deployed.keys() | changes.removed)
        self._limits.look(item.app for item in snapshot.live.values())

    def _record(self, is_publishing: bool) -> WorkerRecord:
        self._builds.look()
        snapshot, source = self.reconciler.snapshot, self.source
        refused = self._builds.refused(snapshot)
        return WorkerRecord(
            id=self.id,
            host=platform.node(),
            pid=os.getpid(),
            version=__version__,
            started_at=instant_text(self.started_at.replace(microsecond=0)),
            is_publishing=is_publishing,
            holdings_seq=self.reconciler.holdings_seq,
            evaluator=EVALUATOR_VERSION,
            tzdata=tzdata_version(),
            drift=self.reconciler.drift,
            source=source.label,
            revision=source.revision,
            revision_since=source.since_text,
            broken=self.reconciler.broken_apps,
            notes=tuple(f"its source: {note}" for note in source.notes)
            + self.reconciler.notes
            + self._limits.notes
            + (() if self.binding is None else self.binding.notes)
            + tuple(f"{app}: its new code does not load: {reason}" for app, reason in refused.items()),
            is_partial=self._source.is_partial,
            wants_verdicts=wants_verdicts(snapshot.apps.values()),
            max_timeout_s=self._options.cap.total_seconds(),
            services=self.services.standings,
            unable=self.executor.unable,
            unenforced=self._limits.unenforceable,
            running=self._builds.digest(snapshot),
            pending=self._builds.pending(snapshot),
            refused=refused,
            unbuilt=self.environments.unbuilt,
        )
