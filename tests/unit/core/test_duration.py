"""Durations as text."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayctl.core.duration import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20s", 20),
        ("20000ms", 20),
        ("1h30m", 5400),
        ("90m", 5400),
        ("1d", 86_400),
        ("0s", 0),
        ("1d2h3m4s5ms", 93_784.005),
    ],
)
def test_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("20 sec", "20s"),
        ("20S", "20s"),
        ("1.5h", "90m"),
        ("30m1h", "90m"),
        ("2 weeks", "14d"),
        ("PT5M", "5m"),
        ("1 hour and 30 minutes", "90m"),
        (" 5m", "5m"),
    ],
)
def test_a_near_miss_names_the_spelling(text: str, meant: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert caught.value.suggestion == meant
    assert meant in str(caught.value.help)


@pytest.mark.parametrize(
    "text", ["", "s", "20", "-5s", "5x", "٥s", "5m\n", "1m1m", "9" * 70 + "s", "9999999999d", "1e3s"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert caught.value.help


def test_spelling_is_the_shortest() -> None:
    spelled = {5400: "90m", 86_400: "1d", 60: "1m", 20: "20s", 0: "0s", 93_600: "26h", 0.5: "500ms", 3661: "3661s"}
    assert {seconds: format_duration(timedelta(seconds=seconds)) for seconds in spelled} == spelled


@given(st.integers(0, 10**12))
def test_spelling_reads_back(milliseconds: int) -> None:
    value = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(value)) == value


@given(st.text(max_size=70))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        assert parse_duration(text) >= timedelta(0)
    except DurationError as error:
        assert error.help
