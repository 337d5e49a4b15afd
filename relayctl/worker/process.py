"""The process around a worker: chooses the broker, listens for signals, drains, and leaves nothing behind.

Signals are only noted in their handlers; the main thread acts on them.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.broker.choose import Choice, resolve_broker
from relayctl.core.duration import format_duration
from relayctl.core.facts import BrokerBack, BrokerLost, BrokerStarted, BrokerWarning, Emit
from relayctl.core.output import OutputLimits
from relayctl.errors import RelayError
from relayctl.host.secrets import SecretStore
from relayctl.host.signals import Signals
from relayctl.host.state import StateDir
from relayctl.runners.cgroups import Delegation, claim, give_back
from relayctl.runners.environ import base_environ, builder_environ
from relayctl.sources.directory import DirectorySource
from relayctl.store.connect import check_server, connect
from relayctl.store.keys import Keys
from relayctl.worker.control import Control
from relayctl.worker.fanout import fan_out
from relayctl.worker.feed import Feed, Wish, check_choice, open_feed, open_releases
from relayctl.worker.health import Vitals
from relayctl.worker.invoker import Invoker
from relayctl.worker.once import Once
from relayctl.worker.options import Building, Options
from relayctl.worker.worker import Worker

if TYPE_CHECKING:
    from relayctl.broker.watch import BrokerEvent
    from relayctl.host.clock import Clock
    from relayctl.settings import Settings
    from relayctl.worker.metrics import Metrics
    from relayctl.worker.webhook import GitHook

MAX_CHILDREN = 64
_LOOK_S = 1.0
_LOOKS_UNTIL_DONE = 2
"""An end can make more work due, so one quiet look is not enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How this process serves, beyond the settings."""

    only: Collection[str] = ()
    is_following: bool = False
    is_once: bool = False
    is_polling: bool = False

    @property
    def wish(self) -> Wish:
        """What of it is about the source."""
        return Wish(only=self.only, is_following=self.is_following, is_polling=self.is_polling, is_once=self.is_once)


def serve(settings: Settings, serving: Serving, *, clock: Clock, emit: Emit) -> None:
    """Run a worker until it is told to stop. Raises RelayError when it cannot start, or when one of its loops died."""
    check_choice(settings, is_following=serving.is_following)
    signals = Signals()
    signals.listen()
    state = StateDir(settings.state_dir).create()
    metrics = _metrics(settings)
    if metrics is not None:
        emit = fan_out(emit, metrics.emit)
    feed = None
    if not serving.is_following:
        feed = open_feed(settings, serving.wish, state, clock, emit, is_asked=signals.is_asked)
    # Before anything is started, which then follows this process to where it goes.
    delegation = claim()
    broker = resolve_broker(explicit_url=settings.redis_url, state=state, may_start=True, clock=clock)
    try:
        _look_at(broker, clock, emit)
        if feed is None:
            feed = open_releases(settings, serving.wish, state, broker.target, clock, emit, is_asked=signals.is_asked)
        worker = _worker(settings, serving, broker, state, feed, clock, emit, metrics, delegation)
        keys, resync = Keys(settings.namespace), settings.resync_interval
        vitals = Vitals(worker, broker.target, keys, clock, resync)
        invoker = Invoker(worker, cap=settings.max_timeout, max_bytes=settings.max_event_bytes, clock=clock, emit=emit)
        control = Control(
            worker,
            vitals,
            state,
            invoker=invoker,
            http=settings.http,
            metrics=metrics,
            hook=_hook(settings, worker, emit),
            clock=clock,
            emit=emit,
        )
        try:
            control.start()
            _serve(worker, control, signals, _OnceWatch(worker, clock, settings.drain) if serving.is_once else None)
        finally:
            control.stop()
    finally:
        if feed is not None:
            feed.close()
        broker.close()
        give_back(delegation)
        signals.restore()


def _serve(worker: Worker, control: Control, signals: Signals, once: _OnceWatch | None) -> None:
    try:
        worker.start()
        control.running()
        end = _until_stopped(worker, signals, once)
    except BaseException:
        worker.drain("a failed start", lambda: True)
        raise
    control.draining()
    worker.drain(end.reason, (lambda: True) if end.is_hurried else signals.hurry)
    if end.error is not None:
        raise end.error


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Why a worker stops; with an `error` the process fails for it once all is drained."""

    reason: str
    is_hurried: bool = False
    error: RelayError | None = None


def _until_stopped(worker: Worker, signals: Signals, once: _OnceWatch | None) -> _End:
    while True:
        asked = signals.next(_LOOK_S)
        end = None if once is None else once.look()
        if end is not None:
            return end
        if asked is not None and signals.is_stop(asked):
            reason = asked.name if asked is not signal.SIGHUP else "the end of its terminal"
            return _End(reason=reason, is_hurried=asked is signal.SIGQUIT)
        if asked is not None:
            worker.reconcile()
        dead = worker.dead_loop()
        if dead is not None:
            error = RelayError(
                f"the {dead} loop of this worker died", help="start it again; what it held goes to its peers"
            )
            return _End(reason=f"the death of its {dead} loop", is_hurried=True, error=error)


