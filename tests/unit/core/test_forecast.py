"""A year ahead: counts and gaps equal those of a walk over every firing."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from relayctl.core.cron import Cron, Every
from relayctl.core.forecast import forecast, year_later

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
@pytest.mark.parametrize(
    "expression",
    ["*/20 * * * *", "30 2 * * *", "15 */2 * * *", "0 9 1 * 1", "*/7 8-18 * * 1-5", "0 0 29 2 *", "0,59 0,23 * * *"],
)
def test_counts_and_gaps_are_those_of_a_walk(expression: str, zone: str) -> None:
    cron = Cron.parse(expression, zone)
    ahead = forecast(cron, NOW)
    firings = list(cron.between(NOW, ahead.until))
    gaps = Counter(late - early for early, late in pairwise(firings))
    assert ahead.runs == len(firings)
    assert ahead.shortest_gap == min(gaps, default=None)
    assert ahead.usual_gap is None if not gaps else gaps[ahead.usual_gap or timedelta()] == max(gaps.values())
    assert list(ahead.next_at) == (firings[:3] if len(firings) >= 3 else list(ahead.next_at))


def test_the_shortest_gap_of_a_nightly_run_comes_from_the_clock() -> None:
    ahead = forecast(Cron.parse("30 2 * * *", "Europe/Rome"), NOW)
    assert (ahead.usual_gap, ahead.shortest_gap) == (timedelta(hours=24), timedelta(hours=23, minutes=30))
    assert ahead.is_shortest_by_shift
    assert not forecast(Cron.parse("*/7 * * * *", "Europe/Rome"), NOW).is_shortest_by_shift


def test_an_interval_is_counted_from_the_epoch() -> None:
    ahead = forecast(Every.parse("7m"), NOW)
    walked = sum(1 for _ in Every.parse("7m").between(NOW, ahead.until))
    assert (ahead.runs, ahead.usual_gap, ahead.shortest_gap) == (walked, timedelta(minutes=7), timedelta(minutes=7))


def test_what_never_fires_has_no_gap_and_no_next() -> None:
    ahead = forecast(Cron.parse("0 0 30 2 *"), NOW)
    assert (ahead.runs, ahead.usual_gap, ahead.shortest_gap, ahead.next_at) == (0, None, None, ())


def test_a_year_from_a_leap_day_is_the_28th() -> None:
    assert year_later(datetime(2028, 2, 29, tzinfo=UTC)) == datetime(2029, 2, 28, tzinfo=UTC)
