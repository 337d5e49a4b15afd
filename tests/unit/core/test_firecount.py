"""Counting by whole days gives what counting one by one gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.described import described, sample

from relayctl.core.definition import Firing
from relayctl.core.firecount import count_firings

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spec(schedule: str) -> str:
    fields = described({"billing": sample(schedule)})["billing"].schedules["a"]
    return fields["spec"]


@pytest.mark.parametrize("days", [0.01, 1, 2.3, 45])
@pytest.mark.parametrize("start", ["2026-03-28T22:13:07+00:00", "2026-10-23T00:00:00+00:00"])
@pytest.mark.parametrize(
    "schedule",
    [
        "name: a, cron: '* * * * *', timezone: Europe/Rome",
        "name: a, cron: '30 2 * * *', timezone: Europe/Rome",
        "name: a, cron: '*/7 1-3 * * 0', timezone: Australia/Lord_Howe",
        "name: a, cron: '0 9 1 * 1', timezone: America/New_York",
        "name: a, every: 90m",
    ],
)
def test_it_is_exact(schedule: str, start: str, days: float) -> None:
    text, after = spec(schedule), datetime.fromisoformat(start)
    until = after + timedelta(days=days)
    trigger = Firing.from_spec(text).trigger
    assert trigger is not None
    one_by_one = sum(1 for _ in trigger.between(after, until))
    assert (
        count_firings(text, (after - EPOCH) // timedelta(seconds=1), (until - EPOCH) // timedelta(seconds=1))
        == one_by_one
    )


def test_a_disabled_one_fires_never() -> None:
    assert count_firings(spec("name: a, every: 1s, enabled: false"), 0, 100) == 0