class _OnceWatch:
    """Ends a worker that runs once: when it is through, or when it has been in trouble for too long."""

    def __init__(self, worker: Worker, clock: Clock, within: timedelta) -> None:
        self._once = Once(worker)
        self._clock = clock
        self._within = within
        self._quiet_looks = 0
        self._well_at = clock.monotonic()

    def look(self) -> _End | None:
        """Why the worker is to end now, if it is."""
        self._quiet_looks = self._quiet_looks + 1 if self._once.is_done() else 0
        if self._quiet_looks == _LOOKS_UNTIL_DONE:
            return _End(reason="everything that was due")
        now = self._clock.monotonic()
        if not self._once.trouble:
            self._well_at = now
        if now - self._well_at < self._within.total_seconds():
            return None
        error = RelayError(
            f"what is due cannot be done, and {format_duration(self._within)} did not help: {self._once.trouble}",
            help="nothing is lost: the next relayctl serve on this state directory goes on with it",
        )
        return _End(reason="what it cannot do", error=error)


def _hook(settings: Settings, worker: Worker, emit: Emit) -> GitHook | None:
    if settings.git is None or settings.webhook_secret_file is None:
        return None
    from relayctl.worker.webhook import GitHook

    return GitHook(settings.webhook_secret_file, worker.reconcile, emit)


def _building(settings: Settings, state: StateDir) -> Building | None:
    if settings.no_build:
        return None
    return Building(root=state.environments, limit=settings.build_timeout, environ=builder_environ())


def _metrics(settings: Settings) -> Metrics | None:
    if settings.http is None:
        return None
    # The library costs every start that does not need it.
    from relayctl.worker.metrics import Metrics

    return Metrics()


def _worker(
    settings: Settings,
    serving: Serving,
    broker: Choice,
    state: StateDir,
    feed: Feed,
    clock: Clock,
    emit: Emit,
    metrics: Metrics | None,
    delegation: Delegation,
) -> Worker:
    return Worker(
        target=broker.target,
        keys=Keys(settings.namespace),
        source=feed.source,
        watch=feed.watch,
        resolve_secret=SecretStore(settings.secrets_dir, state.path / "secrets").resolve,
        options=Options(
            drain=settings.drain,
            resync=settings.resync_interval,
            cap=settings.max_timeout,
            horizon=settings.catch_up_horizon,
            max_event_bytes=settings.max_event_bytes,
            max_children=MAX_CHILDREN,
            base_environ=base_environ(),
            outbox=state.outbox,
            # What is fetched keeps its last good state as a whole.
            last_good=state.last_good if isinstance(feed.source, DirectorySource) else None,
            min_replica_acks=settings.min_replica_acks,
            # A run that ends when nothing is due has no use for processes that never end.
            runs_services=not serving.is_once,
            outputs=OutputLimits(attempts=settings.keep_outputs, total_bytes=settings.keep_output_bytes),
            delegation=delegation,
            building=_building(settings, state),
        ),
        clock=clock,
        emit=emit,
        on_routed=None if metrics is None else metrics.on_routed,
    )


def _look_at(broker: Choice, clock: Clock, emit: Emit) -> None:
    """Check the server, say what is worth saying, and keep an embedded one alive."""
    client = connect(broker.target)
    try:
        facts = check_server(client)
    finally:
        client.close()
    if broker.embedded is not None and broker.endpoint is not None:
        if broker.endpoint.owner:
            emit(BrokerStarted(pid=broker.endpoint.pid, flavour=facts.flavour, version=facts.version_text))
        broker.embedded.watch(_listener(clock, emit))
    if facts.is_evicting:
        emit(
            BrokerWarning(
                reason=f"maxmemory-policy is {facts.maxmemory_policy}: under memory pressure it may drop the record "
                "that an instant was published, and run it twice; set it to noeviction"
            )
        )


def _listener(clock: Clock, emit: Emit) -> Callable[[BrokerEvent], None]:
    lost_at = clock.monotonic()

    def listen(event: BrokerEvent) -> None:
        nonlocal lost_at
        if event.kind == "lost":
            lost_at = clock.monotonic()
            emit(BrokerLost(reason="the embedded server is gone"))
        elif event.kind == "failed" and event.error is not None:
            emit(BrokerLost(reason=event.error.message))
        elif event.kind == "unsynced" and event.error is not None:
            emit(BrokerWarning(reason=event.error.message))
        else:
            emit(BrokerBack(after=timedelta(seconds=clock.monotonic() - lost_at)))

    return listen
