"""The loops of one worker and what they share: made, and told what each may ask of the others.

They are made in one order and ask each other later, so what is made last is asked for through a function. Nothing runs
yet: `worker.worker` starts and stops them.
"""

from __future__ import annotations

import platform
import secrets
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit
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
from relayctl.store.readmission import Readmission
from relayctl.store.releases import Releases
from relayctl.store.replicas import Replicas
from relayctl.store.stranded import Strandings
from relayctl.store.stream import Stream
from relayctl.worker.agenda import Name
from relayctl.worker.auditor import Auditor
from relayctl.worker.binding import Binding
from relayctl.worker.blindspot import Blindspot
from relayctl.worker.buildnews import BuildNews
from relayctl.worker.claimer import Claimer
from relayctl.worker.consumer import BLOCK_MS, Consumer
from relayctl.worker.environments import supplied
from relayctl.worker.executor import Executor
from relayctl.worker.fleettime import FleetTime
from relayctl.worker.health import BeatClock
from relayctl.worker.leftovers import Leftovers
from relayctl.worker.limitwatch import LimitWatch
from relayctl.worker.loops import Loops
from relayctl.worker.lostgaps import LostGaps
from relayctl.worker.options import Options
from relayctl.worker.ownrecord import own_record
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
from relayctl.worker.tokens import Tokens

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.sources.source import Hint, Source, Watch
    from relayctl.store.keys import Keys
    from relayctl.store.stream import RouteOrder
    from relayctl.store.target import Target
    from relayctl.worker.options import HeldTime

_LOOPS = ("scheduler", "claimer", "consumer", "reconciler")


class Parts:
    """Everything in a worker over one broker and one source."""

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
        self.options = options
        self._clock = clock
        self._emit = emit
        self.limits = LimitWatch(options.delegation, emit)
        self._on_routed = on_routed
        self._beats = {name: BeatClock(clock) for name in (*_LOOPS, "auditor", "retrier")}
        self.token = secrets.token_hex(4)
        self.id = f"{platform.node().split('.')[0] or 'worker'}-{self.token}"
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
        self.rescue = self._make_rescue()
        self.scheduler = self._make_scheduler()
        runs = clock if held is None else held.runs
        self.executor = self._make_executor(resolve_secret, runs)
        self.services = Services(
            secrets=resolve_secret,
            clock=runs,
            emit=emit,
            base_environ=options.base_environ,
            delegation=options.delegation,
        )
        self.claimer = self._make_claimer()
        self.registrar = self._make_registrar()
        self.environments = supplied(self, self._builds_in_use, options, clock, emit)
        self.reconciler = self._make_reconciler()
        self.consumer = self._make_consumer()
        self.auditor = self._make_auditor()
        self._watch = None if watch is None else watch(self.reconciler.hint)
        self._loops, self.builds = Loops(), BuildNews(self.executor, lambda: self.reconciler.snapshot, emit)
        self._executor_thread = threading.Thread(target=self.executor.run, name="executor")

    def _make_rescue(self) -> Rescue:
        return Rescue(
            self,
            path=self.options.outbox,
            token=self.token,
            acks=self.options.min_replica_acks,
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

    def _make_scheduler(self) -> Scheduler:
        return Scheduler(
            stream=self.stream,
            closings=self.closings,
            fleet=self.fleet,
            peers=self.peers,
            time=self.time,
            clock=self._beats["scheduler"],
            token=self.token,
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
            horizon=self.options.horizon,
            poison=Poison(
                controls=Controls(self._client, self._keys),
                closings=self.closings,
                token=self.token,
                max_bytes=self.options.max_event_bytes,
                emit=self._emit,
            ),
        )

    def _make_executor(self, resolve_secret: Callable[[str], str], clock: Clock) -> Executor:
        return Executor(
            secrets=resolve_secret,
            clock=clock,
            emit=self._emit,
            max_children=self.options.max_children,
            base_environ=self.options.base_environ,
            on_change=self._on_work_changed,
            delegation=self.options.delegation,
        )

    def _make_claimer(self) -> Claimer:
        return Claimer(
            invocations=self.invocations,
            readmission=Readmission(self._client, self._keys),
            outputs=Outputs(self._client, self._keys, self.options.outputs),
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
            tokens=Tokens(self.token),
            time=self.time,
            clock=self._beats["claimer"],
            cap=self.options.cap,
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
            resync=self.options.resync,
            emit=self._emit,
            keeper=self.rescue.keeper,
            last_good=self._make_last_good(),
            environments=self.environments,
            builds=self._builds_in_use,
            binding=self.binding,
            on_housekeeping=self.executor.secrets.look,
        )

    def _builds_in_use(self) -> frozenset[Path] | None:
        running = self.executor.directories()
        return None if running is None else running | self.services.directories()

    def _make_last_good(self) -> LastGood | None:
        folder = self.options.last_good
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
            max_bytes=self.options.max_event_bytes,
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
        self.limits.look(item.app for item in snapshot.live.values())

    def _record(self, is_publishing: bool) -> WorkerRecord:
        return own_record(self, self._source, is_publishing)
