"""Two workers with different checkouts: who decides, when a newer definition lands, and when an older one may come back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from support.trial import RAN, Rule, Trial, at

if TYPE_CHECKING:
    from datetime import datetime

    from conftest import MakeTrial

BEGIN = at("2026-02-03T08:00")
OLD, NEW = "*/2 * * * *", "1-59/2 * * * *"
WHILE = timedelta(seconds=20)


def write(trial: Trial, name: str, cron: str) -> None:
    trial.write(f'name: tick, cron: "{cron}"', tree=trial.tree(name))


def test_two_static_checkouts_never_alternate(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    write(trial, "a", OLD)
    write(trial, "b", NEW)
    a = trial.rig.add_worker(apps=trial.tree("a"))
    trial.rig.advance(WHILE)
    cut = trial.now
    b = trial.rig.add_worker(apps=trial.tree("b"))
    assert trial.field("gen") == "2"
    for _ in range(2):
        trial.rig.advance(WHILE)
        a = trial.rig.restart_worker(a)
        trial.rig.advance(WHILE)
        b = trial.rig.restart_worker(b)
    trial.rig.advance(timedelta(minutes=2))
    assert trial.field("gen") == "2"
    ends = trial.account(Rule(since=BEGIN, until=cut, cron=OLD), Rule(since=cut, until=trial.until, cron=NEW))
    assert set(ends.values()) == {RAN}
    assert len(ends) == 3


def test_a_rolling_deploy_goes_forward_once(trial_at: MakeTrial) -> None:
    """One of the old ones restarts in the middle of it, and changes nothing."""
    trial = trial_at(BEGIN)
    write(trial, "old", OLD)
    write(trial, "new", NEW)
    first = trial.rig.add_worker(apps=trial.tree("old"))
    second = trial.rig.add_worker(apps=trial.tree("old"))
    trial.rig.advance(WHILE)
    cut = trial.now
    first = trial.rig.restart_worker(first, apps=trial.tree("new"))
    trial.rig.advance(WHILE)
    second = trial.rig.restart_worker(second)
    trial.rig.advance(timedelta(minutes=2))
    assert trial.field("gen") == "2"
    second = trial.rig.restart_worker(second, apps=trial.tree("new"))
    trial.rig.advance(WHILE)
    assert trial.field("gen") == "2"
    ends = trial.account(Rule(since=BEGIN, until=cut, cron=OLD), Rule(since=cut, until=trial.until, cron=NEW))
    assert set(ends.values()) == {RAN}


def test_a_roll_back_by_restart_lands_when_the_newer_ones_are_gone(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    write(trial, "old", OLD)
    write(trial, "new", NEW)
    first = trial.rig.add_worker(apps=trial.tree("old"))
    trial.rig.advance(WHILE)
    forward = trial.now
    second = trial.rig.add_worker(apps=trial.tree("new"))
    first = trial.rig.restart_worker(first, apps=trial.tree("new"))
    trial.rig.advance(WHILE)
    trial.rig.restart_worker(first, apps=trial.tree("old"))
    trial.rig.advance(2 * WHILE)
    assert trial.field("gen") == "2"
    left = trial.now
    trial.rig.restart_worker(second, apps=trial.tree("old"))
    trial.rig.advance(timedelta(seconds=45))
    assert trial.field("gen") == "3"
    back = began(trial)
    assert timedelta(seconds=30) <= back - left <= timedelta(seconds=36)
    trial.rig.advance(timedelta(minutes=3))
    ends = trial.account(
        Rule(since=BEGIN, until=forward, cron=OLD),
        Rule(since=forward, until=back, cron=NEW),
        Rule(since=back, until=trial.until, cron=OLD),
    )
    assert set(ends.values()) == {RAN}


def began(trial: Trial) -> datetime:
    return BEGIN + timedelta(milliseconds=int(trial.field("from") or 0) - BEGIN.timestamp() * 1000)


def test_two_workers_on_one_tree_publish_each_firing_once(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.write("name: tick, every: 1s", is_warm=True)
    trial.rig.add_worker()
    trial.rig.add_worker()
    trial.rig.advance(timedelta(seconds=10))
    first = trial.rig.stop_worker(trial.rig.workers[0])
    trial.rig.advance(timedelta(seconds=5))
    ends = trial.account(Rule(since=BEGIN, until=trial.until, every=1))
    assert {end.verdict for end in ends.values()} == {"succeeded"}
    assert len(trial.rig.told("published")) == len(ends)
    assert first.id not in trial.rig.history("app", "tick")[-1].by
