"""Does what a timetable says, and undoes it; then heals everything. Runs on the caller's thread.

The broker dies with the thread that started it, so it is started again on the thread that owns the test.
"""

from __future__ import annotations

import heapq
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from support.nemesis.story import Emitted, Name, Paused

from relayctl.core.manual import ManualRun
from relayctl.errors import BrokerError
from relayctl.store.controls import Controls as Store
from relayctl.store.controls import ControlVerdict
from relayctl.store.keys import Keys

if TYPE_CHECKING:
    from support.broker import PrivateBroker
    from support.nemesis.apps import Apps
    from support.nemesis.fleet import Seat, Workers
    from support.nemesis.plan import Deed

_TICK_S = 0.05
_EMIT_S = 0.7
_ASK_S = 15.0
_DRAINED_WITHIN_S = 60.0
_DEAF_S = 6.0
"""A connection without answers is given up after five seconds."""
_T = TypeVar("_T")

EDITED = ("s0", "s1", "s4")
PAUSED = ("s2", "s7")
REMOVED = ("s5", "s9")
"""Which schedules are edited, paused and removed: no schedule suffers two of these at once."""


class Nemesis:
    """One run of a timetable. `paused`, `emitted` and `triggered` tell what was done that the judge must know."""

    def __init__(
        self, deeds: Sequence[Deed], workers: Workers, broker: PrivateBroker, apps: Apps, controls: Controls
    ) -> None:
        self._workers = workers
        self._broker = broker
        self._apps = apps
        self._controls = controls
        self._order = count()
        self._begun = time.time()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._busy: set[str] = set()
        self._is_broker_away = False
        self.done: list[str] = []
        for deed in deeds:
            self._at(deed.at_s, lambda deed=deed: self._do(deed))  # type: ignore[misc]

    def run(self, length_s: float, *, emits: bool) -> None:
        """Follow the timetable to its end."""
        pause, emit_at = threading.Event(), 0.0
        while (passed := time.time() - self._begun) < length_s or self._due:
            self._workers.look()
            while self._due and self._due[0][0] <= passed:
                heapq.heappop(self._due)[2]()
            if emits and passed >= emit_at and passed < length_s:
                emit_at = passed + _EMIT_S
                self._controls.emit(self._is_broker_away)
            pause.wait(_TICK_S)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), act))

    def _do(self, deed: Deed) -> None:
        act = getattr(self, "_" + deed.kind.replace("-", "_"))
        undo = act(deed)
        self.done.append(f"{time.time() - self._begun:6.1f} s {deed.kind} {deed.which} for {deed.lasts_s:.1f} s")
        if undo is not None:
            self._at(time.time() - self._begun + deed.lasts_s, undo)

    # Against a worker

    def _seat(self, deed: Deed) -> Seat:
        return self._workers.seats[deed.which]

    def _kill_worker(self, deed: Deed) -> Callable[[], None]:
        seat = self._seat(deed)
        self._workers.kill(seat)
        return lambda: self._workers.start(seat)

    def _stop_worker(self, deed: Deed) -> Callable[[], None]:
        seat = self._seat(deed)
        self._workers.freeze(seat)
        return lambda: self._workers.thaw(seat)

    def _drain_worker(self, deed: Deed) -> Callable[[], None] | None:
        seat = self._seat(deed)
        if "down" in seat.since:
            # What is still starting does not drain, it just ends.
            return None
        self._workers.drain(seat)
        patience = time.monotonic() + _DRAINED_WITHIN_S

        def replace() -> None:
            if not self._workers.is_gone(seat):
                assert time.monotonic() < patience, f"{seat.name} does not stop\n{seat.past_and_present[-1].story()}"
                self._at(time.time() - self._begun + 0.2, replace)
                return
            self._workers.start(seat)

        return replace

    def _cut(self, deed: Deed) -> Callable[[], None]:
        return self._hurt_road(self._seat(deed), "cut", self._seat(deed).road.cut)

    def _deafen(self, deed: Deed) -> Callable[[], None]:
        return self._hurt_road(self._seat(deed), "deaf", self._seat(deed).road.deafen, after_s=_DEAF_S)

    def _half_close(self, deed: Deed) -> Callable[[], None]:
        return self._hurt_road(self._seat(deed), "half-closed", self._seat(deed).road.half_close, after_s=1.0)

    def _slow(self, deed: Deed) -> Callable[[], None]:
        return self._hurt_road(self._seat(deed), "slow", lambda: self._seat(deed).road.slow(0.3))

    def _full_outbox(self, deed: Deed) -> Callable[[], None]:
        seat = self._seat(deed)
        seat.full.touch()
        undo = self._hurt_road(seat, "cut", seat.road.cut, after_s=1.0)

        def heal() -> None:
            seat.full.unlink(missing_ok=True)
            undo()

        return heal

    def _hurt_road(self, seat: Seat, kind: str, act: Callable[[], None], *, after_s: float = 0.5) -> Callable[[], None]:
        self._workers.begin(seat, kind)
        act()

        def heal() -> None:
            seat.road.heal()
            self._workers.end(seat, kind, after_s=after_s)

        return heal

    # Against the broker

    def _kill_broker(self, _deed: Deed) -> Callable[[], None]:
        since, self._is_broker_away = time.time(), True
        self._broker.kill()

        def start() -> None:
            self._broker.restart()
            self._is_broker_away = False
            self._workers.fleet_trouble("broker-down", since)

        return start

    def _stop_broker(self, _deed: Deed) -> Callable[[], None]:
        since, self._is_broker_away = time.time(), True
        os.kill(self._broker.pid, signal.SIGSTOP)

        def go_on() -> None:
            os.kill(self._broker.pid, signal.SIGCONT)
            self._is_broker_away = False
            self._workers.fleet_trouble("broker-stopped", since)

        return go_on

    def _drop_group(self, _deed: Deed) -> None:
        if not self._is_broker_away:
            with suppress(redis.RedisError):
                self._controls.client.xgroup_destroy("{relay}:events", "relay")

    def _flush_scripts(self, _deed: Deed) -> None:
        if not self._is_broker_away:
            with suppress(redis.RedisError):
                self._controls.client.script_flush()

    # To the tree, and as an operator

    def _pick(self, deed: Deed, schedules: Sequence[str]) -> Name | None:
        """A schedule of these that nothing is being done to."""
        names = [name for name in self._apps.wanted if name[1] in schedules and str(name) not in self._busy]
        return names[deed.which % len(names)] if names else None

    def _edit(self, deed: Deed) -> None:
        name = self._pick(deed, EDITED)
        if name is not None:
            every = self._apps.every(name)
            assert every is not None
            self._apps.edit(name, 1 + (every + deed.which % 6) % 7)

    def _break(self, deed: Deed) -> Callable[[], None] | None:
        app = self._apps.names[deed.which % len(self._apps.names)]
        if app in self._busy:
            return None
        self._busy.add(app)
        self._apps.break_template(app)

        def mend() -> None:
            self._busy.discard(app)
            self._apps.mend(app)

        return mend

    def _remove(self, deed: Deed) -> Callable[[], None] | None:
        name = self._pick(deed, REMOVED)
        if name is None:
            return None
        every = self._apps.every(name)
        self._busy.add(str(name))
        self._apps.edit(name, None)

        def add() -> None:
            self._busy.discard(str(name))
            self._apps.edit(name, every)

        return add

    def _pause(self, deed: Deed) -> Callable[[], None] | None:
        name = self._pick(deed, PAUSED)
        if name is None:
            return None
        self._busy.add(str(name))
        self._controls.pause(name, lambda: self._is_broker_away)
        if name not in self._controls.open_pauses:
            self._busy.discard(str(name))
            return None

        def resume() -> None:
            if self._is_broker_away:
                self._at(time.time() - self._begun + 0.5, resume)
                return
            self._controls.resume(name)
            self._busy.discard(str(name))

        return resume

    def _trigger(self, deed: Deed) -> None:
        name = self._pick(deed, PAUSED)
        if name is not None and not self._is_broker_away:
            self._controls.trigger(name, f"k{deed.at_s}")


