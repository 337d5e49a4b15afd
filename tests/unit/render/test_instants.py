"""Spans and instants in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relayctl.core.zones import zone_named
from relayctl.render.instants import gap_text, local_short, local_text, span_short, span_text, utc_time


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(milliseconds=120), "120 ms"),
        (timedelta(seconds=8.2), "8.2 s"),
        (timedelta(seconds=8), "8 s"),
        (timedelta(minutes=1), "1 m"),
        (timedelta(seconds=59.94), "59.9 s"),
        (timedelta(seconds=59.997), "1 m"),
        (timedelta(seconds=119.997), "2 m"),
        (timedelta(hours=14, minutes=15), "14 h 15 m"),
        (timedelta(days=1, hours=18, minutes=3), "1 d 18 h"),
        (timedelta(days=1, seconds=5), "1 d"),
        (-timedelta(minutes=2), "-2 m"),
        (timedelta(0), "0 ms"),
    ],
)
def test_a_span_in_its_two_largest_units(span: timedelta, text: str) -> None:
    assert span_text(span) == text


def test_the_other_forms() -> None:
    assert span_short(timedelta(hours=14, minutes=15)) == "14h 15m"
    assert span_short(timedelta(milliseconds=120)) == "120ms"
    assert gap_text(timedelta(hours=24)) == "24 h"
    assert gap_text(timedelta(hours=23, minutes=30)) == "23 h 30 m"
    assert gap_text(timedelta(days=7)) == "7 d"


def test_an_instant_in_its_zone() -> None:
    at = datetime(2026, 9, 30, 0, 30, tzinfo=UTC)
    rome, sao_paulo = zone_named("Europe/Rome").info, zone_named("America/Sao_Paulo").info
    assert local_text(at, rome) == "Wed 2026-09-30 02:30 CEST"
    assert local_short(at, rome) == "Wed 30 Sep 02:30 CEST"
    assert local_text(at, sao_paulo) == "Tue 2026-09-29 21:30 UTC-03"
    assert utc_time(at, at.astimezone(rome)) == "00:30Z"
    assert utc_time(at, at.astimezone(sao_paulo)) == "09-30 00:30Z"
