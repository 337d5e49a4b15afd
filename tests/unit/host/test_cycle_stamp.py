"""The record of the last time: survives, is torn, lies ahead; what a failure means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayctl.host.clock import HeldClock
from relayctl.host.cycle.stamp import LastRun, Stamp, is_due, remaining

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SPANS = st.timedeltas(min_value=timedelta(days=-3), max_value=timedelta(days=3))
INTERVALS = st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=1))


def test_what_is_recorded_is_read_by_another(tmp_path: Path) -> None:
    clock = HeldClock(NOW)
    first = Stamp(tmp_path / "last-run.json", clock)
    assert first.last() is None
    assert first.record(is_ok=True) == LastRun(at=NOW, is_ok=True, count=1)
    clock.advance(timedelta(seconds=1.5))
    first.record(is_ok=False)
    assert Stamp(first.path, clock).last() == LastRun(at=NOW + timedelta(seconds=1.5), is_ok=False, count=2)
    assert [entry.name for entry in tmp_path.iterdir()] == ["last-run.json"]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "7", '{"v": 1}', "\x00" * 50,
        '{"v": 2, "at": "2026-03-01T12:00:00+00:00", "ok": true, "count": 1}',
        '{"v": 1, "at": "2026-03-01T12:00:00", "ok": true, "count": 1}',
        '{"v": 1, "at": "2026-03-01T12:00:00+00:00", "ok": 1, "count": 1}',
        '{"v": 1, "at": "2026-03-01T12:00:00+00:00", "ok": true, "count": "1"}',
        '{"v": 1, "at": 5, "ok": true, "count": 1}',
        "[" * 3000,
    ],
)  # fmt: skip
def test_what_is_torn_or_strange_is_due_and_is_replaced(tmp_path: Path, text: str) -> None:
    stamp = Stamp(tmp_path / "last-run.json", HeldClock(NOW))
    stamp.path.write_text(text)
    assert stamp.last() is None
    assert is_due(stamp.last(), HOUR, NOW)
    assert stamp.record(is_ok=True) == stamp.last()


def test_a_restart_keeps_the_rhythm() -> None:
    last = LastRun(at=NOW, is_ok=True, count=1)
    later = NOW + timedelta(minutes=20)
    assert remaining(last, HOUR, later) == timedelta(minutes=40)
    assert not is_due(last, HOUR, later)
    assert is_due(last, HOUR, NOW + HOUR)


def test_after_a_failure_it_is_due_at_once() -> None:
    failed = LastRun(at=NOW, is_ok=False, count=1)
    assert is_due(failed, HOUR, NOW + timedelta(minutes=20))


def test_what_lies_ahead_holds_nothing_up() -> None:
    ahead = LastRun(at=NOW + timedelta(days=1), is_ok=True, count=1)
    assert is_due(ahead, HOUR, NOW)


@given(SPANS, INTERVALS, st.booleans())
def test_what_remains_is_within_the_interval_and_zero_exactly_when_due(
    age: timedelta, interval: timedelta, is_ok: bool
) -> None:
    last = LastRun(at=NOW - age, is_ok=is_ok, count=1)
    left = remaining(last, interval, NOW)
    assert timedelta(0) <= left <= interval
    assert is_due(last, interval, NOW) == (not left)
    if left:
        assert is_due(last, interval, NOW + left)
        assert not is_due(last, interval, NOW + left - timedelta(microseconds=1))
        assert left == interval - age, "the next time is one interval after the last"
