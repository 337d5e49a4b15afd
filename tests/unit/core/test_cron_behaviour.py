"""What people met in other tools around shifts, leap days, ranges and descriptors, held to the one rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from relayctl.core.cron import Cron, CronError, Gap, ShiftKind


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def between(expression: str, zone: str, low: str, high: str) -> list[str]:
    cron = Cron.parse(expression, zone)
    return [one.strftime("%Y-%m-%dT%H:%MZ") for one in cron.between(at(low), at(high))]


def code_of(expression: str, zone: str = "UTC") -> str:
    with pytest.raises(CronError) as caught:
        Cron.parse(expression, zone)
    assert caught.value.help
    return caught.value.code


def test_a_skipped_time_runs_right_after_the_gap_and_on_time_the_day_after() -> None:
    fired = between("30 2 * * *", "America/New_York", "2027-03-13T12:00Z", "2027-03-16T00:00Z")
    assert fired == ["2027-03-14T07:00Z", "2027-03-15T06:30Z"]


def test_stepping_through_the_gap_day_finds_the_same_instants() -> None:
    cron = Cron.parse("30 2 * * *", "America/New_York")
    now, end = at("2027-03-14T00:00Z"), at("2027-03-15T00:00Z")
    while now < end:
        assert cron.next_after(now) == (
            at("2027-03-14T07:00Z") if now < at("2027-03-14T07:00Z") else at("2027-03-15T06:30Z")
        )
        now += timedelta(minutes=7)


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        ("0 12 * * 0", "Europe/Berlin", "2027-03-24T11:00Z", "2027-03-28T10:00Z"),
        ("0 0 * * *", "Europe/Prague", "2027-03-27T23:30Z", "2027-03-28T22:00Z"),
        ("0 8 * * 0", "America/Chicago", "2027-03-14T05:45Z", "2027-03-14T13:00Z"),
        ("0 1 * * 0", "America/Sao_Paulo", "2018-11-02T00:00Z", "2018-11-04T03:00Z"),
    ],
)
def test_no_day_is_lost_beside_a_gap(expression: str, zone: str, start: str, expected: str) -> None:
    assert Cron.parse(expression, zone).next_after(at(start)) == at(expected)


@pytest.mark.parametrize(
    ("zone", "low", "high", "count"),
    [
        ("Europe/London", "2026-10-24T22:59Z", "2026-10-25T23:00Z", 25),
        ("America/New_York", "2027-03-14T04:59Z", "2027-03-15T03:00Z", 23),
    ],
)
def test_an_hourly_job_follows_real_time(zone: str, low: str, high: str, count: int) -> None:
    cron = Cron.parse("0 * * * *", zone)
    fired = [one for one in cron.between(at(low), at(high) + timedelta(hours=1)) if one < at(high) + timedelta(hours=1)]
    steps = {(later - earlier).total_seconds() for earlier, later in pairwise(fired)}
    assert steps == {3600.0}
    local_day = {one for one in fired if at(low) < one < at(high) + timedelta(minutes=59)}
    assert len(local_day) == count


@pytest.mark.parametrize(
    ("zone", "low", "expected"),
    [
        ("America/Santiago", "2026-09-05T12:00Z", ["2026-09-06T04:00Z", "2026-09-07T03:00Z"]),
        ("Asia/Beirut", "2027-03-27T12:00Z", ["2027-03-27T22:00Z", "2027-03-28T21:00Z"]),
        ("Africa/Cairo", "2027-04-29T12:00Z", ["2027-04-29T22:00Z", "2027-04-30T21:00Z"]),
    ],
)
def test_a_gap_at_midnight_keeps_the_date(zone: str, low: str, expected: list[str]) -> None:
    assert between("0 0 * * *", zone, low, (at(expected[-1]) + timedelta(hours=1)).isoformat()) == expected


def test_leap_days() -> None:
    cron = Cron.parse("0 0 29 2 *")
    leap = at("2028-02-29T00:00Z")
    assert cron.latest_at_or_before(at("2028-02-29T00:00:30Z")) == leap
    assert cron.latest_at_or_before(at("2028-02-29T10:00Z")) == leap
    assert cron.next_after(at("2027-01-01T00:00Z")) == leap
    assert cron.next_after(at("2097-01-01T00:00Z")) == at("2104-02-29T00:00Z")
    assert cron.latest_at_or_before(at("2104-02-28T23:59Z")) == at("2096-02-29T00:00Z")


def test_weekday_ranges_to_sunday() -> None:
    weekend = between("45 4 * * 6-7", "UTC", "2026-11-01T12:00Z", "2026-11-15T12:00Z")
    assert weekend == [f"2026-11-{day:02}T04:45Z" for day in (7, 8, 14, 15)]
    assert Cron.parse("45 4 * * sat-sun") == Cron.parse("45 4 * * 6-7")


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        ("0 0 * * fri-mon", "0 0 * * fri-SAT,SUN-mon"),
        ("0 0 * * 7-1/2", "0 0 * * 0"),
        ("0 0 * * 5-1", "0 0 * * 5-6,0-1"),
        ("0 22-2 * * *", "0 22-23,0-2 * * *"),
        ("0 23-0 * * *", "0 23,0 * * *"),
        ("50-10/5 * * * *", "0,5,10,50,55 * * * *"),
        ("0 0 28-3 * *", "0 0 28-31,1-3 * *"),
        ("0 0 1 NOV-FEB *", "0 0 1 NOV-DEC,JAN-FEB *"),
        ("0 8,22-2,12 * * *", "0 8,22-23,0-2,12 * * *"),
    ],
)
def test_a_backward_range_names_the_list(expression: str, written: str) -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse(expression)
    assert caught.value.code == "RLY213"
    assert caught.value.suggestion == {"cron": written}
    assert "-" in expression[slice(*caught.value.span)]
    Cron.parse(written)


def test_five_fields_are_minute_first_and_six_are_refused() -> None:
    assert Cron.parse("5 5 * * *").next_after(at("2026-01-01T00:00Z")) == at("2026-01-01T05:05Z")
    for expression, written in (("0 0 2 * * *", "0 2 * * *"), ("* */15 * * * *", "*/15 * * * *")):
        with pytest.raises(CronError, match="6 fields") as caught:
            Cron.parse(expression)
        assert caught.value.code == "RLY202"
        assert "drop the seconds" in str(caught.value.help)
        assert caught.value.suggestion == {"cron": written}


def test_a_step_of_the_fields_size_is_the_first_value_and_a_wider_one_is_refused() -> None:
    assert Cron.parse("*/60 * * * *").canonical == "0 * * * *"
    assert between("0 0 */14 * *", "UTC", "2026-01-01T00:00Z", "2026-02-01T00:00Z") == [
        "2026-01-15T00:00Z",
        "2026-01-29T00:00Z",
        "2026-02-01T00:00Z",
    ]
    for expression, every in (("*/90 * * * *", "90m"), ("0 */48 * * *", "48h")):
        with pytest.raises(CronError) as caught:
            Cron.parse(expression)
        assert caught.value.code == "RLY209"
        assert caught.value.suggestion == {"every": every}
    for expression in ("*/61 * * * *", "5/61 * * * *", "0 0 1-7/32 * *", "0 0 * */13 *", "0 0 * * */8"):
        assert code_of(expression) == "RLY209"


@pytest.mark.parametrize(
    "expression", ["CRON_TZ=Europe/Rome 0 3 * * *", "TZ=UTC @daily", "tz=utc @daily", "cron_tz=Europe/Rome 0 3 * * *"]
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_zone_prefix_is_refused_in_every_form(expression: str, zone: str) -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse(expression, zone)
    assert caught.value.code == "RLY204"
    assert "timezone" in str(caught.value.help)
    assert caught.value.suggestion is not None
    assert caught.value.suggestion["timezone"] in {"Europe/Rome", "UTC"}


@pytest.mark.parametrize(
    "expression",
    [
        "@daily 03:00",
        "@hourly xyz",
        "@Daily",
        "@every 5m",
        "@every",
        "@reboot",
        "@triggered",
        "@",
        "@ daily",
        "@weekly@daily",
    ],
)
def test_only_the_documented_descriptors_work(expression: str) -> None:
    assert code_of(expression) == "RLY203"


def test_a_descriptor_may_have_blanks_around_it() -> None:
    assert Cron.parse(" @weekly\t") == Cron.parse("@weekly") == Cron.parse("0 0 * * SUN")


def test_weekday_seven_is_sunday_everywhere() -> None:
    sunday = Cron.parse("0 0 * * 0")
    assert Cron.parse("0 0 * * 7") == Cron.parse("0 0 * * 0,7") == Cron.parse("0 0 * * Sun-SUN") == sunday
    assert Cron.parse("0 0 * * WED-7").canonical == Cron.parse("0 0 * * 3-6,0").canonical
    assert code_of("0 0 * * 8") == "RLY201"


def test_never_is_answered_quickly_and_always() -> None:
    for expression in ("0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB */1"):
        cron = Cron.parse(expression, "Europe/Rome")
        assert not cron.can_fire
        assert cron.next_after(at("2026-01-01T00:00Z")) is None
        assert cron.latest_at_or_before(at("2026-01-01T00:00Z")) is None
        assert not cron.is_firing(at("2026-02-28T00:00Z"))
    assert Cron.parse("0 0 30 2 1").can_fire


@pytest.mark.parametrize(
    ("dst", "spring", "autumn"),
    [
        (None, ["01:00"], ["00:30"]),
        ({"gap": "skip"}, [], ["00:30"]),
        ({"fold": "both"}, ["01:00"], ["00:30", "01:30"]),
        ({"gap": "run", "fold": "first"}, ["01:00"], ["00:30"]),
        ({"gap": "skip", "fold": "both"}, [], ["00:30", "01:30"]),
    ],
)
def test_a_written_habit_overrides_the_rule_of_a_fixed_job(dst: dict | None, spring: list, autumn: list) -> None:
    cron = Cron.parse("30 2 * * *", "Europe/Rome", dst)
    for day, expected in (("2024-03-31", spring), ("2024-10-27", autumn)):
        low = at(f"{day}T00:00Z")
        assert [f"{one:%H:%M}" for one in cron.between(low, low + timedelta(hours=23, minutes=59))] == expected


def test_a_written_habit_overrides_the_rule_of_a_star_job() -> None:
    cron = Cron.parse("*/30 2 * * *", "Europe/Rome", {"gap": "run", "fold": "first"})
    assert list(cron.between(at("2024-03-31T00:00Z"), at("2024-03-31T12:00Z"))) == [at("2024-03-31T01:00Z")]
    assert len(list(cron.between(at("2024-10-26T23:59Z"), at("2024-10-27T12:00Z")))) == 2
    assert cron != Cron.parse("*/30 2 * * *", "Europe/Rome")
    assert Cron.parse("30 2 * * *", dst={"gap": "run"}) == Cron.parse("30 2 * * *")


@pytest.mark.parametrize("dst", [{"gap": "maybe"}, {"fold": 1}, {"gaps": "skip"}])
def test_an_unknown_habit_is_refused(dst: dict) -> None:
    with pytest.raises(CronError, match="dst") as caught:
        Cron.parse("0 3 * * *", "UTC", dst)
    assert caught.value.help


def test_the_next_affected_dates_are_told() -> None:
    cron = Cron.parse("0,30 2 * * *", "America/New_York")
    (spring,) = cron.transitions_affecting(at("2027-01-01T00:00Z"), at("2028-01-01T00:00Z"))
    assert (spring.kind, spring.on.isoformat(), spring.shift) == (ShiftKind.GAP, "2027-03-14", timedelta(hours=1))
    assert spring.walls == ("2027-03-14T02:00", "2027-03-14T02:30")
    assert spring.shift_at == at("2027-03-14T07:00Z")
    assert spring.fires_at == (at("2027-03-14T07:00Z"),)


def test_a_repeated_time_tells_which_pass_runs() -> None:
    window = at("2027-06-01T00:00Z"), at("2028-01-01T00:00Z")
    (once,) = Cron.parse("30 1 * * *", "America/New_York").transitions_affecting(*window)
    assert (once.kind, once.walls, once.shift) == (ShiftKind.FOLD, ("2027-11-07T01:30",), timedelta(hours=-1))
    assert once.fires_at == (at("2027-11-07T05:30Z"),)
    assert once.silent_at == (at("2027-11-07T06:30Z"),)
    (both,) = Cron.parse("30 1 * * *", "America/New_York", {"fold": "both"}).transitions_affecting(*window)
    assert both.fires_at == (at("2027-11-07T05:30Z"), at("2027-11-07T06:30Z"))
    assert both.silent_at == ()


def test_unaffected_schedules_tell_nothing() -> None:
    window = at("2027-01-01T00:00Z"), at("2037-01-01T00:00Z")
    assert list(Cron.parse("0 12 * * *", "Europe/Rome").transitions_affecting(*window)) == []
    assert list(Cron.parse("30 2 * * *", "UTC").transitions_affecting(*window)) == []
    assert len(list(Cron.parse("30 2 * * *", "Europe/Rome").transitions_affecting(*window))) == 20
    skipping = Cron.parse("30 2 * * *", "Europe/Rome", {"gap": Gap.SKIP})
    assert next(skipping.transitions_affecting(*window)).fires_at == ()


def test_what_is_told_is_what_fires() -> None:
    for expression in ("30 2 * * *", "*/15 1-3 * * *", "0 3 * * *", "45 1 * * 0"):
        for zone in ("Europe/Rome", "Australia/Lord_Howe", "America/St_Johns", "Africa/Cairo"):
            cron = Cron.parse(expression, zone)
            for effect in cron.transitions_affecting(at("2000-01-01T00:00Z"), at("2012-01-01T00:00Z")):
                assert all(cron.is_firing(one) for one in effect.fires_at)
                assert not any(cron.is_firing(one) for one in effect.silent_at)


def test_naive_instants_are_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        Cron.parse("0 3 * * *").next_after(datetime(2026, 1, 1))
    assert Cron.parse("0 3 * * *").next_after(datetime(2026, 1, 1, tzinfo=UTC)).tzinfo is UTC


def test_a_shift_of_exactly_three_hours_is_still_one_of_the_clock() -> None:
    assert between("30 2 * * *", "Antarctica/Casey", "2009-10-17T00:00Z", "2009-10-18T12:00Z") == ["2009-10-17T18:00Z"]
    assert between("30 23 * * *", "Antarctica/Casey", "2010-03-04T00:00Z", "2010-03-05T12:00Z") == ["2010-03-04T12:30Z"]
    star = between("*/30 23 * * *", "Antarctica/Casey", "2010-03-04T00:00Z", "2010-03-05T12:00Z")
    assert star == ["2010-03-04T12:00Z", "2010-03-04T12:30Z", "2010-03-04T15:00Z", "2010-03-04T15:30Z"]


def test_a_step_from_a_weekday_ends_on_saturday() -> None:
    assert Cron.parse("0 0 * * 5/2") == Cron.parse("0 0 * * 5")
    assert Cron.parse("0 0 * * 1/3") == Cron.parse("0 0 * * 1,4")
    assert Cron.parse("0 0 * * 7/2") == Cron.parse("0 0 * * 0")
