"""A broker, workers and the time they live in, for one test: time passes only when the test says so.

It decides nothing that `relayctl serve` decides: it steps the loops, and moves the clock to what is due next.
"""

from __future__ import annotations

import json
import secrets as random_names
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from relayctl.broker.supervise import EmbeddedBroker
from relayctl.core.due import DAY_S
from relayctl.core.occurrence import instant_from_text
from relayctl.errors import RelayError
from relayctl.host.clock import HeldClock, SystemClock
from relayctl.host.secrets import SecretStore
from relayctl.host.state import StateDir
from relayctl.store.connect import connect
from relayctl.store.inquiry import Inquiry
from relayctl.store.keys import Keys
from relayctl.store.orders import Orders
from relayctl.store.stream import Stream
from relayctl.testing.steppedworker import WATCHFUL_WAIT_S, SteppedWorker

if TYPE_CHECKING:
    import redis

    from relayctl.core.facts import Fact
    from relayctl.core.record import Record
    from relayctl.core.verdict import Judgement
    from relayctl.store.target import Target

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When a rig's time begins unless the test says otherwise: a Thursday, at midnight UTC."""
_BY = "relayctl.testing"
_PAUSE_S = 0.002


class NotIdle(RelayError):
    """Something went on for longer than the test was willing to wait."""


