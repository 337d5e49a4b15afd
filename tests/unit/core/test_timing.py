"""Backoff, jitter and rank."""

from __future__ import annotations

from datetime import timedelta

import pytest

from relayctl.core.timing import RANK_LIMIT, backoff_after, delay_of_rank, jitter_of, rank_of

MS = timedelta(milliseconds=1)
WAITS = [timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=5)]


@pytest.mark.parametrize(("attempt", "minutes"), [(1, 1), (2, 2), (3, 5), (4, 5), (99, 5)])
def test_the_last_wait_repeats(attempt: int, minutes: int) -> None:
    assert backoff_after(attempt, WAITS) == timedelta(minutes=minutes)


def test_no_waits_is_no_wait() -> None:
    assert backoff_after(1, []) == timedelta(0)


@pytest.mark.parametrize("spread", [timedelta(0), -MS, timedelta(microseconds=999)])
def test_no_spread_is_no_jitter(spread: timedelta) -> None:
    assert jitter_of("schedule:a:b:2026-09-29T03:00:00Z", spread) == timedelta(0)


def test_jitter_is_agreed_by_all_workers_of_all_releases() -> None:
    # Fixed values: another function here would split a fleet in the middle of an upgrade.
    spread = timedelta(seconds=30)
    assert jitter_of("schedule:shop:nightly:2026-09-29T03:00:00Z", spread) == 4490 * MS
    assert jitter_of("schedule:shop:nightly:2026-09-30T03:00:00Z", spread) == 14839 * MS


def test_ranks_are_agreed_by_all_workers_of_all_releases() -> None:
    workers = ["w1", "w2", "w3", "w4"]
    assert [rank_of(worker, workers, "shop/nightly") for worker in workers] == [3, 4, 1, 2]


def test_rank_waits() -> None:
    assert [delay_of_rank(rank) // MS for rank in (1, 2, 3, 6, 7, 100)] == [0, 200, 400, 1000, 1000, 1000]
    assert delay_of_rank(10**9) == RANK_LIMIT
