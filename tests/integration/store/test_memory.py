"""What the account costs in the broker's memory: a simulated week of firings, with closing, auditing and their records."""

from __future__ import annotations

from typing import Any

import pytest
from support.accountload import Load
from support.storedesk import Desk

MOST_PER_FIRING = 200
DAY = 86_400


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("seconds", "days"), [(60, 7), (1, 0.1)], ids=["minutely", "every-second"])
def test_a_firing_costs_less_than_two_hundred_bytes(desk: Desk, seconds: int, days: float) -> None:
    """The week of an `every: 1s` repeats itself after 128 firings, so a part of it shows the whole."""
    load = Load(desk.client, seconds=seconds)
    sizes: list[int] = []
    for part in range(4):
        load.live(int(days * DAY) // 4)
        sizes.append(load.bytes_used())
        assert load.fields <= 128, part
    assert sizes[-1] < 1.2 * sizes[1], "a bounded account does not grow"
    assert load.records <= 1200
    recorded = load.records + load.fields
    assert sizes[-1] / recorded <= MOST_PER_FIRING, (sizes, recorded)
    assert sizes[-1] * 10_000 < 2 * 1024**3, "10,000 such schedules"


def test_an_outage_of_a_week_is_one_field_and_one_record(desk: Desk) -> None:
    load = Load(desk.client, seconds=1)
    load.live(300)
    before, fields = load.bytes_used(), load.fields
    assert load.skip(7 * DAY) == 7 * DAY
    load.audit()
    assert load.fields <= fields + 1
    assert load.bytes_used() - before < 2000


def test_a_week_without_an_audit_is_put_in_order_by_one(desk: Desk) -> None:
    load = Load(desk.client, seconds=60)
    load.write(DAY)
    assert load.fields > 1400
    load.audit()
    assert load.fields <= 128
    found: Any = desk.client.hget(desk.keys.schedule(load.app, load.schedule), "floor")
    assert int(found) > load.begin + DAY - 60 * 200
