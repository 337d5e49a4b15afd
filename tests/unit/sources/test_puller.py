"""When a source is asked: the interval, demands, growing pauses, and an end at any moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from relayctl.sources.puller import SPREAD, Puller


class Line:
    """A clock on which waiting takes no time, and what is done at which moment of it."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.stop = threading.Event()
        self.pulls: list[float] = []
        self.answers: list[bool] = []
        self.on_pull: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.at

    def wait(self, event: threading.Event, timeout: float) -> bool:
        if not event.is_set():
            self.at += timeout
        return event.is_set()

    def pull(self, _is_over: Callable[[], bool]) -> bool:
        self.pulls.append(self.at)
        self.on_pull()
        answer = self.answers.pop(0) if self.answers else True
        if len(self.pulls) == self.most:
            self.stop.set()
        return answer

    def gaps(self, most: int, interval: float | None, *, is_fresh: bool = False) -> list[float]:
        self.most = most
        first_s = None if is_fresh else 0.0
        span = None if interval is None else timedelta(seconds=interval)
        self.puller = Puller(self.pull, interval=span, clock=self, first_s=first_s)  # type: ignore[arg-type]
        self.puller.run(self.stop)
        return [later - earlier for earlier, later in zip(self.pulls, self.pulls[1:], strict=False)]


def test_it_asks_at_once_and_then_on_its_interval_with_some_spread() -> None:
    line = Line()
    gaps = line.gaps(40, 60.0)
    assert line.pulls[0] == 1000.0
    assert all(60 * (1 - SPREAD) <= gap <= 60 * (1 + SPREAD) for gap in gaps)
    assert max(gaps) - min(gaps) > 1, "a fleet would ask in step"


def test_what_was_asked_a_moment_ago_is_not_asked_again() -> None:
    line = Line()
    line.gaps(1, 60.0, is_fresh=True)
    assert line.pulls[0] >= 1000 + 60 * (1 - SPREAD)


@pytest.mark.parametrize(
    ("interval", "expected"), [(60.0, [5, 10, 20, 40, 80, 160, 300, 300]), (3600.0, [5, 10, 20, 40])]
)
def test_pauses_grow_while_it_fails_and_the_interval_is_back_when_it_does_not(
    interval: float, expected: list[int]
) -> None:
    line = Line()
    line.answers = [False] * len(expected) + [True]
    gaps = line.gaps(len(expected) + 2, interval)
    for gap, wanted in zip(gaps, [*expected, interval], strict=True):
        assert wanted * (1 - SPREAD) <= gap <= wanted * (1 + SPREAD)


def test_demands_that_come_while_it_asks_lead_to_one_more_time() -> None:
    line = Line()

    def demand() -> None:
        if len(line.pulls) == 1:
            for _ in range(5):
                line.puller.demand()

    line.on_pull = demand
    gaps = line.gaps(3, 60.0)
    assert gaps[0] == 1.0, "and it keeps apart from the one before"
    assert gaps[1] > 50


def test_without_an_interval_it_waits_for_a_demand() -> None:
    asked, stop = threading.Event(), threading.Event()

    def pull(_is_over: Callable[[], bool]) -> bool:
        asked.set()
        return True

    from relayctl.host.clock import SystemClock

    puller = Puller(pull, interval=None, clock=SystemClock(), first_s=None)
    thread = threading.Thread(target=puller.run, args=(stop,))
    thread.start()
    assert not asked.wait(0.05)
    puller.demand()
    assert asked.wait(5)
    stop.set()
    puller.wake()
    thread.join(5)
    assert not thread.is_alive()
