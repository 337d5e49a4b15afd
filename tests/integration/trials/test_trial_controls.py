"""Schedules that are switched off, removed, made again, paused across deploys, and spread by jitter."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.trial import CAUGHT_UP, HOUR, LATE, MINUTE, RAN, End, Rule, Trial, at, passed_over

from relayctl.core.occurrence import occurrence_id
from relayctl.core.timing import jitter_of
from relayctl.errors import Refused

if TYPE_CHECKING:
    from datetime import datetime

    from conftest import MakeTrial

BEGIN = at("2026-02-03T08:00")
HALF = "30 * * * *"
TICK = f'name: tick, cron: "{HALF}"'
OTHER = 'name: other, cron: "0 0 1 1 *"'


def test_switched_off_and_on_again_owes_nothing(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin(TICK)
    trial.rig.advance_to(at("2026-02-03T09:10"))
    trial.edit(TICK + ", enabled: false")
    trial.rig.advance_to(at("2026-02-03T11:10"))
    assert trial.unexpected(at("2026-02-03T10:30"))
    trial.edit(TICK)
    trial.rig.advance_to(at("2026-02-03T12:10"))
    ends = trial.account(
        Rule(since=BEGIN, until=at("2026-02-03T09:10"), cron=HALF),
        Rule(since=at("2026-02-03T11:10"), until=trial.until, cron=HALF),
    )
    assert ends == {at("2026-02-03T08:30"): RAN, at("2026-02-03T11:30"): RAN}
    assert trial.field("gen") == "3"


@pytest.mark.parametrize("cron", [HALF, "45 * * * *"], ids=["same", "another"])
def test_removed_and_made_again(trial_at: MakeTrial, cron: str) -> None:
    trial = trial_at(BEGIN)
    trial.begin(TICK, OTHER)
    trial.rig.advance_to(at("2026-02-03T09:10"))
    trial.edit(OTHER)
    trial.rig.advance(timedelta(seconds=3))
    assert trial.field("hash") == "tombstone"
    trial.rig.advance_to(at("2026-02-03T11:10"))
    assert trial.unexpected(at("2026-02-03T10:30"))
    trial.edit(f'name: tick, cron: "{cron}"', OTHER)
    trial.rig.advance_to(at("2026-02-03T12:10"))
    ends = trial.account(
        Rule(since=BEGIN, until=at("2026-02-03T09:10"), cron=HALF),
        Rule(since=at("2026-02-03T11:10"), until=trial.until, cron=cron),
    )
    assert len(ends) == 2 and set(ends.values()) == {RAN}


def test_removed_by_a_deploy_while_the_worker_was_down(trial_at: MakeTrial) -> None:
    """Nobody holds it any more; half a minute later it is taken out, and what it owed until then has a verdict."""
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "* * * * *"', OTHER)
    trial.rig.advance(timedelta(seconds=90))
    trial.rig.stop_worker()
    trial.rig.clock.advance(5 * MINUTE)
    trial.write(OTHER)
    trial.rig.add_worker()
    trial.rig.advance(MINUTE)
    assert trial.field("hash") == "tombstone"
    cut = began(trial)
    assert cut < BEGIN + 8 * MINUTE
    # Nobody can run them any more, and nobody else can know that: they stay an alarm for as long as any lost firing.
    trial.rig.advance(2 * MINUTE)
    assert trial.rig.why("app", "tick", BEGIN + 3 * MINUTE).state.value == "overdue"
    assert trial.rig.told("overdue")
    trial.rig.stall(timedelta(days=7))
    trial.rig.advance(MINUTE)
    ends = trial.account(Rule(since=BEGIN, until=cut, cron="* * * * *"))
    assert list(ends.values()) == [RAN, RAN, *[End("missed", "unpublished for 7 days")] * (len(ends) - 2)]


def test_an_app_removed_and_put_back(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.write(OTHER, app="another")
    trial.begin(TICK)
    trial.rig.advance_to(at("2026-02-03T09:10"))
    trial.remove()
    cut = began(trial)
    assert trial.field("hash") == "tombstone"
    assert timedelta(seconds=2) <= cut - at("2026-02-03T09:10") <= timedelta(seconds=3)
    trial.rig.advance_to(at("2026-02-03T10:10"))
    trial.edit(TICK)
    trial.rig.advance_to(at("2026-02-03T11:10"))
    ends = trial.account(
        Rule(since=BEGIN, until=cut, cron=HALF), Rule(since=at("2026-02-03T10:10"), until=trial.until, cron=HALF)
    )
    assert list(ends.values()) == [RAN, RAN]


def test_a_pause_across_a_deploy(trial_at: MakeTrial) -> None:
    """It holds for whatever the schedule becomes, through a restart; its end owes nothing."""
    trial = trial_at(BEGIN)
    trial.begin(TICK)
    trial.rig.advance_to(at("2026-02-03T09:00"))
    trial.rig.pause("app", "tick", reason="maintenance")
    trial.rig.advance_to(at("2026-02-03T09:40"))
    trial.edit('name: tick, cron: "*/20 * * * *"')
    trial.rig.advance_to(at("2026-02-03T10:05"))
    trial.rig.restart_worker()
    trial.rig.advance_to(at("2026-02-03T11:10"))
    assert trial.rig.why("app", "tick", at("2026-02-03T10:20")).state.value == "paused"
    trial.rig.resume("app", "tick")
    trial.rig.advance_to(at("2026-02-03T11:50"))
    ends = trial.account(
        Rule(since=BEGIN, until=at("2026-02-03T09:40"), cron=HALF),
        Rule(since=at("2026-02-03T09:40"), until=trial.until, cron="*/20 * * * *"),
    )
    told = [end.verdict for end in ends.values()]
    assert told == ["succeeded", *["paused"] * 6, "succeeded", "succeeded"]
    assert trial.rig.told("overdue") == []


def test_a_pause_of_what_is_disabled_meanwhile_can_be_ended(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin(TICK)
    trial.rig.pause("app", "tick")
    trial.rig.advance_to(at("2026-02-03T09:40"))
    trial.edit(TICK + ", enabled: false")
    trial.rig.advance(HOUR)
    trial.rig.resume("app", "tick")
    ends = trial.account(Rule(since=BEGIN, until=at("2026-02-03T09:40"), cron=HALF))
    assert [end.verdict for end in ends.values()] == ["paused", "paused"]
    with pytest.raises(Refused, match="disabled"):
        trial.rig.resume("app", "tick")


def test_a_pause_that_ends_by_itself(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin(TICK)
    trial.rig.advance_to(at("2026-02-03T09:00"))
    trial.rig.pause("app", "tick", until=at("2026-02-03T10:30"))
    trial.rig.advance_to(at("2026-02-03T11:00"))
    ends = trial.account(Rule(since=BEGIN, until=trial.until, cron=HALF))
    assert [end.verdict for end in ends.values()] == ["succeeded", "paused", "succeeded"]
    assert trial.field("paused") is None


SECOND = timedelta(seconds=1)
SPREAD = 25 * SECOND


def spread_of(instant: datetime) -> timedelta:
    return jitter_of(occurrence_id("app", "tick", instant), SPREAD)


def check_starts(trial: Trial, *instants: datetime) -> None:
    """These ran when they were due, which is their instant and their spread."""
    runs = {record.scheduled_at: record for record in trial.rig.history("app", "tick") if record.is_run}
    for instant in instants:
        started = runs[instant].started_at
        assert started is not None
        assert timedelta(seconds=-0.1) < started - (instant + spread_of(instant)) < timedelta(seconds=1), instant


def test_jitter_moves_when_a_firing_is_due_and_not_what_it_is(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "* * * * *", jitter: 25s')
    trial.rig.advance(timedelta(minutes=3, seconds=30))
    ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="* * * * *"))
    assert list(ends.values()) == [RAN] * 4
    assert len({spread_of(instant) for instant in ends}) == 4
    check_starts(trial, *ends)


def test_catch_up_waits_for_the_spread_of_what_it_takes(trial_at: MakeTrial) -> None:
    """One whose spread is not over is not missed: the latest of the gap is the one before it, and both run."""
    latest = next(
        instant for instant in (BEGIN + MINUTE * number for number in range(8, 60)) if spread_of(instant) > 12 * SECOND
    )
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "* * * * *", jitter: 25s')
    trial.rig.advance(timedelta(seconds=30))
    trial.rig.stall(latest + 5 * SECOND - trial.now)
    assert trial.rig.why("app", "tick", latest).state.value == "due"
    trial.rig.advance(25 * SECOND)
    ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="* * * * *"))
    assert list(ends.values()) == [RAN, *[passed_over("latest")] * (len(ends) - 3), CAUGHT_UP, RAN]
    check_starts(trial, latest)
    assert trial.rig.told("overdue") == []


@pytest.mark.parametrize("policy", ["latest", "none"])
def test_a_spread_longer_than_a_minute_is_no_gap(trial_at: MakeTrial, policy: str) -> None:
    trial = trial_at(BEGIN)
    trial.begin(f'name: tick, cron: "{HALF}", jitter: 25m, catch_up: {policy}')
    trial.rig.advance(4 * HOUR)
    assert list(trial.account(Rule(since=BEGIN, until=trial.until, cron=HALF)).values()) == [RAN] * 4
    assert trial.rig.told("overdue") == []


def test_lateness_counts_from_when_a_spread_firing_was_due(trial_at: MakeTrial) -> None:
    wide = timedelta(minutes=25)
    due = at("2026-02-03T08:30") + jitter_of(occurrence_id("app", "tick", at("2026-02-03T08:30")), wide)
    trial = trial_at(BEGIN)
    trial.begin(f'name: tick, cron: "{HALF}", jitter: 25m, catch_up: none')
    trial.rig.advance_to(due - SECOND)
    trial.rig.stall(40 * SECOND)
    trial.rig.advance_to(at("2026-02-03T09:29"))
    trial.rig.stall(40 * MINUTE)
    ends = trial.account(Rule(since=BEGIN, until=at("2026-02-03T10:00"), cron=HALF))
    assert list(ends.values()) == [LATE, passed_over("none")]


def began(trial: Trial) -> datetime:
    return BEGIN + timedelta(milliseconds=int(trial.field("from") or 0) - BEGIN.timestamp() * 1000)
