"""The loop: its first time, its rhythm with some spread, pauses of the job's own, demands, an end at any moment."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from relayctl.host.cycle.loop import SPREAD, IsOver, Loop, jittered


class Line:
    """A clock on which waiting takes no time, and when the job ran."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.stop = threading.Event()
        self.ran: list[float] = []
        self.takes_s = 0.0

    def monotonic(self) -> float:
        return self.at

    def wait(self, event: threading.Event, timeout: float) -> bool:
        if not event.is_set():
            self.at += timeout
        return event.is_set()

    def times(
        self,
        most: int,
        interval_s: float | None,
        *,
        first_s: float | None = 0.0,
        pause: Callable[[int], float | None] = lambda _number: None,
        share: Callable[[], float] = lambda: 0.0,
        is_called: Callable[[], bool] | None = None,
    ) -> list[float]:
        def job(_is_over: IsOver) -> float | None:
            self.ran.append(self.at - 1000.0)
            self.at += self.takes_s
            if len(self.ran) == most:
                self.stop.set()
            return pause(len(self.ran))

        interval = None if interval_s is None else timedelta(seconds=interval_s)
        self.loop = Loop(
            job,
            interval=interval,
            clock=self,  # type: ignore[arg-type]
            first_s=first_s,
            share=share,
            **({} if is_called is None else {"is_called": is_called, "look_s": 1.0}),
        )
        self.loop.run(self.stop)
        return self.ran


def test_it_runs_at_the_start_and_on_its_interval() -> None:
    assert Line().times(4, 60.0) == [0, 60, 120, 180]


def test_the_first_time_may_come_later() -> None:
    assert Line().times(3, 60.0, first_s=25.0) == [25, 85, 145]
    assert Line().times(2, 60.0, first_s=None) == [60, 120]


def test_an_interval_counts_from_an_end_and_nothing_is_caught_up() -> None:
    line = Line()
    line.takes_s = 150.0
    assert line.times(3, 60.0) == [0, 210, 420]


def test_the_job_may_wish_for_another_pause() -> None:
    assert Line().times(4, 60.0, pause=lambda number: 5.0 if number == 1 else None) == [0, 5, 65, 125]
    assert Line().times(3, None, pause=lambda _number: 7.0) == [0, 7, 14], "also where it has no interval"


def test_somebody_outside_may_call() -> None:
    calls = iter([False, False, True, *[False] * 200])
    assert Line().times(3, 60.0, is_called=lambda: next(calls)) == [0, 3, 63]


def test_demands_that_come_while_it_runs_lead_to_one_more_time() -> None:
    line = Line()

    def demand(number: int) -> None:
        for _ in range(3 if number == 1 else 0):
            line.loop.demand()

    assert line.times(3, 60.0, pause=demand) == [0, 0, 60]


@given(st.floats(0.001, 1e7), st.floats(-1, 1), st.floats(0, 0.5))
def test_a_spread_stays_within_its_band(seconds: float, share: float, spread: float) -> None:
    found = jittered(seconds, share, spread)
    assert seconds * (1 - spread) * (1 - 1e-9) <= found <= seconds * (1 + spread) * (1 + 1e-9)


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=12), st.floats(1, 10_000))
def test_every_pause_lies_within_the_band_and_follows_its_share(shares: list[float], interval_s: float) -> None:
    left = iter([*shares, 0.0])
    times = Line().times(len(shares) + 1, interval_s, share=lambda: next(left))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    for gap, share in zip(gaps, shares, strict=True):
        assert abs(gap - interval_s * (1 + SPREAD * share)) < 1e-3
