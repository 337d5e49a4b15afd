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
from relayctl.core.facts import BrokerBack, BrokerLost, BrokerStarted, BrokerWarning, Emit, LoopFailed
from relayctl.errors import RelayError, UnknownTarget
from relayctl.host.secrets import SecretStore
from relayctl.host.signals import Signals
from relayctl.host.state import StateDir
from relayctl.runners.environ import base_environ
from relayctl.sources.directory import DirectorySource
from relayctl.sources.watch import DirectoryWatch, Hint
from relayctl.store.connect import check_server, connect
from relayctl.store.keys import Keys
from relayctl.worker.control import Control
from relayctl.worker.fanout import fan_out
from relayctl.worker.health import Vitals
from relayctl.worker.options import Options
from relayctl.worker.worker import Worker

if TYPE_CHECKING:
    from relayctl.broker.watch import BrokerEvent
    from relayctl.host.clock import Clock
    from relayctl.settings import Settings
    from relayctl.worker.metrics import Metrics

MAX_CHILDREN = 64
_LOOK_S = 1.0
_LOOKS_UNTIL_DONE = 2
"""An end can make more work due, so one quiet look is not enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How this process serves, beyond the settings."""

    only: Collection[str] = ()
    is_once: bool = False
    is_polling: bool = False


def serve(settings: Settings, serving: Serving, *, clock: Clock, emit: Emit) -> None:
    """Run a worker until it is told to stop. Raises RelayError when it cannot start, or when one of its loops died."""
    _check_only(DirectorySource(settings.apps, clock, only=serving.only), serving.only)
    signals = Signals()
    signals.listen()
    state = StateDir(settings.state_dir).create()
    metrics = _metrics(settings)
    if metrics is not None:
        emit = fan_out(emit, metrics.emit)
    broker = resolve_broker(explicit_url=settings.redis_url, state=state, may_start=True, clock=clock)
    try:
        _look_at(broker, clock, emit)
        worker = _worker(settings, serving, broker, state, clock, emit, metrics)
        keys, resync = Keys(settings.namespace), settings.resync_interval
        vitals = Vitals(worker, broker.target, keys, clock, resync)
        control = Control(worker, vitals, state, http=settings.http, metrics=metrics, clock=clock, emit=emit)
        try:
            control.start()
            _serve(worker, control, signals, is_once=serving.is_once)
        finally:
            control.stop()
    finally:
        broker.close()
        signals.restore()


def _serve(worker: Worker, control: Control, signals: Signals, *, is_once: bool) -> None:
    try:
        worker.start()
        control.running()
        reason, dead = _until_stopped(worker, signals, is_once=is_once)
    except BaseException:
        worker.drain("a failed start", lambda: True)
        raise
    control.draining()
    worker.drain(reason, (lambda: True) if reason == signal.SIGQUIT.name or dead else signals.hurry)
    if dead:
        raise RelayError(f"the {dead} loop of this worker died", help="start it again; what it held goes to its peers")


def _until_stopped(worker: Worker, signals: Signals, *, is_once: bool) -> tuple[str, str | None]:
    done = 0
    while True:
        asked = signals.next(_LOOK_S)
        done = done + 1 if is_once and worker.is_done() else 0
        if done == _LOOKS_UNTIL_DONE:
            return "everything that was due", None
        if asked is not None and signals.is_stop(asked):
            return asked.name if asked is not signal.SIGHUP else "the end of its terminal", None
        if asked is not None:
            worker.reconcile()
        dead = worker.dead_loop()
        if dead is not None:
            return f"the death of its {dead} loop", dead


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
    clock: Clock,
    emit: Emit,
    metrics: Metrics | None,
) -> Worker:
    def watch(hint: Hint) -> DirectoryWatch:
        return DirectoryWatch(
            settings.apps,
            debounce_ms=settings.debounce // timedelta(milliseconds=1),
            is_polling=serving.is_polling,
            clock=clock,
            on_hint=hint,
            on_trouble=lambda reason: emit(LoopFailed(loop="watch", reason=reason)),
        )

    return Worker(
        target=broker.target,
        keys=Keys(settings.namespace),
        source=DirectorySource(settings.apps, clock, only=serving.only),
        watch=watch,
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
            min_replica_acks=settings.min_replica_acks,
        ),
        clock=clock,
        emit=emit,
        on_routed=None if metrics is None else metrics.on_routed,
    )


def _check_only(source: DirectorySource, only: Collection[str]) -> None:
    """A name that no app has is a slip, and a worker that waits for it would run nothing."""
    view = source.look()
    missing = [] if view.trouble is not None else sorted(set(only) - set(view.apps))
    if missing:
        raise UnknownTarget(
            f'no app "{missing[0]}" in {source.root}', help="--only takes the name of a directory with a template"
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
        else:
            emit(BrokerBack(after=timedelta(seconds=clock.monotonic() - lost_at)))

    return listen