class Rig:
    """Workers in this process on a real broker. Use it as a context manager; one thread drives it."""

    def __init__(
        self,
        apps: Path | None = None,
        *,
        now: datetime = START,
        secrets: Mapping[str, str] | None = None,
        target: Target | None = None,
        horizon: timedelta = timedelta(seconds=DAY_S),
        is_started: bool = True,
    ) -> None:
        """`apps` is copied to `tree`, which the test may edit; `now` is an aware datetime; `target` is a broker to
        share with others (else one is started), `horizon` the catch-up horizon, and without `is_started` the first
        worker is left to `add_worker`."""
        self.clock = HeldClock(now)
        self.facts: list[Fact] = []
        self.workers: list[SteppedWorker] = []
        self._home = Path(tempfile.mkdtemp(prefix="rl-"))
        self.tree = self._home / "apps"
        if apps is None:
            self.tree.mkdir()
        else:
            shutil.copytree(apps, self.tree, ignore=shutil.ignore_patterns("__pycache__", ".relayctl", ".git"))
        self._secrets = dict(secrets or {})
        self._target = target
        self._horizon = horizon
        self._is_started = is_started
        self._broker: EmbeddedBroker | None = None
        self._made = 0
        self._is_open = False
        # Several tests may share a server, so each has a namespace to itself.
        self.keys = Keys(f"rig-{random_names.token_hex(6)}")
        self.client: redis.Redis

    def __enter__(self) -> Self:
        try:
            if self._target is None:
                self._broker = EmbeddedBroker(StateDir(self._home / "broker"), SystemClock())
                self._broker.start_or_attach()
                self._target = self._broker.target
            self.client = connect(self._target, client_name="relayctl-rig", instant=self.clock.instant_ms)
            self._is_open = True
            if self._is_started:
                self.add_worker()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what was started and remove the copy of the tree."""
        for worker in list(self.workers):
            self.stop_worker(worker)
        if self._is_open:
            self.client.close()
        if self._broker is not None:
            self._broker.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    # --- Workers ---

    def add_worker(
        self, *, apps: Path | None = None, clock: HeldClock | None = None, state: Path | None = None
    ) -> SteppedWorker:
        """Start a worker, by default on `tree` and by `clock`; another clock is that of a machine of its own.

        The same `state` directory is the same machine again, with what it had kept.
        """
        assert self._target is not None, "a rig is a context manager: with Rig(...) as rig"
        self._made += 1
        state = state or self._home / f"state-{self._made}"
        store = SecretStore(None, StateDir(state).create().secrets)
        for name, value in self._secrets.items():
            store.set(name, value)
        worker = SteppedWorker(
            target=self._target,
            keys=self.keys,
            apps=apps or self.tree,
            state=state,
            clock=clock or self.clock,
            instant=self.clock.instant_ms,
            emit=self.facts.append,
            horizon=self._horizon,
        )
        self.workers.append(worker)
        worker.start()
        self.run_until_idle()
        return worker

    def stop_worker(self, worker: SteppedWorker | None = None) -> SteppedWorker:
        """Stop a worker (the last one started, unless it is named) as SIGTERM does; other workers go on."""
        stopped = worker or self.workers[-1]
        self.workers.remove(stopped)
        stopped.stop()
        return stopped

    def restart_worker(self, worker: SteppedWorker | None = None, *, apps: Path | None = None) -> SteppedWorker:
        """Stop a worker and start another one on the same machine, clock and (unless named) tree."""
        old = self.stop_worker(worker)
        return self.add_worker(apps=apps or old.apps, clock=old.clock, state=old.state)

    def reconcile(self) -> None:
        """Let every worker look at its tree now, as it would after an edit.

        What is gone from a tree is taken out only after two seconds of quiet: let them pass with `advance`.
        """
        for worker in self.workers:
            worker.look()
        self.run_until_idle()

    # --- Time ---

    def advance(self, by: timedelta, *, within_s: float = 120.0) -> None:
        """Let time pass as it does, with everything done at its instant; at most `within_s` real seconds of it.

        Raises NotIdle.
        """
        left = by
        until = SystemClock().monotonic() + within_s
        self._hear()
        while left > timedelta():
            if SystemClock().monotonic() > until:
                raise NotIdle(f"{by - left} of {by} had passed after {within_s:g} s", help="advance in shorter spans")
            hop = min(left, self._hop())
            self._move(hop)
            left -= hop
            self.run_until_idle()

    def advance_to(self, at: datetime, *, within_s: float = 120.0) -> None:
        """`advance` until that aware instant."""
        self.advance(at - self.clock.now(), within_s=within_s)

    def stall(self, by: timedelta) -> None:
        """Let time pass in which no worker does anything, as if all stood still; then let them go on."""
        self._move(by)
        self.run_until_idle()

    def run_until_idle(self, within_s: float = 20.0) -> None:
        """Do all that is due at this instant, retries and handlers included; within so many real seconds.

        Raises NotIdle where something goes on for longer, as a handler that waits does.
        """
        real, pause = SystemClock(), threading.Event()
        until = real.monotonic() + within_s
        while self.workers:
            told = len(self.facts)
            for worker in self.workers:
                worker.round()
            if any(worker.is_busy() for worker in self.workers):
                if real.monotonic() > until:
                    raise self._not_idle(within_s)
                if not any(worker.is_due() for worker in self.workers):
                    pause.wait(_PAUSE_S)
            elif len(self.facts) == told:
                return

    # --- What operators and producers do ---

    def force_due(self, app: str, schedule: str) -> datetime:
        """Publish the next firing of a schedule now, under its own identity; the instant that it is for.

        When that instant comes, the firing is found done. Raises UnknownTarget or Refused.
        """
        started = Orders(self.client, self.keys).trigger_slot(
            app, schedule, "next", by=_BY, token=random_names.token_hex(4)
        )
        at = instant_from_text(started.id.split(":", 3)[3])
        assert at is not None
        return at

    def trigger(self, app: str, schedule: str) -> None:
        """Start a manual run of a schedule, beside its firings. Raises UnknownTarget or Refused."""
        Orders(self.client, self.keys).trigger(app, schedule, key=random_names.token_hex(8), by=_BY)

    def emit(self, event: Mapping[str, Any]) -> str:
        """Send an event; the id of its message."""
        return Stream(self.client, self.keys).emit(json.dumps(event))

    def pause(self, app: str, schedule: str, *, until: datetime | None = None, reason: str = "") -> None:
        """Pause a schedule. Raises UnknownTarget or Refused."""
        Orders(self.client, self.keys).pause(app, schedule, until=until, by=_BY, reason=reason)
        self._hear()

    def resume(self, app: str, schedule: str) -> None:
        """End a pause. Raises UnknownTarget or Refused."""
        Orders(self.client, self.keys).resume(app, schedule, by=_BY)
        self._hear()

    # --- What became of it ---

    def history(self, app: str, name: str, *, limit: int = 1000) -> Sequence[Record]:
        """How the firings of a schedule, or the event runs of a handler, ended: the oldest first."""
        found = Inquiry(self.client, self.keys).past(app, name, limit=limit, failed_only=False)
        return list(reversed(found.records))

    def why(self, app: str, schedule: str, at: datetime) -> Judgement:
        """What became of the firing at that aware instant, or why there was none."""
        [judgement] = Inquiry(self.client, self.keys).fate(app, schedule, at).firings
        return judgement

    def told(self, event: str) -> list[Fact]:
        """The facts of one kind that the workers told, under the names they have in the log."""
        return [fact for fact in list(self.facts) if fact.event == event]

    def _hear(self) -> None:
        for worker in self.workers:
            worker.hear()
        self.run_until_idle()

    def _hop(self) -> timedelta:
        waits = [worker.wait_s() for worker in self.workers]
        if len(waits) > 1:
            # Each must hear of the others before it takes them for gone.
            waits.append(WATCHFUL_WAIT_S)
        return timedelta(milliseconds=max(1, round(min(waits, default=float(DAY_S)) * 1000)))

    def _move(self, by: timedelta) -> None:
        clocks = {id(clock): clock for clock in (self.clock, *(worker.clock for worker in self.workers))}
        for clock in clocks.values():
            clock.advance(by)

    def _not_idle(self, within_s: float) -> NotIdle:
        running = [claim for worker in self.workers for claim in worker.worker.executor.running()]
        what = ", ".join(f"{claim.app}/{claim.descriptor.handler}" for claim in running[:3])
        refused = [fact for fact in list(self.facts) if fact.event == "build-refused"]
        reason = f"; the code does not load: {refused[-1]}" if refused else ""
        return NotIdle(
            f"after {within_s:g} s there is still work: {what or 'runs that wait for a place'}{reason}",
            help="handlers run in real time: let them end sooner, or wait longer with within_s",
        )
