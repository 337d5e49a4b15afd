"""Which firings a pass takes: lateness, each catch-up policy, its horizon, and the definitions in force."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support.workbench import T0, cron, every, generation

from relayctl.core.due import DAY_S, MOST_AT_ONCE, Due, Timeline, due_firings
from relayctl.core.model import CatchUp


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def instants(due: Due) -> list[int]:
    return [instant for instant, _ in due.firings]


EVERY_SECOND = Timeline([generation(every(1), T0 - 10 * DAY_S)])
MINUTELY = Timeline([generation(every(60), T0 - 10 * DAY_S)])


def test_the_head_comes_last_though_it_reaches_back_behind_what_it_replaced() -> None:
    """As a restored registry has it: begun anew under one number, then told of the higher one and its beginning."""
    replaced = generation(every(60), T0, T0, gen=1)
    head = generation(every(60), T0 - DAY_S, gen=7)
    timeline = Timeline([head, replaced])
    assert timeline.generations == (replaced, head)
    assert timeline.next_after(T0 - 60) == (T0, head)
    assert timeline.latest_between(T0 - DAY_S, T0 + 59) == (T0, head)
    assert timeline.count(T0 - 120, T0 + 60) == 3


def test_every_instant_of_a_short_gap_is_taken_oldest_first() -> None:
    due = due_firings(EVERY_SECOND, T0, T0 + 3, CatchUp.NONE)
    assert (instants(due), due.cursor, due.is_catch_up, due.passed_over) == (
        [T0 + 1, T0 + 2, T0 + 3],
        T0 + 3,
        False,
        (),
    )


def test_nothing_due_moves_the_cursor_forward_and_never_back() -> None:
    assert due_firings(MINUTELY, T0 + 1, T0 + 30, CatchUp.LATEST) == Due(firings=(), cursor=T0 + 30)
    assert due_firings(MINUTELY, T0 + 30, T0 + 10, CatchUp.LATEST) == Due(firings=(), cursor=T0 + 30)


@pytest.mark.parametrize(("gap", "is_catch_up"), [(60, False), (61, True)])
def test_a_gap_of_a_minute_is_lateness_and_a_longer_one_is_not(gap: int, is_catch_up: bool) -> None:
    # The gap counts from the first firing that is owed.
    due = due_firings(MINUTELY, T0 - 1, T0 + gap, CatchUp.LATEST)
    assert due.is_catch_up is is_catch_up
    assert instants(due) == ([T0 + 60] if is_catch_up else [T0, T0 + 60])


def test_a_pass_takes_a_hundred_at_most_and_the_next_goes_on_there() -> None:
    # Only a fleet whose broker moved could owe so many within a minute; `all` can.
    due = due_firings(EVERY_SECOND, T0, T0 + 400, CatchUp.ALL)
    assert instants(due) == list(range(T0 + 1, T0 + 1 + MOST_AT_ONCE))
    assert due.passed_over == ((T0 + 1 + MOST_AT_ONCE, T0 + 400),)
    assert due.cursor == T0 + 400


@pytest.mark.parametrize(
    ("policy", "taken", "passed_over"),
    [
        (CatchUp.LATEST, [T0 + 300], ((T0 + 60, T0 + 240),)),
        (CatchUp.OLDEST, [T0 + 60], ((T0 + 120, T0 + 300),)),
        (CatchUp.ALL, [T0 + n for n in (60, 120, 180, 240, 300)], ()),
        (CatchUp.NONE, [], ((T0 + 60, T0 + 300),)),
    ],
)
def test_a_long_gap_goes_by_the_policy(
    policy: CatchUp, taken: list[int], passed_over: tuple[tuple[int, int], ...]
) -> None:
    due = due_firings(MINUTELY, T0, T0 + 310, policy)
    assert (instants(due), due.passed_over, due.cursor) == (taken, passed_over, T0 + 310)
    assert due.is_catch_up


NIGHTLY = Timeline([generation(cron("0 3 * * *"), at("2026-01-01"))])


@pytest.mark.parametrize(
    ("now", "taken"),
    [
        ("2026-03-05T02:58:00", ["2026-03-04T03:00:00"]),
        ("2026-03-05T03:00:00", ["2026-03-05T03:00:00"]),
        ("2026-03-05T03:00:01", ["2026-03-05T03:00:01"]),
    ],
)
def test_a_nightly_run_missed_once(now: str, taken: list[str]) -> None:
    due = due_firings(NIGHTLY, at("2026-03-03T03:00:00"), at(now), CatchUp.LATEST)
    assert instants(due) == [at(text) - at(text) % 60 for text in taken]


@pytest.mark.parametrize(("late", "taken"), [(DAY_S, 1), (DAY_S + 1, 0)])
def test_the_edge_of_the_horizon_belongs_to_it(late: int, taken: int) -> None:
    timeline = Timeline([generation(cron("0 0 1 * *"), at("2026-01-15"))])
    missed = at("2026-02-01")
    due = due_firings(timeline, at("2026-01-15"), missed + late, CatchUp.LATEST)
    assert len(due.firings) == taken
    assert due.passed_over == (() if taken else ((missed, missed),))


def test_a_weekly_run_missed_thirty_hours_ago_is_passed_over() -> None:
    timeline = Timeline([generation(cron("0 3 * * 1"), at("2026-01-01"))])
    monday = at("2026-03-02T03:00:00")
    due = due_firings(timeline, monday - 7 * DAY_S, monday + 30 * 3600, CatchUp.LATEST)
    assert (instants(due), due.passed_over) == ([], ((monday, monday),))


def test_the_oldest_within_the_horizon_is_what_oldest_means() -> None:
    timeline = Timeline([generation(cron("0 * * * *"), at("2026-01-01"))])
    now = at("2026-03-05T12:30:00")
    due = due_firings(timeline, now - 50 * 3600, now, CatchUp.OLDEST)
    assert instants(due) == [at("2026-03-04T13:00:00")]
    assert due.passed_over[0] == (at("2026-03-03T11:00:00"), at("2026-03-04T12:00:00"))


def test_a_definition_owes_nothing_from_before_it() -> None:
    noon = at("2026-03-05T12:00:00")
    new = Timeline([generation(cron("@daily"), noon)])
    assert due_firings(new, noon - DAY_S, noon + 60, CatchUp.ALL).firings == ()
    # Moved into the hour that has just passed: the old one had not fired yet, the new one is too late.
    moved = Timeline(
        [
            generation(cron("0 13 * * *"), noon - 5 * DAY_S, noon),
            generation(cron("30 11 * * *"), noon, gen=2),
        ]
    )
    assert due_firings(moved, noon - 3600, noon + 600, CatchUp.ALL).firings == ()
    assert moved.next_after(noon) is not None


def test_each_instant_belongs_to_the_definition_in_force_at_it() -> None:
    timeline = Timeline([generation(every(2), T0 - 100, T0 + 3), generation(every(1), T0 + 3, gen=2)])
    due = due_firings(timeline, T0 - 1, T0 + 5, CatchUp.LATEST)
    assert [(instant - T0, item.gen) for instant, item in due.firings] == [(0, 1), (2, 1), (3, 2), (4, 2), (5, 2)]
    latest = timeline.latest_between(T0 - 10, T0 + 2)
    assert latest is not None
    assert (latest[0], latest[1].gen) == (T0 + 2, 1)
    assert [item.gen for item in timeline.since(T0 + 3).generations] == [2]
    assert [item.gen for item in timeline.since(T0 + 2).generations] == [1, 2]


def test_a_leap_day_is_recovered_on_its_day_and_waiting_for_the_next_is_quick() -> None:
    timeline = Timeline([generation(cron("0 0 29 2 *"), at("2026-01-01"))])
    leap = at("2028-02-29")
    late = due_firings(timeline, leap - 40 * DAY_S, leap + 30, CatchUp.LATEST)
    assert (instants(late), late.is_catch_up) == ([leap], False)
    assert instants(due_firings(timeline, leap - 40 * DAY_S, leap + 36_000, CatchUp.LATEST)) == [leap]
    following = timeline.next_after(at("2097-01-01"))
    assert following is not None
    assert following[0] == at("2104-02-29")


def test_a_tombstone_and_a_disabled_schedule_owe_nothing() -> None:
    disabled = generation(every(1, enabled=False), T0 - 100)
    assert Timeline([disabled]).next_after(T0) is None
    assert due_firings(Timeline([disabled]), T0 - 50, T0, CatchUp.ALL).firings == ()
