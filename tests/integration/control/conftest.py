"""A control socket of one's own, and a fleet of real workers on the broker of this test process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from support.broker import PrivateBroker
from support.fleet import Fleet

from relayctl.errors import UsageError
from relayctl.host.clock import SystemClock
from relayctl.host.socket import ControlSocket
from relayctl.host.state import StateDir


class Desk:
    """What a test's control socket does: `echo` and `boom` are questions, the rest is work; `gate` lets `wait` end."""

    def __init__(self, state: StateDir) -> None:
        self.state = state
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)
        self.done: list[Any] = []
        self._sockets: list[ControlSocket] = []

    def open(self, token: str = "0a1b2c3d", **options: Any) -> ControlSocket:
        made = ControlSocket(
            self.state,
            token,
            SystemClock(),
            questions={"echo": lambda request: {"got": dict(request)}, "boom": self._boom},
            work={"wait": self._wait, "crash": self._boom, "refuse": self._refuse},
            **options,
        )
        made.start()
        self._sockets.append(made)
        return made

    def close(self) -> None:
        self.gate.set()
        for made in self._sockets:
            made.stop()

    def _wait(self, request: Mapping[str, Any], cancel: threading.Event) -> dict[str, Any]:
        self.begun.release()
        while not self.gate.wait(0.01):
            if cancel.is_set() and not request.get("stubborn"):
                break
        self.done.append(request.get("n"))
        return {"n": request.get("n"), "was_cancelled": cancel.is_set()}

    def _boom(self, *_: Any) -> dict[str, Any]:
        raise ZeroDivisionError("payload: hunter2")

    def _refuse(self, *_: Any) -> dict[str, Any]:
        raise UsageError("no such thing", help="name another")


@pytest.fixture
def desk(short_dir: Path) -> Iterator[Desk]:
    made = Desk(StateDir(short_dir / "state").create())
    yield made
    made.close()


@pytest.fixture
def fleet(short_dir: Path, broker: PrivateBroker, redis_client: redis.Redis) -> Iterator[Fleet]:
    made = Fleet(short_dir, broker.target, broker.url)
    yield made
    made.close()


@pytest.fixture
def in_background() -> Iterator[Callable[[Callable[[], Any]], list[Any]]]:
    """Run something on a thread; the list it returns gets the result or the error."""
    threads: list[threading.Thread] = []

    def start(call: Callable[[], Any]) -> list[Any]:
        outcome: list[Any] = []

        def body() -> None:
            try:
                outcome.append(call())
            except Exception as error:
                outcome.append(error)

        threads.append(threading.Thread(target=body, daemon=True))
        threads[-1].start()
        return outcome

    yield start
    for thread in threads:
        thread.join(10)
