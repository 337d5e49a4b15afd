"""Fleet time: the offset to the broker's clock, measured through round trips of any length."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relayctl.host.clock import HeldClock
from relayctl.worker.fleettime import FleetTime

START = datetime(2027, 1, 15, 8, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock(START)


def test_a_wrong_wall_clock_is_put_right_and_told(clock: HeldClock) -> None:
    time = FleetTime(clock)
    step = time.learn(START_MS + 90_000, 0.0, 0.0)
    assert step is not None
    assert abs(step - timedelta(seconds=90)) < timedelta(milliseconds=2)
    clock.advance(timedelta(seconds=5))
    assert abs(time.now_ms() - (START_MS + 95_000)) <= 1
    assert time.learn(START_MS + 95_000, 5.0, 5.01) is None


@pytest.mark.parametrize("read_at", [0.0, 5.0, 9.99])
def test_a_stall_during_the_reading_moves_nothing(clock: HeldClock, read_at: float) -> None:
    """The process, or the broker, stood still for ten seconds between question and answer."""
    time = FleetTime(clock)
    time.learn(START_MS, 0.0, 0.001)
    clock.advance(timedelta(seconds=10))
    assert time.learn(START_MS + int(read_at * 1000), 0.0, 10.0) is None
    assert abs(time.now_ms() - (START_MS + 10_000)) <= 2


def test_a_slow_reading_still_bounds_a_clock_that_is_far_off(clock: HeldClock) -> None:
    time = FleetTime(clock)
    clock.advance(timedelta(seconds=1))
    # Read somewhere within this second, so the true offset is an hour, give or take one.
    time.learn(START_MS + 3_600_000, 0.0, 1.0)
    assert START_MS + 3_600_000 <= time.now_ms() <= START_MS + 3_602_000


def test_a_step_of_the_wall_clock_is_noticed_once(clock: HeldClock) -> None:
    time = FleetTime(clock)
    clock.advance(timedelta(seconds=100))
    assert time.wall_stepped() is None
    clock.step(timedelta(hours=-1))
    assert time.wall_stepped() == timedelta(hours=-1)
    assert time.wall_stepped() is None
    assert time.now_ms() == START_MS + 100_000
