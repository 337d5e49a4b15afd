"""The account of a live fleet: history, why, the events that tell of verdicts, and the audit, with real workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.console import Answer, inside
from support.fleet import Fleet
from support.schema import conforms

from relayctl.core.definition import Spec
from relayctl.core.occurrence import from_epoch, instant_text
from relayctl.store.definitions import Definitions, Mode, Proposal
from relayctl.templates.load import load_app

if TYPE_CHECKING:
    pass

Ask = Callable[..., Answer]


@pytest.fixture
def ask(fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> Answer:
        answer = inside(capsys, *arguments, "--redis", fleet.url)
        assert "Traceback" not in answer.err
        return answer

    return run


def firing(ask: Ask, target: str) -> dict[str, Any]:
    answer = ask("why", target, "--format", "json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    conforms(document, "why")
    [found] = document["firings"]
    return dict(found)


def records(ask: Ask, target: str, *flags: str) -> list[dict[str, Any]]:
    answer = ask("history", target, "--format", "json", *flags)
    conforms(json.loads(answer.out), "history")
    assert answer.code == 0, answer.err
    return list(json.loads(answer.out)["records"])


def in_force_since(fleet: Fleet, at: int, published: int, app: str = "app") -> None:
    loaded = load_app(fleet.tree.root / app, root=fleet.tree.root, now=datetime.now(UTC))
    assert loaded.app is not None
    for schedule in loaded.app.schedules:
        spec = Spec.of(schedule)
        proposal = Proposal(app=app, schedule=schedule.name, mode=Mode.START, hash=spec.hash, spec=spec.text)
        Definitions(fleet.client, fleet.keys).register([proposal], at * 1000)
        fleet.client.hset(fleet.keys.schedule(app, schedule.name), "hw", published)


def test_every_firing_has_its_record_and_its_reason(fleet: Fleet, ask: Ask) -> None:
    fleet.tree.app(
        "app", "- {name: tick, handler: jobs.run, every: 1s}\n- {name: bad, handler: jobs.fail, every: 2s, retries: 0}"
    )
    worker = fleet.start()
    fleet.pass_time(3)
    await_fact(lambda: len(records(ask, "app/tick")) >= 2 and records(ask, "app/bad"), "no firing ends")
    told = records(ask, "app/tick")[-1]
    assert (told["verdict"], told["attempts"], told["attempts_allowed"], told["kind"]) == (
        "succeeded",
        1,
        5,
        "schedule",
    )
    assert told["published_by"] == told["worker"] != ""
    assert told["published_by"] == worker.told("worker-started")[0]["worker"]
    assert told["published_at"] <= told["started_at"] <= told["finished_at"]
    found = firing(ask, f"app/tick@{told['scheduled_at']}")
    assert (found["state"], found["verdict"], found["expected"]) == ("ended", "succeeded", True)
    assert found["published_by"] == told["published_by"]
    [failed, *_] = records(ask, "app/bad", "--failed")
    assert (failed["verdict"], failed["exit"], failed["attempts_allowed"]) == ("failed", "3", 1)
    assert records(ask, "app/tick", "--failed") == []
    assert len(records(ask, "app/tick", "--limit", "1")) == 1
    text = ask("why", f"app/bad@{failed['scheduled_at']}")
    assert "failed in attempt 1 of 1" in text.out
    assert "SCHEDULED" in ask("history", "app/tick").out
    latest = firing(ask, "app/tick@latest")
    assert latest["state"] in {"due", "published", "waiting", "running", "ended"}


def unfinished(ask: Ask, target: str, *flags: str) -> list[dict[str, Any]]:
    answer = ask("history", target, "--format", "json", *flags)
    assert answer.code == 0, answer.err
    conforms(json.loads(answer.out), "history")
    return list(json.loads(answer.out)["unfinished"])


def test_what_has_not_ended_stands_above_the_records(fleet: Fleet, ask: Ask) -> None:
    never = 'cron: "0 3 29 2 *"'
    fleet.tree.app(
        "app",
        f"- {{name: long, handler: jobs.slow, {never}}}\n- {{name: bad, handler: jobs.fail, {never}, retries: 1}}",
        env="TAKES: '30'",
    )
    fleet.start().await_told("worker-started")
    assert ask("trigger", "app/long").code == ask("trigger", "app/bad").code == 0
    await_fact(
        lambda: [run["started_at"] for run in unfinished(ask, "app/long")] not in ([], [None]), "not seen to run"
    )
    [running] = unfinished(ask, "app/long")
    assert (running["state"], running["kind"], running["attempts"]) == ("running", "manual", 1)
    assert (running["attempts_allowed"], running["handler"]) == (5, "jobs.slow")
    assert running["started_at"] >= running["published_at"]
    assert "running   1 of 5" in ask("history", "app/long").out
    assert unfinished(ask, "app/long", "--failed") == []
    await_fact(lambda: [run["state"] for run in unfinished(ask, "app/bad")] == ["retrying"], "not seen to fail")
    [retrying] = unfinished(ask, "app/bad", "--failed")
    assert (retrying["attempts"], retrying["attempts_allowed"], retrying["reason"]) == (1, 2, "exit code 3")
    assert retrying["due_at"] > retrying["started_at"]
    assert "attempt 2 is due in" in ask("history", "app/bad").out
    assert records(ask, "app/bad") == []


def test_what_catch_up_passes_over_is_on_record(fleet: Fleet, ask: Ask) -> None:
    fleet.tree.app(
        "app", "- {name: hourly, handler: jobs.run, every: 1h}\n- {name: tick, handler: jobs.run, every: 1s}"
    )
    now = fleet.now()
    hour = now - now % 3600
    in_force_since(fleet, hour - 40 * 3600, hour - 30 * 3600)
    worker = fleet.start()
    worker.await_told("passed-over", schedule="hourly", count=2)
    worker.await_told("run-ended", schedule="hourly")
    closed = [item for item in records(ask, "app/hourly") if item["verdict"] == "missed"]
    assert sorted((item["reason"], item["count"]) for item in closed) == [("catch_up: latest", 23), ("horizon", 6)]
    found = firing(ask, f"app/hourly@{instant_text(from_epoch(hour - 2 * 3600))}")
    assert (found["state"], found["verdict"], found["reason"]) == ("closed", "missed", "catch_up: latest")
    assert firing(ask, f"app/hourly@{instant_text(from_epoch(hour - 28 * 3600))}")["reason"] == "horizon"
    assert firing(ask, f"app/hourly@{instant_text(from_epoch(hour))}")["marks"] == ["caught_up"]
    assert "not expected: it lies" in ask("why", f"app/hourly@{instant_text(from_epoch(hour + 60))}").out
    assert firing(ask, f"app/hourly@{instant_text(from_epoch(hour + 7 * 3600))}")["state"] == "ahead"


def test_a_day_without_a_firing_says_why(fleet: Fleet, ask: Ask) -> None:
    rome = 'cron: "30 2 * * *", timezone: Europe/Rome, dst: {gap: skip}'
    fleet.tree.app(
        "app",
        f'- {{name: nightly, handler: jobs.run, {rome}}}\n- {{name: weekly, handler: jobs.run, cron: "0 3 * * 0"}}',
    )
    in_force_since(fleet, fleet.now() - 60, fleet.now() - 60)
    assert firing(ask, "app/nightly@2037-03-29")["objections"] == [
        "the clock goes forward on that day: it has no 02:30, and nothing fires in its place"
    ]
    monday = firing(ask, "app/weekly@2037-03-30")
    assert monday["scheduled_at"] == "2037-03-30T03:00:00Z"
    assert monday["objections"] == ["day-of-week is 1, and the schedule wants 0"]


def test_an_event_rule_hears_of_a_failure_and_never_of_its_own(fleet: Fleet, ask: Ask) -> None:
    fleet.tree.app("app", "- {name: bad, handler: jobs.fail, every: 1s, retries: 0}")
    fleet.tree.app(
        "alarm",
        events="- {handler: jobs.on_bad_event, pattern: {source: [relay.verdict], verdict: [failed]}, retries: 0}",
    )
    fleet.start()
    await_fact(lambda: fleet.tree.runs("fail"), "nothing fails")
    await_fact(lambda: len(records_or_none(ask, "alarm/jobs.on_bad_event")) >= 2, "the rule hears nothing", 20)
    fleet.client.delete(fleet.keys.schedule("app", "bad"))
    heard = records(ask, "alarm/jobs.on_bad_event")
    assert {item["verdict"] for item in heard} == {"failed"}
    letters = [json.loads(letter["event"]) for letter in fleet.dead_letters() if letter["app"] == "alarm"]
    for event in letters:
        assert event["source"] == "relay.verdict"
        assert (event["app"], event["schedule"], event["verdict"]) == ("app", "bad", "failed")
        assert event["occurrence_id"].startswith("schedule:app:bad:")


def test_nothing_is_offered_where_no_rule_asks(fleet: Fleet, ask: Ask) -> None:
    fleet.tree.app("app", "- {name: bad, handler: jobs.fail, every: 1s, retries: 0}")
    worker = fleet.start()
    await_fact(lambda: len(records_or_none(ask, "app/bad")) >= 2, "nothing fails")
    assert worker.told("event-unmatched") == []


def records_or_none(ask: Ask, target: str) -> list[Any]:
    answer = ask("history", target, "--format", "json")
    return list(json.loads(answer.out)["records"]) if answer.code == 0 else []


@pytest.mark.parametrize("verb", ["why", "history"])
def test_a_name_that_nothing_has_ends_with_the_nearest(fleet: Fleet, ask: Ask, verb: str) -> None:
    fleet.tree.app("app", "- {name: nightly, handler: jobs.run, every: 1h}")
    in_force_since(fleet, fleet.now() - 60, fleet.now())
    answer = ask(verb, "app/nightli" + ("@latest" if verb == "why" else ""))
    assert (answer.code, answer.out) == (2, "")
    assert 'did you mean "app/nightly"?' in answer.err


def test_a_published_firing_that_nobody_can_run_waits(fleet: Fleet, ask: Ask) -> None:
    fleet.tree.app(
        "app", "- {name: tick, handler: jobs.slow, every: 1s, retries: 3}", env='TAKES: "600"', head="concurrency: 1"
    )
    fleet.start()
    first = fleet.pass_time(2) - 1
    await_fact(lambda: fleet.tree.runs("begin"), "nothing begins")
    states = {firing(ask, f"app/tick@{instant_text(from_epoch(at))}")["state"] for at in range(first - 1, first + 2)}
    assert "running" in {firing(ask, f"app/tick@{fleet.tree.runs('begin')[0]['at']}")["state"], *states}
    assert "waiting" in states
