"""Schedules that are edited around the time at which they are due."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.trial import CAUGHT_UP, DAY, HOUR, MINUTE, RAN, Rule, at, passed_over

if TYPE_CHECKING:
    from conftest import MakeTrial

BEGIN = at("2026-02-03T08:00")
EDIT = at("2026-02-03T09:29")


@pytest.mark.parametrize(
    ("after", "cron", "instants"),
    [
        ('name: tick, cron: "45 9 * * *"', "45 9 * * *", ["2026-02-03T09:45", "2026-02-04T09:45"]),
        ('name: tick, cron: "20 9 * * *"', "20 9 * * *", ["2026-02-04T09:20"]),
        ('name: tick, cron: "29 9 * * *"', "29 9 * * *", ["2026-02-03T09:29", "2026-02-04T09:29"]),
        ('name: tick, cron: "30 9 * * *", handler: other.sh', "", ["2026-02-03T09:30", "2026-02-04T09:30"]),
        ('name: tick, cron: "30 9 * * *", timeout: 9s', "", ["2026-02-03T09:30", "2026-02-04T09:30"]),
        ('name: tick, cron: "30 9 * * *", jitter: 20s', "", ["2026-02-03T09:30", "2026-02-04T09:30"]),
    ],
    ids=["later", "earlier", "this-minute", "handler", "timeout", "jitter"],
)
def test_an_edit_one_minute_before_it_was_due(trial_at: MakeTrial, after: str, cron: str, instants: list[str]) -> None:
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "30 9 * * *"')
    trial.rig.advance_to(EDIT)
    trial.edit(after)
    trial.rig.advance_to(at("2026-02-04T10:00"))

    ends = trial.account(
        Rule(since=BEGIN, until=EDIT, cron="30 9 * * *"),
        Rule(since=EDIT, until=trial.until, cron=cron or "30 9 * * *"),
    )
    assert ends == {at(text): RAN for text in instants}
    assert trial.field("gen") == ("2" if cron else "1")
    if cron:
        assert trial.unexpected(at("2026-02-03T09:30"))
        assert trial.unexpected(at("2026-02-03T09:20"))


def test_the_handler_of_an_edit_runs_the_firings_that_were_not_admitted(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "30 * * * *"')
    trial.rig.advance_to(at("2026-02-03T08:40"))
    trial.edit('name: tick, cron: "30 * * * *", handler: other.sh')
    trial.rig.advance_to(at("2026-02-03T09:40"))
    first, second = trial.rig.history("app", "tick")
    assert (first.handler, second.handler) == ("run.sh", "other.sh")


def test_a_daily_schedule_deployed_at_noon_owes_no_midnight(trial_at: MakeTrial) -> None:
    noon = at("2026-02-03T12:00")
    trial = trial_at(noon)
    trial.begin('name: tick, cron: "@daily"')
    trial.rig.advance(6 * HOUR)
    assert trial.account(Rule(since=noon, until=trial.until, cron="@daily")) == {}
    assert trial.unexpected(at("2026-02-03T00:00"))
    trial.rig.advance(DAY)
    assert trial.account(Rule(since=noon, until=trial.until, cron="@daily")) == {at("2026-02-04T00:00"): RAN}


def test_a_cron_moved_into_the_hour_that_is_over_owes_nothing(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "0 20 * * *"')
    edit = at("2026-02-03T12:30")
    trial.rig.advance_to(edit)
    trial.edit('name: tick, cron: "15 12 * * *"')
    trial.rig.stall(10 * MINUTE)
    trial.rig.advance(2 * HOUR)
    assert trial.account(Rule(since=edit, until=trial.until, cron="15 12 * * *")) == {}
    assert trial.unexpected(at("2026-02-03T12:15"))
    assert trial.unexpected(at("2026-02-03T20:00"))


def test_a_contract_edited_while_a_catch_up_is_owed(trial_at: MakeTrial) -> None:
    """Nothing that decides when has changed, so the catch-up is owed as before; it is done as the files now say."""
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "30 * * * *", input: {of: old}')
    trial.rig.advance_to(at("2026-02-03T08:45"))
    trial.rig.stop_worker()
    trial.rig.clock.set(at("2026-02-03T12:10"))
    trial.write('name: tick, cron: "30 * * * *", input: {of: new}, timeout: 9s, retries: 1, catch_up: oldest')
    trial.rig.add_worker()
    trial.rig.advance(HOUR)

    ends = trial.account(Rule(since=BEGIN, until=trial.until, cron="30 * * * *"))
    assert ends == {
        at("2026-02-03T08:30"): RAN,
        at("2026-02-03T09:30"): CAUGHT_UP,
        at("2026-02-03T10:30"): passed_over("oldest"),
        at("2026-02-03T11:30"): passed_over("oldest"),
        at("2026-02-03T12:30"): RAN,
    }
    assert trial.field("gen") == "1"
    inputs = [line.partition('"of":')[2].strip(' "}') for line in trial.output() if '"of"' in line]
    assert inputs == ["old", "new", "new"]
    assert [record.attempts_allowed for record in trial.rig.history("app", "tick") if record.is_run] == [5, 2, 2]


def test_a_cron_edited_while_a_catch_up_is_owed(trial_at: MakeTrial) -> None:
    """What was due before the edit is owed by the definition that was in force then, and nothing twice."""
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "30 * * * *", catch_up: all')
    trial.rig.advance_to(at("2026-02-03T08:45"))
    trial.rig.stop_worker()
    trial.rig.clock.set(at("2026-02-03T11:10"))
    trial.write('name: tick, cron: "*/20 * * * *", catch_up: all')
    trial.rig.add_worker()
    edit = trial.now
    trial.rig.advance(HOUR)
    ends = trial.account(
        Rule(since=BEGIN, until=edit, cron="30 * * * *"), Rule(since=edit, until=trial.until, cron="*/20 * * * *")
    )
    assert [(instant, end) for instant, end in ends.items() if end != RAN] == [
        (at("2026-02-03T09:30"), CAUGHT_UP),
        (at("2026-02-03T10:30"), CAUGHT_UP),
    ]
    assert len(ends) == 3 + 3
    assert trial.unexpected(at("2026-02-03T11:00"))


def test_a_retry_runs_what_its_admission_pinned(trial_at: MakeTrial) -> None:
    trial = trial_at(BEGIN)
    trial.begin('name: tick, cron: "30 8 * * *", handler: fail.sh, retries: 1')
    trial.rig.advance_to(at("2026-02-03T08:30:30"))
    trial.edit('name: tick, cron: "30 8 * * *", handler: run.sh, retries: 4')
    trial.rig.advance(timedelta(minutes=2))
    [record] = trial.rig.history("app", "tick")
    assert (record.verdict, record.handler, record.attempts) == ("failed", "fail.sh", 2)
    trial.rig.advance(DAY)
    assert [item.verdict for item in trial.rig.history("app", "tick")] == ["failed", "succeeded"]
