"""Firings of many schedules over a window: nothing lost, in order, herds and free minutes told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from relayctl.core.cron import Cron, Every
from relayctl.core.load import Named, Window, density, firings

AFTER = datetime(2026, 10, 24, tzinfo=UTC)
WINDOW = Window(after=AFTER, until=AFTER + timedelta(days=2))
NAMES = [Named(name=f"a/s{n}", trigger=Cron.parse("0 * * * *", "Europe/Rome")) for n in range(6)]
OTHERS = [Named(name="b/odd", trigger=Cron.parse("7 3 * * *")), Named(name="c/fast", trigger=Every.parse("20m"))]


def test_every_firing_is_listed_once_and_in_order() -> None:
    found = list(firings([*NAMES, *OTHERS], WINDOW))
    assert found == sorted(found)
    assert len(found) == 6 * 48 + 2 + 144 == density([*NAMES, *OTHERS], WINDOW).total


def test_the_window_ends_with_its_last_instant_and_begins_after_its_first() -> None:
    found = [at for at, _ in firings(NAMES[:1], Window(after=AFTER, until=AFTER + timedelta(hours=1)))]
    assert found == [AFTER + timedelta(hours=1)]


@pytest.mark.parametrize("every", ["1s", "7s", "40s", "59s", "1m", "61s"])
@pytest.mark.parametrize("offset_s", [0, 1, 33])
def test_counts_are_those_of_the_listed_firings(every: str, offset_s: int) -> None:
    window = Window(
        after=AFTER + timedelta(seconds=offset_s), until=AFTER + timedelta(minutes=9, seconds=59 - 2 * offset_s % 60)
    )
    schedules = [Named(name="a/s", trigger=Every.parse(every))]
    listed = Counter(at.replace(second=0) for at, _ in firings(schedules, window))
    assert density(schedules, window).by_minute == listed


def test_a_season_of_seconds_is_counted_and_not_walked() -> None:
    window = Window(after=AFTER, until=AFTER + timedelta(days=90))
    assert density([Named(name="a/s", trigger=Every.parse("1s"))], window).total == 90 * 86_400


def test_herds_and_free_minutes() -> None:
    found = density([*NAMES, OTHERS[0]], WINDOW)
    herds = found.herds()
    assert len(herds) == 48 and {count for _, count in herds} == {6}
    assert found.free_minutes() == [minute for minute in range(60) if minute not in {0, 7}]
    assert sum(found.by_hour().values()) == sum(found.by_week_hour().values()) == found.total
    assert density([], WINDOW).total == 0


@pytest.mark.parametrize(
    ("after_s", "until_s", "minutes"),
    [(0, 1200, range(1, 21)), (30, 119, [1]), (5, 55, []), (3300, 3900, [0, 1, 2, 3, 4, 5, 56, 57, 58, 59])],
)
def test_only_minutes_of_the_window_are_free(after_s: int, until_s: int, minutes: Sequence[int]) -> None:
    window = Window(after=AFTER + timedelta(seconds=after_s), until=AFTER + timedelta(seconds=until_s))
    assert density([], window).free_minutes() == list(minutes)