class Controls:
    """What operators and producers do, past all proxies. A demand whose answer was lost is made again."""

    def __init__(self, client: Any, apps: Apps) -> None:
        self.client = client
        self._store = Store(client, Keys())
        self._apps = apps
        self._numbers = count()
        self.open_pauses: dict[Name, tuple[float, float]] = {}
        self.paused: list[Paused] = []
        self.emitted: list[Emitted] = []
        self.triggered: list[tuple[Name, str]] = []
        self.maybe = 0

    def emit(self, is_broker_away: bool) -> None:
        """Append an event: for one app, for all, or for nobody."""
        if is_broker_away:
            return
        number = next(self._numbers)
        kind = ("go-all", "never", *(f"go-{app}" for app in self._apps.names))[number % (2 + len(self._apps.names))]
        text = f'{{"kind": "{kind}", "id": {number}}}'
        try:
            message = self.client.xadd("{relay}:events", {"event": text})
        except (redis.RedisError, OSError):
            self.maybe += 1
            return
        self.emitted.append(Emitted(message=message, rules=self._apps.rules_for(kind)))

    def pause(self, name: Name, is_away: Callable[[], bool]) -> None:
        """Pause a schedule, unless the registry does not know it."""
        if is_away():
            return
        asked = time.time()
        verdict, _ = _insisted(lambda: self._store.pause(*name, until=None, by="operator", reason="a try"))
        if verdict is not ControlVerdict.UNKNOWN:
            self.open_pauses[name] = asked, time.time()

    def resume(self, name: Name) -> None:
        """End it."""
        asked, told = self.open_pauses.pop(name)
        again = time.time()
        _insisted(lambda: self._store.resume(*name, by="operator"))
        self.paused.append(Paused(name=name, asked=asked, told=told, resume_asked=again, resume_told=time.time()))

    def trigger(self, name: Name, key: str) -> None:
        """Run it once by hand."""
        now = datetime.now(UTC).replace(microsecond=0)
        run = ManualRun(app=name[0], schedule=name[1], key=key, asked_at=now, by="operator")
        _, message = _insisted(lambda: self._store.trigger(run))
        if message:
            self.triggered.append((name, message))


def _insisted(ask: Callable[[], _T]) -> _T:
    """Ask until there is an answer: a broker that has just been started may not be ready."""
    deadline, pause = time.monotonic() + _ASK_S, threading.Event()
    while True:
        try:
            return ask()
        except BrokerError:
            if time.monotonic() > deadline:
                raise
        pause.wait(0.1)
