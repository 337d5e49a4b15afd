"""Gaps: machines that stood still, workers that were down, and what is caught up of it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from support.trial import CAUGHT_UP, HOUR, LATE, MINUTE, RAN, End, Rule, Trial, at, passed_over

from relayctl.host.clock import HeldClock

if TYPE_CHECKING:
    from conftest import MakeTrial

BEGIN = at("2026-02-03T08:00")
CAUGHT = {"latest": [9], "oldest": [0], "all": list(range(10)), "none": []}
"""Which of ten missed firings each policy catches up."""


def begin_minutely(trial: Trial, clock: HeldClock | None = None) -> None:
    """One schedule for each policy, named after it."""
    trial.write(*(f'name: {policy}, cron: "* * * * *", catch_up: {policy}' for policy in CAUGHT))
    trial.rig.add_worker(clock=clock)
    trial.rig.advance(timedelta(minutes=1, seconds=30))


def check_ten_missed(trial: Trial) -> None:
    """The firings of 08:02 to 08:11 are dealt with as each policy says; before and after is everyday life."""
    gap = [BEGIN + MINUTE * number for number in range(2, 12)]
    for policy, places in CAUGHT.items():
        ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="* * * * *"), schedule=policy)
        caught = [gap[place] for place in places]
        assert {instant: ends[instant] for instant in gap} == {
            instant: CAUGHT_UP if instant in caught else passed_over(policy) for instant in gap
        }
        assert {end for instant, end in ends.items() if instant not in gap} == {RAN}
    assert trial.rig.told("overdue") == []


def test_a_worker_that_stood_still_with_its_machine(trial_at: MakeTrial) -> None:
    """Its monotonic clock went on: the process was stopped, or the machine counts sleep."""
    trial = trial_at(BEGIN)
    begin_minutely(trial)
    trial.rig.stall(10 * MINUTE)
    trial.rig.advance(MINUTE)
    check_ten_missed(trial)


def test_a_suspended_machine_whose_monotonic_clock_stood_still(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    machine = HeldClock(BEGIN)
    begin_minutely(trial, machine)
    trial.rig.clock.advance(10 * MINUTE)
    machine.step(10 * MINUTE)
    trial.rig.run_until_idle()
    trial.rig.advance(MINUTE)
    check_ten_missed(trial)
    [stepped] = trial.rig.told("clock-stepped")
    assert abs(stepped.by - 10 * MINUTE) < timedelta(seconds=1)  # type: ignore[attr-defined]


def test_a_gap_of_a_minute_is_lateness(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin("name: tick, every: 10s, catch_up: none")
    trial.rig.advance(timedelta(seconds=5))
    trial.rig.stall(timedelta(seconds=60))
    ends = trial.account(Rule(since=BEGIN, until=trial.until, every=10))
    assert list(ends.values()) == [RAN] + [LATE] * 6
    trial.rig.advance(timedelta(seconds=20))
    trial.rig.stall(timedelta(seconds=70))
    ends = trial.account(Rule(since=BEGIN, until=trial.until, every=10))
    assert list(ends.values())[-7:] == [passed_over("none")] * 7


def test_three_days_of_downtime_of_a_minutely_schedule(trial_at: MakeTrial) -> None:
    """The horizon reaches back 24 hours, its edge included; the rest is a few records, whatever it counts."""
    trial = trial_at(BEGIN)
    trial.begin(*(f'name: {policy}, cron: "* * * * *", catch_up: {policy}' for policy in ("latest", "oldest")))
    trial.rig.advance(timedelta(minutes=1, seconds=30))
    trial.rig.stop_worker()
    told_before = len(trial.rig.facts)
    edge, back = at("2026-02-05T08:10"), at("2026-02-06T08:10")
    trial.rig.clock.set(back)
    assert trial.rig.why("app", "latest", edge).state.value == "overdue"
    began = time.process_time()
    trial.rig.add_worker()
    assert time.process_time() - began < 5, "a long downtime makes a slow start"
    assert len(trial.rig.facts) - told_before < 25
    trial.rig.advance(2 * MINUTE)

    for policy, caught in (("latest", back), ("oldest", edge)):
        ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="* * * * *"), schedule=policy)
        gap = {instant: end for instant, end in ends.items() if at("2026-02-03T08:02") <= instant <= back}
        assert len(gap) == 3 * 1440 + 9
        assert gap.pop(caught) == CAUGHT_UP
        assert {end for instant, end in gap.items() if instant < edge} == {End("missed", "horizon")}
        assert {end for instant, end in gap.items() if instant >= edge} == {passed_over(policy)}
        assert {end for instant, end in ends.items() if instant > back} == {RAN}
        assert len([record for record in trial.rig.history("app", policy) if not record.is_run]) == 2
        assert len(trial.published_set(policy)) < 20
        assert trial.rig.why("app", policy, trial.now + MINUTE).state.value == "ahead"
        assert trial.unexpected(at("2026-02-05T12:00:30"), policy)
        assert trial.unexpected(at("2026-02-03T07:59"), policy)
    assert trial.rig.told("overdue") == trial.rig.told("missed") == []


def test_the_floor_follows_over_a_downtime(trial_at: MakeTrial) -> None:
    """Once there is enough of it, the audit lets go of what is accounted for, and nothing is accounted for twice."""
    trial = trial_at(BEGIN)
    trial.begin("name: tick, every: 1s, catch_up: latest", is_warm=True)
    trial.rig.advance(timedelta(milliseconds=500))
    trial.rig.stop_worker()
    trial.rig.clock.advance(3 * HOUR)
    trial.rig.add_worker()
    for _ in range(3):
        trial.rig.stall(timedelta(seconds=45))
    trial.rig.stall(2 * MINUTE)
    floor = int(trial.field("floor") or 0)
    assert trial.now.timestamp() - 2 * 120 - 60 <= floor <= trial.now.timestamp() - 60
    assert len(trial.published_set()) <= 128
    assert trial.rig.told("overdue") == trial.rig.told("missed") == []
    trial.account(Rule(since=BEGIN, until=trial.until, every=1))


def test_a_horizon_of_its_own(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN, horizon=2 * HOUR)
    trial.begin('name: tick, cron: "0 * * * *", catch_up: all')
    trial.rig.stop_worker()
    trial.rig.clock.set(at("2026-02-03T12:00"))
    trial.rig.add_worker()
    ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="0 * * * *"))
    assert list(ends.values()) == [RAN, End("missed", "horizon"), CAUGHT_UP, CAUGHT_UP, CAUGHT_UP]


def test_all_of_a_gap_is_at_most_a_hundred(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin("name: tick, every: 1s, catch_up: all", is_warm=True)
    trial.rig.advance(timedelta(milliseconds=500))
    trial.rig.stall(timedelta(seconds=105))
    ends = trial.account(Rule(since=BEGIN, until=trial.until, every=1))
    assert list(ends.values()) == [RAN] + [CAUGHT_UP] * 100 + [passed_over("all")] * 5


def test_a_gap_in_which_nothing_was_due_catches_up_nothing(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "0 12 * * *"')
    trial.rig.stall(3 * HOUR)
    assert trial.account(Rule(since=BEGIN, until=trial.until, cron="0 12 * * *")) == {}
    trial.rig.advance(HOUR)
    assert trial.account(Rule(since=BEGIN, until=trial.until, cron="0 12 * * *")) == {at("2026-02-03T12:00"): RAN}
