"""Schedules that get a new name around the time at which they are due: nothing is lost, and nothing runs twice."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.trial import HOUR, MINUTE, RAN, Rule, at, judged

if TYPE_CHECKING:
    from datetime import datetime

    from conftest import MakeTrial
    from support.trial import End, Trial

BEGIN = at("2026-02-03T08:00")
DUE = at("2026-02-03T09:30")
CRON = 'cron: "30 * * * *"'
OLD = f"name: tick, {CRON}"
NEW = f"name: tock, {CRON}, moved_from: app/tick"


def ends(trial: Trial, schedule: str) -> dict[datetime, End]:
    """How the firings ended, by the account of the name that it has in the end."""
    return trial.account(Rule(since=BEGIN, until=trial.until, cron="30 * * * *"), schedule=schedule)


@pytest.mark.parametrize("off", [-1, 0, 1], ids=["before", "at", "after"])
def test_a_rename_at_the_due_second(trial_at: MakeTrial, off: int) -> None:
    trial = trial_at(BEGIN)
    trial.begin(OLD)
    trial.rig.advance_to(DUE + timedelta(seconds=off))
    trial.edit(NEW)
    trial.rig.advance_to(DUE + 2 * HOUR)
    assert ends(trial, "tock") == {DUE + hours * HOUR: RAN for hours in range(-1, 3)}
    assert trial.field("moved_to") == "app/tock"
    assert trial.field("moved_from", "tock") == "app/tick"
    assert trial.field("gen", "tock") == "1"
    moved = trial.rig.why("app", "tick", DUE)
    assert (moved.verdict, moved.message) == ("succeeded", trial.rig.why("app", "tock", DUE).message)


def test_a_peer_of_the_old_template_goes_on_beside_a_rename(trial_at: MakeTrial) -> None:
    """Two checkouts, of which one is late: whoever publishes, it is one firing each."""
    trial = trial_at(BEGIN)
    late = trial.tree("late")
    trial.write("name: tick, every: 20s", tree=late)
    trial.begin("name: tick, every: 20s")
    trial.rig.add_worker(apps=late)
    trial.rig.advance(timedelta(seconds=20))
    trial.edit("name: tock, every: 20s, moved_from: app/tick")
    trial.rig.advance(timedelta(seconds=50))
    trial.write("name: tock, every: 20s, moved_from: app/tick", tree=late)
    trial.rig.reconcile()
    trial.rig.advance(timedelta(seconds=41))
    expected = Rule(since=BEGIN, until=trial.until, every=20)
    assert trial.account(expected, schedule="tock") == dict.fromkeys(expected.instants(), RAN)
    assert [fact.reason for fact in trial.rig.told("schedule-behind")] == ["the fleet has it as app/tock"]  # type: ignore[attr-defined]


def test_a_rename_that_is_rolled_back_at_the_due_second(trial_at: MakeTrial) -> None:
    """The files are as they were before, and say nothing of any move."""
    trial = trial_at(BEGIN)
    trial.begin(OLD)
    trial.rig.advance_to(DUE)
    trial.edit(NEW)
    trial.rig.advance_to(DUE + HOUR)
    trial.edit(OLD)
    trial.rig.advance_to(DUE + 2 * HOUR)
    assert ends(trial, "tick") == {DUE + hours * HOUR: RAN for hours in range(-1, 3)}
    assert (trial.field("gen"), trial.field("moved_from"), trial.field("moved_to")) == ("1", "app/tock", None)
    assert trial.field("moved_to", "tock") == "app/tick"


def test_a_fleet_that_starts_on_the_files_of_before_takes_the_old_name_back(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin(OLD)
    trial.edit(NEW)
    trial.rig.advance_to(at("2026-02-03T08:45"))
    trial.rig.stop_worker()
    trial.write(OLD)
    trial.rig.add_worker()
    trial.rig.advance_to(DUE + 2 * HOUR)
    assert ends(trial, "tick") == {DUE + hours * HOUR: RAN for hours in range(-1, 3)}
    assert (trial.field("moved_from"), trial.field("moved_to")) == ("app/tock", None)


def test_an_app_that_is_renamed_keeps_what_was_published_what_waits_and_what_is_paused(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin(
        OLD, 'name: still, cron: "30 * * * *"', 'name: sad, cron: "30 9 * * *", handler: fail.sh, backoff: [50m]'
    )
    trial.rig.pause("app", "still", reason="works")
    trial.rig.advance_to(DUE + MINUTE)
    trial.write(
        f"name: tick, {CRON}, moved_from: app/tick",
        f"name: still, {CRON}, moved_from: app/still",
        'name: sad, cron: "30 9 * * *", handler: fail.sh, backoff: [50m], moved_from: app/sad',
        app="next",
    )
    trial.remove()
    trial.rig.advance_to(DUE + 2 * HOUR)
    records = trial.rig.history("next", "tick")
    expected = Rule(since=BEGIN, until=trial.until, cron="30 * * * *").instants()
    assert judged(expected, records) == dict.fromkeys(expected, RAN)
    assert trial.rig.history("next", "still") == []
    assert trial.rig.client.hget(trial.rig.keys.schedule("next", "still"), "paused_why") == "works"
    assert trial.rig.told("removal-held") == []
    # Its retry was due when the old app was long gone.
    attempts = [fact.attempt for fact in trial.rig.told("run-failed")]  # type: ignore[attr-defined]
    assert attempts[:2] == [1, 2]
