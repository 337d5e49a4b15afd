"""The laws of the four questions, at shifts of every zone, against a walk that looks at each minute."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cronwalk import Shift, shifts_of, walk, zone_list

from relayctl.core.cron import Cron

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHARDS = 8


def _near(rng: random.Random, shift: Shift) -> str:
    """An expression that is likely to fire around this shift."""
    edges = [shift.at + shift.before, shift.at + shift.after]
    at = datetime(1970, 1, 1) + timedelta(
        seconds=rng.choice(edges) + rng.choice((-3600, -1800, -60, 0, 60, 1200, 3600))
    )
    early, late = sorted((at.hour, rng.randrange(24)))
    minute = rng.choice(("*", "*/10", "*/7", "0", "1", "0,30", "15-45/5", "59", "0-59/20", "20/15", str(at.minute)))
    hour = rng.choice(("*", "*/2", "*/3,1", str(at.hour), str(at.hour), f"{early}-{late}", "0", "23", "0,1,2,3", "1/1"))
    day = rng.choice(("*", "*", "*", str(at.day), "*/2", "1-15", "*/1"))
    month = rng.choice(("*", "*", str(at.month), f"{at.month}-12"))
    weekday = rng.choice(("*", "*", "*", str((at.isoweekday()) % 7), "1-5", "sat-sun", "*/2"))
    return f"{minute} {hour} {day} {month} {weekday}"


def _check(expression: str, zone: str, low: int, high: int, rng: random.Random, **habit: str | None) -> None:
    cron = Cron.parse(expression, zone, {key: value for key, value in habit.items() if value})
    expected = walk(expression, zone, low, high, **habit)
    note = f"{expression!r} in {zone} from {low} to {high} {habit}"
    begin, end = EPOCH + timedelta(seconds=low - 1), EPOCH + timedelta(seconds=high)
    assert [round((one - EPOCH).total_seconds()) for one in cron.between(begin, end)] == expected, note
    fires = set(expected)
    probes = {rng.randrange(low, high) for _ in range(15)}
    probes |= {one + near for one in expected[:20] for near in (-1, 0, 1)}
    for at in probes:
        if not low <= at < high:
            continue
        before = max((one for one in expected if one <= at), default=None)
        after = min((one for one in expected if one > at), default=None)
        latest, following = cron.latest_at_or_before_s(at), cron.next_after_s(at)
        assert latest == before if before is not None else latest is None or latest < low, (note, at)
        assert following == after if after is not None else following is None or following > high, (note, at)
        assert cron.is_firing_s(at) == (at in fires) == (latest == at), (note, at)
        if following is not None:
            assert cron.latest_at_or_before_s(following) == following, (note, at)
            assert cron.latest_at_or_before_s(following - 1) == latest, (note, at)
        fraction = EPOCH + timedelta(seconds=at, microseconds=1)
        assert not cron.is_firing(fraction), (note, at)
        assert cron.next_after(fraction) == cron.next_after(fraction.replace(microsecond=0)), (note, at)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_laws_hold_at_a_shift_of_every_zone(shard: int) -> None:
    for zone in zone_list()[shard::SHARDS]:
        rng = random.Random(zone)
        shifts = shifts_of(zone) or [Shift(at=1_790_000_000, before=0, after=0)]
        shift = rng.choice(shifts)
        low = shift.at - rng.randrange(3600, 30_000)
        _check(_near(rng, shift), zone, low, low + 70_000, rng)


@settings(max_examples=60, deadline=None)
@given(zone=st.sampled_from(zone_list()), seed=st.integers(0, 1 << 30), data=st.data())
def test_laws_hold_with_every_habit(zone: str, seed: int, data: st.DataObject) -> None:
    shifts = shifts_of(zone) or [Shift(at=1_790_000_000, before=0, after=0)]
    shift = data.draw(st.sampled_from(shifts))
    gap, fold = data.draw(st.sampled_from((None, "skip", "run"))), data.draw(st.sampled_from((None, "first", "both")))
    rng = random.Random(seed)
    low = shift.at - rng.randrange(3600, 40_000)
    _check(_near(rng, shift), zone, low, low + 80_000, rng, gap=gap, fold=fold)


@pytest.mark.parametrize(
    "zone",
    [
        "America/St_Johns",
        "Pacific/Apia",
        "Pacific/Kwajalein",
        "Pacific/Kiritimati",
        "Australia/Lord_Howe",
        "Antarctica/Troll",
        "Antarctica/Casey",
        "Africa/Monrovia",
        "Africa/Casablanca",
        "Asia/Manila",
        "America/Juneau",
        "Europe/Dublin",
        "Asia/Pyongyang",
        "America/Caracas",
        "Africa/Cairo",
    ],
)
def test_laws_hold_at_odd_shifts(zone: str) -> None:
    rng = random.Random(7)
    for shift in rng.sample(shifts_of(zone), min(6, len(shifts_of(zone)))):
        low = shift.at - rng.randrange(3600, 30_000)
        _check(_near(rng, shift), zone, low, low + 100_000 + abs(shift.after - shift.before), rng)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(("0 0 29 2 *", "0 0 31 * *", "30 2 * * 0", "0 12 13 * 5", "59 23 31 12 *", "*/7 3 1-7 */5 *")),
    st.sampled_from(("UTC", "Europe/Rome", "Pacific/Apia", "America/St_Johns", "Etc/GMT-8")),
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), timezones=st.just(UTC)),
)
def test_neighbours_agree_at_any_time(expression: str, zone: str, at: datetime) -> None:
    cron = Cron.parse(expression, zone)
    following, latest = cron.next_after(at), cron.latest_at_or_before(at)
    assert latest is None or latest <= at
    if following is None:
        assert at > datetime(9990, 1, 1, tzinfo=UTC)
        return
    assert at < following <= at + timedelta(days=8 * 366 + 3)
    assert cron.is_firing(following)
    assert cron.latest_at_or_before(following) == following
    assert cron.latest_at_or_before(following - timedelta(microseconds=1)) == latest
    if latest is not None:
        assert cron.next_after(latest) == following


def test_iteration_does_not_depend_on_where_it_began() -> None:
    cron = Cron.parse("*/20 1-3 * * *", "Europe/Rome")
    low, high = datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 27, tzinfo=UTC)
    whole = list(cron.between(low, high))
    for minutes in range(0, 3 * 1440, 37):
        start = low + timedelta(minutes=minutes)
        assert list(cron.between(start, high)) == [one for one in whole if one > start]
