"""The clocks: what they read, and that a held one releases the threads that wait on it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from relayctl.host.clock import HeldClock, SystemClock

START = datetime(2026, 3, 1, tzinfo=UTC)


def test_system_clock_is_aware_and_agrees_with_itself():
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert abs(clock.now().timestamp() - clock.time()) < 1
    assert clock.monotonic() <= clock.monotonic()


def test_system_clock_wait_tells_event_from_timeout():
    clock, event = SystemClock(), threading.Event()
    assert clock.wait(event, 0.01) is False
    assert clock.wait(event, -5) is False
    event.set()
    assert clock.wait(event, 1e12) is True


def test_held_clock_stands_still_and_advances_exactly():
    clock = HeldClock(START)
    assert (clock.now(), clock.now(), clock.monotonic()) == (START, START, 0.0)
    clock.advance(timedelta(seconds=90))
    assert clock.now() == START + timedelta(seconds=90)
    assert clock.time() == (START + timedelta(seconds=90)).timestamp()
    assert clock.monotonic() == 90.0


def test_held_clock_keeps_utc_whatever_zone_it_starts_in():
    clock = HeldClock(START.astimezone(timezone(timedelta(hours=5))))
    assert clock.now().utcoffset() == timedelta()


def test_held_clock_refuses_naive_starts_and_going_back():
    with pytest.raises(ValueError, match="aware"):
        HeldClock(datetime(2026, 3, 1))
    with pytest.raises(ValueError, match="only advances"):
        HeldClock(START).advance(timedelta(seconds=-1))


def test_set_lets_time_pass_until_an_instant():
    clock = HeldClock(START)
    clock.set((START + timedelta(hours=2)).astimezone(timezone(timedelta(hours=5))))
    assert (clock.now(), clock.monotonic()) == (START + timedelta(hours=2), 7200.0)
    with pytest.raises(ValueError, match="only advances"):
        clock.set(START)
    with pytest.raises(ValueError, match="aware"):
        clock.set(datetime(2026, 3, 2))


def test_the_instant_is_exact_however_far_from_1970():
    clock = HeldClock(datetime(2099, 1, 1, tzinfo=UTC))
    clock.advance(timedelta(milliseconds=1))
    assert clock.instant_ms() == int(datetime(2099, 1, 1, tzinfo=UTC).timestamp()) * 1000 + 1


def test_step_moves_the_wall_clock_alone():
    clock = HeldClock(START)
    clock.step(timedelta(hours=-1))
    assert (clock.now(), clock.monotonic()) == (START - timedelta(hours=1), 0.0)


def wait_in_thread(clock: HeldClock, event: threading.Event, timeout: float) -> tuple[threading.Thread, list[bool]]:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(clock.wait(event, timeout)))
    thread.start()
    assert clock.await_waiters(1)
    return thread, answers


def test_advance_releases_a_wait_only_when_its_time_has_passed():
    clock = HeldClock(START)
    thread, answers = wait_in_thread(clock, threading.Event(), 60)
    clock.advance(timedelta(seconds=59))
    thread.join(0.05)
    assert thread.is_alive()
    clock.advance(timedelta(seconds=1))
    thread.join(2)
    assert answers == [False]


def test_an_event_ends_a_wait_without_time_passing():
    clock, event = HeldClock(START), threading.Event()
    thread, answers = wait_in_thread(clock, event, 3600)
    event.set()
    thread.join(2)
    assert answers == [True]


def test_await_waiters_says_when_released_loops_wait_again():
    clock, stop, beats = HeldClock(START), threading.Event(), []

    def loop() -> None:
        while not clock.wait(stop, 1):
            beats.append(clock.monotonic())

    thread = threading.Thread(target=loop)
    thread.start()
    for beat in range(1, 4):
        assert clock.await_waiters(1)
        clock.advance(timedelta(seconds=1))
        assert clock.await_waiters(1)
        assert beats == [float(n) for n in range(1, beat + 1)]
    stop.set()
    thread.join(2)
    assert not thread.is_alive()
    assert clock.await_waiters(1, within_s=0.01) is False
