"""Interval settings: every row of the table, and laws about any text."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayctl.core.duration import format_duration
from relayctl.core.interval import Interval, Mode, parse_interval

DEFAULT = timedelta(minutes=6)
LOW, HIGH = timedelta(seconds=1), timedelta(days=1)


def parsed(text: str, *, redacted: bool = False) -> Interval:
    return parse_interval(text, default=DEFAULT, low=LOW, high=HIGH, is_redacted=redacted)


@pytest.mark.parametrize(
    ("text", "mode", "every"),
    [
        ("30m", Mode.EVERY, timedelta(minutes=30)),
        (" 1h30m ", Mode.EVERY, timedelta(minutes=90)),
        ("1s", Mode.EVERY, LOW),
        ("1d", Mode.EVERY, HIGH),
        ("", Mode.EVERY, DEFAULT),
        ("  ", Mode.EVERY, DEFAULT),
        ("off", Mode.DEMAND, None),
        ("OFF", Mode.DEMAND, None),
        ("Disabled", Mode.DEMAND, None),
        ("0", Mode.DEMAND, None),
        ("0s", Mode.DEMAND, None),
        ("0h0m", Mode.DEMAND, None),
        ("-0s", Mode.DEMAND, None),
    ],
)
def test_what_is_meant_is_read_without_a_word(text: str, mode: Mode, every: timedelta | None) -> None:
    assert parsed(text) == Interval(mode=mode, every=every)


@pytest.mark.parametrize(
    ("text", "every", "warning"),
    [
        ("-1h", DEFAULT, '"-1h" is negative; every 6m is used'),
        ("banana", DEFAULT, '"banana" is not an interval; every 6m is used'),
        ("1.5h", DEFAULT, '"1.5h" is not an interval (perhaps "90m"?); every 6m is used'),
        ("30", DEFAULT, '"30" is not an interval; every 6m is used'),
        ("o\ufb00", DEFAULT, '"o\ufb00" is not an interval; every 6m is used'),
        ("di\u017fabled", DEFAULT, '"di\u017fabled" is not an interval; every 6m is used'),
        ("40000d", DEFAULT, '"40000d" is not an interval; every 6m is used'),
        ("10ms", LOW, '"10ms" is not within 1s and 1d, 1s is used'),
        ("400d", HIGH, '"400d" is not within 1s and 1d, 1d is used'),
    ],
)
def test_a_slip_is_told_and_something_usable_is_used(text: str, every: timedelta, warning: str) -> None:
    assert parsed(text) == Interval(mode=Mode.EVERY, every=every, warning=warning)


@given(st.text(max_size=80))
def test_any_text_gives_an_interval(text: str) -> None:
    found = parsed(text)
    assert (found.every is not None) == (found.mode is Mode.EVERY)
    assert found.every is None or LOW <= found.every <= HIGH
    assert not found.warning or found.mode is Mode.EVERY
    assert parsed(text, redacted=True).every == found.every


@given(st.text("hunter2!?*", min_size=8, max_size=40))
def test_what_is_redacted_stands_in_no_warning(text: str) -> None:
    found = parsed(text, redacted=True)
    assert found.warning
    assert text not in found.warning


@given(st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(days=36_000)))
def test_what_is_within_the_bounds_is_used_as_it_is(value: timedelta) -> None:
    value -= timedelta(microseconds=value.microseconds % 1000)
    found = parsed(format_duration(value))
    if value == timedelta(0):
        assert found.mode is Mode.DEMAND
        return
    assert found.every == min(max(value, LOW), HIGH)
    assert bool(found.warning) == (found.every != value)
