"""How long a stop waits for what, and in which order it lets go."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relayctl.core.facts import Fact
from relayctl.errors import BrokerUnavailable
from relayctl.host.clock import HeldClock
from relayctl.worker.drain import _INTAKE, Drain

LIMIT = timedelta(seconds=25)


class WaitingClock(HeldClock):
    """Time passes where somebody waits, and only there."""

    def wait(self, _event: threading.Event, timeout: float) -> bool:
        self.advance(timedelta(seconds=timeout))
        return False


class Parts:
    """Stands where a worker's parts stand, and notes what is asked of them. A run of it ends when `ends_at` says."""

    def __init__(self, *, ends_at: float = 0.0, records_at: float = 0.0, is_broken: bool = False) -> None:
        self.clock = WaitingClock(datetime.now(UTC))
        self.began = self.clock.monotonic()
        self.ends_at, self.records_at = ends_at, records_at
        self.is_broken = is_broken
        self.acts: list[str] = []
        self.facts: list[Fact] = []
        self.ended, self.interrupted = 3, 1
        self.guests = self

    def after_s(self) -> float:
        return round(self.clock.monotonic() - self.began, 1)

    def __getattr__(self, name: str) -> Any:
        def act(*args: Any) -> None:
            self.acts.append(" ".join([name, *(str(each) for each in args)]))
            if name == "leave" and "gone" in args:
                raise BrokerUnavailable("it is away")

        return act

    def running(self) -> list[str]:
        return ["run"] if self.is_busy() else []

    def in_hand(self) -> int:
        return 0

    def count(self) -> int:
        return 0

    def is_busy(self) -> bool:
        return self.after_s() < self.ends_at and not any("interrupt_all" in each for each in self.acts)

    def is_settled(self) -> bool:
        return not self.is_busy() and self.after_s() >= self.records_at

    def is_alive(self) -> bool:
        return True

    def drain(self, *, hurry: bool = False, worker: str = "w1") -> None:
        parts: Any = self
        Drain(
            worker=worker,
            loops=parts,
            supervisor=parts,
            claimer=parts,
            executor=parts,
            services=parts,
            rescue=parts,
            fleet=parts,
            limit=LIMIT,
            clock=self.clock,
            emit=self.facts.append,
        ).run("SIGTERM", lambda: hurry, lambda: self.acts.append("connections"))


def test_the_order_of_a_stop_in_which_all_ends_by_itself() -> None:
    parts = Parts(ends_at=4)
    parts.drain()
    assert parts.after_s() == pytest.approx(4, abs=0.1)
    assert parts.acts == [
        "stop_claiming",
        "close",  # guests
        "end " + " ".join(_INTAKE),
        "close",  # the outbox, with its last checkpoint
        "leave w1",
        "close",  # the executor
        "join",
        "end services",
        "close",
        "end claimer",
        "connections",
    ]
    begun, stopped = parts.facts
    assert (begun.event, begun.running, begun.limit) == ("draining", 1, LIMIT)  # type: ignore[attr-defined]
    assert (stopped.event, stopped.finished, stopped.interrupted) == ("stopped", 3, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("hurry", "after_s"), [(False, 25), (True, 0)])
def test_what_does_not_end_is_interrupted_at_the_limit_or_at_once(hurry: bool, after_s: float) -> None:
    parts = Parts(ends_at=1000)
    parts.drain(hurry=hurry)
    assert "interrupt_all the worker is stopping" in parts.acts
    assert parts.after_s() == pytest.approx(after_s, abs=0.2)


def test_for_a_broker_that_is_away_it_waits_ten_seconds_once_nothing_runs_any_more() -> None:
    parts = Parts(ends_at=8, records_at=1000, is_broken=True)
    parts.drain()
    assert parts.after_s() == pytest.approx(18, abs=0.2)
    assert not any(act.startswith("leave") for act in parts.acts), "it would wait for the broker too"


def test_a_worker_whose_farewell_fails_stops_all_the_same() -> None:
    parts = Parts()
    parts.drain(worker="gone")
    assert parts.facts[-1].event == "stopped"
