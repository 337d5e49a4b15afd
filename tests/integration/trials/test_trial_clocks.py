"""Clocks that step, on a worker's machine and at the broker, and zones whose clocks change while a worker runs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.trial import CAUGHT_UP, HOUR, MINUTE, RAN, Rule, at, passed_over, seconds

from relayctl.core.cron import Cron
from relayctl.host.clock import HeldClock

if TYPE_CHECKING:
    from datetime import datetime

    from conftest import MakeTrial

BEGIN = at("2026-02-03T08:00")
TEN = 'name: tick, cron: "*/10 * * * *"'


def test_a_machine_whose_wall_clock_is_set_back_and_forward(trial_at: MakeTrial) -> None:
    """What is due is the broker's business; the machine's wall clock changes nothing."""
    trial = trial_at(BEGIN)
    machine = HeldClock(BEGIN + 3 * HOUR)
    trial.write(TEN)
    trial.rig.add_worker(clock=machine)
    for step in (-HOUR, HOUR, HOUR, -2 * HOUR):
        trial.rig.advance(11 * MINUTE)
        machine.step(step)
        trial.rig.run_until_idle()
    trial.rig.advance(11 * MINUTE)
    ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="*/10 * * * *"))
    assert list(ends.values()) == [RAN] * 6
    steps = [fact.by for fact in trial.rig.told("clock-stepped")]  # type: ignore[attr-defined]
    # The first reading puts the wrong clock right; from then on the monotonic clock was right all along.
    assert [round(by / HOUR) for by in steps] == [-3]


def test_a_broker_whose_time_steps_back(trial_at: MakeTrial) -> None:
    """The hour that comes again has run; nothing of it runs again, and then life goes on."""
    trial = trial_at(BEGIN)
    machine = HeldClock(BEGIN)
    trial.write(TEN)
    trial.rig.add_worker(clock=machine)
    trial.rig.advance(65 * MINUTE)
    trial.rig.clock.step(-HOUR)
    trial.rig.run_until_idle()
    trial.rig.advance(30 * MINUTE)
    assert len(trial.rig.history("app", "tick")) == 7
    trial.rig.restart_worker()
    trial.rig.advance(60 * MINUTE)
    ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="*/10 * * * *"))
    assert list(ends.values()) == [RAN] * 10
    assert trial.rig.told("overdue") == trial.rig.told("missed") == []


def test_a_broker_whose_time_steps_forward_and_back(trial_at: MakeTrial) -> None:
    """The hour that was skipped is a gap; the way back finds it dealt with."""
    trial = trial_at(BEGIN)
    machine = HeldClock(BEGIN)
    trial.write(TEN)
    trial.rig.add_worker(clock=machine)
    trial.rig.advance(5 * MINUTE)
    trial.rig.clock.step(HOUR)
    trial.rig.advance(10 * MINUTE)
    assert trial.now == at("2026-02-03T09:15")
    trial.rig.clock.step(-HOUR)
    trial.rig.advance(80 * MINUTE)
    ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="*/10 * * * *"))
    assert list(ends.values()) == [RAN, *[passed_over("latest")] * 5, CAUGHT_UP, RAN, RAN, RAN]
    assert trial.rig.told("overdue") == []


def test_an_edit_while_the_broker_repeats_an_hour(trial_at: MakeTrial) -> None:
    """Definitions follow one another in time, so that no instant has two; none fires twice for the clock's sake."""
    trial = trial_at(BEGIN)
    trial.begin(TEN)
    trial.rig.advance(65 * MINUTE)
    trial.rig.clock.step(-HOUR)
    trial.rig.run_until_idle()
    trial.edit('name: tick, cron: "*/15 * * * *"')
    begin = int(trial.field("from") or 0) / 1000
    trial.rig.advance(2 * HOUR)
    cut = BEGIN + timedelta(seconds=begin - BEGIN.timestamp())
    assert BEGIN + HOUR < cut < BEGIN + HOUR + MINUTE
    ends = trial.account(
        Rule(since=BEGIN, until=cut, cron="*/10 * * * *"), Rule(since=cut, until=trial.until, cron="*/15 * * * *")
    )
    assert set(ends.values()) == {RAN}
    assert trial.rig.told("overdue") == []


def test_an_edit_in_time_that_was_passed_over_before(trial_at: MakeTrial) -> None:
    """The old definition had nothing in the hour that comes again; what the new one has there is owed."""
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "1 9 * * *"')
    trial.rig.advance(65 * MINUTE)
    trial.rig.restart_worker()
    trial.rig.clock.step(-2 * MINUTE)
    trial.edit('name: tick, cron: "30 9 * * *", enabled: false')
    trial.rig.advance(5 * MINUTE)
    trial.rig.clock.step(-4 * MINUTE)
    trial.edit('name: tick, cron: "* * * * *"')
    again = trial.now
    trial.rig.advance(6 * MINUTE)
    ends = trial.account(
        Rule(since=BEGIN, until=BEGIN + 62 * MINUTE, cron="1 9 * * *"),
        Rule(since=again, until=trial.until, cron="* * * * *"),
    )
    assert list(ends.values()) == [RAN] * 8
    assert trial.rig.told("overdue") == []


ROME = "Europe/Rome"
GAP, FOLD = at("2026-03-28T23:50"), at("2026-10-24T23:50")
LINES = {"fixed": "30 2 * * *", "hours": "15,45 2,3 * * *", "star": "*/20 * * * *", "every-hour": "30 * * * *"}


@pytest.mark.parametrize("begin", [GAP, FOLD], ids=["gap", "fold"])
def test_a_zone_whose_clocks_change_while_the_worker_runs(trial_at: MakeTrial, begin: datetime) -> None:
    trial = trial_at(begin)
    trial.begin(*(f'name: {name}, cron: "{line}", timezone: {ROME}' for name, line in LINES.items()))
    trial.rig.advance(3 * HOUR)
    for name, line in LINES.items():
        ends = trial.account(Rule(since=begin, until=trial.until, cron=line, zone=ROME), schedule=name)
        assert set(ends.values()) == {RAN}
        own = Cron.parse(line, ROME).between(begin - timedelta(seconds=1), trial.now)
        assert seconds(sorted(ends)) == seconds(own)
    count = {name: len(trial.rig.history("app", name)) for name in LINES}
    if begin is GAP:
        assert count == {"fixed": 1, "hours": 3, "star": 9, "every-hour": 3}
    else:
        assert count == {"fixed": 1, "hours": 4, "star": 9, "every-hour": 3}


def test_catch_up_over_a_change_of_clocks(trial_at: MakeTrial) -> None:
    trial = trial_at(FOLD)
    trial.begin(*(f'name: {name}, cron: "{line}", timezone: {ROME}, catch_up: all' for name, line in LINES.items()))
    trial.rig.stall(3 * HOUR)
    for name, line in LINES.items():
        ends = trial.account(Rule(since=FOLD, until=trial.until, cron=line, zone=ROME), schedule=name)
        assert set(ends.values()) == {CAUGHT_UP}
