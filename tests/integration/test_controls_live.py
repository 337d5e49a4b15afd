"""pause, resume, trigger and the dead letters against real workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.console import Answer
from support.fleet import Fleet

from relayctl.core.occurrence import epoch_seconds, from_epoch, instant_from_text, instant_text

if TYPE_CHECKING:
    from collections.abc import Callable


TICK = "- {name: tick, handler: jobs.run, every: 1s, input: {n: 1}}"
RARE = '- {name: rare, handler: jobs.run, cron: "0 3 29 2 *"}'


def document(answer: Answer) -> Any:
    assert answer.code == 0, answer
    return json.loads(answer.out)


def seconds(text: str) -> int:
    at = instant_from_text(text)
    assert at is not None
    return epoch_seconds(at)


def test_a_pause_holds_across_workers_and_edits_and_leaves_no_backlog(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", TICK)
    first = fleet.start()
    fleet.pass_time(2)
    paused = document(ask("pause", "app/tick", "--reason", "INC-1", "--format", "json"))
    start = seconds(paused["paused_at"])
    assert (paused["was_paused"], paused["until"]) == (False, None)
    fleet.await_instant(start - 1)
    assert "stays paused since" in ask("pause", "app/tick", "--reason", "INC-2").out
    for command in (("plan",), ("inspect", "--format", "json"), ("status",)):
        assert "INC-2" in " ".join(ask(*command).out.split()), command

    # A restart and an edit of something else change nothing.
    assert first.stop() == 0
    fleet.tree.app("app", TICK.replace("jobs.run", "jobs.slow"))
    fleet.start()
    await_fact(lambda: fleet.now() >= start + 4, "time stands still", 10)
    assert max(fleet.published()) == start - 1

    resumed = document(ask("resume", "app/tick", "--format", "json"))
    floor = int(fleet.registry()["floor"])
    assert (resumed["was_paused"], resumed["closed_as_paused"]) == (True, floor - start + 1)
    fleet.await_instant(floor + 2)
    assert min(at for at in fleet.published() if at >= start) > floor
    assert "was not paused" in ask("resume", "app/tick").out


@pytest.mark.slow
def test_a_pause_with_an_end_ends_by_itself(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", TICK)
    worker = fleet.start()
    fleet.pass_time(1)
    end = fleet.now() + 4
    start = seconds(
        document(ask("pause", "app/tick", "--until", instant_text(from_epoch(end)), "--format", "json"))["paused_at"]
    )
    await_fact(lambda: "paused" not in fleet.registry(), "nobody ended the pause", 15)
    assert worker.told("control-used", action="pause")
    fleet.await_instant(end + 2)
    inside_pause = [at for at in fleet.published() if start <= at < end]
    assert inside_pause == []
    assert {end, end + 1} <= fleet.published().keys()
    [record] = [
        fields
        for _, fields in fleet.client.xrange(fleet.keys.history_of_schedule("app", "tick"))
        if fields["verdict"] == "paused"
    ]
    assert int(record["count"]) == end - start


def test_orders_that_cannot_be_followed(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", f"{RARE}\n- {{name: off, handler: jobs.run, every: 1h, enabled: false}}")
    assert ask("pause", "app/rare").code == 2
    fleet.start()
    wrong = ask("pause", "app/rarr")
    assert (wrong.code, 'did you mean "app/rare"?' in wrong.err) == (2, True)
    assert ask("pause", "app").code == 2
    assert ask("trigger", "app/nope").code == 2
    for command in ("pause", "resume", "trigger"):
        refused = ask(command, "app/off")
        assert (refused.code, "disabled by its template" in refused.err) == (7, True)
    past = ask("pause", "app/rare", "--until", "2026-01-01")
    assert (past.code, "which is over" in past.err) == (2, True)
    off = ask("trigger", "app/rare", "--slot", "2027-01-01")
    assert off.code == 7
    assert "the nearest firing is 2028-02-29T03:00:00Z" in off.err
    assert ask("trigger", "app/rare", "--slot", "2024-02-29T03:00:00Z").code == 7, "before its definition"
    assert ask("trigger", "app/rare", "--key", "a b").code == 2
    assert ask("dlq", "show", "1-1").code == 2
    assert ask("dlq", "rm", "rubbish").code == 2


def test_a_run_by_hand_runs_once_per_key_also_while_paused(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", RARE.replace("}", ", input: {n: 1}}"))
    fleet.start()
    ask("pause", "app/rare")
    started = document(ask("trigger", "app/rare", "--key", "k1", "--wait", "--format", "json"))["runs"][0]
    assert (started["id"], started["state"], started["is_new"]) == ("manual:app:rare:k1", "succeeded", True)
    again = document(ask("trigger", "app/rare", "--key", "k1", "--wait", "--format", "json"))["runs"][0]
    assert (again["message"], again["is_new"]) == (started["message"], False)
    fleet.await_idle()
    assert [run["message"] for run in fleet.tree.runs("run")] == [started["message"]]
    assert "paused" in fleet.registry(schedule="rare")
    assert fleet.published(schedule="rare") == {}
    [record] = [fields for _, fields in fleet.client.xrange(fleet.keys.history_of_schedule("app", "rare"))]
    assert (record["kind"], record["verdict"]) == ("manual", "succeeded")
    assert "triggered" in record["marks"]


def test_a_firing_run_by_hand_is_done_when_its_time_comes(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 4s}")
    fleet.start()
    started = document(ask("trigger", "app/tick", "--slot", "next", "--wait", "--format", "json"))["runs"][0]
    at = seconds(started["id"].rpartition("tick:")[2])
    assert started["state"] == "succeeded"
    fleet.await_instant(at + 4)
    fleet.await_idle()
    assert fleet.tree.run_count()[at] == 1
    repeated = document(ask("trigger", "app/tick", "--slot", instant_text(from_epoch(at)), "--format", "json"))["runs"][
        0
    ]
    assert (repeated["message"], repeated["is_new"]) == (started["message"], False)
    latest = document(ask("trigger", "app/tick", "--slot", "latest", "--format", "json"))["runs"][0]
    assert latest["is_new"] is False


def test_a_firing_that_a_pause_covered_can_be_run_all_the_same(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1s}")
    fleet.start()
    start = seconds(document(ask("pause", "app/tick", "--format", "json"))["paused_at"])
    await_fact(lambda: fleet.now() > start + 2, "time stands still", 10)
    ask("resume", "app/tick")
    wanted = instant_text(from_epoch(start + 1))
    run = document(ask("trigger", "app/tick", "--slot", wanted, "--wait", "--format", "json"))["runs"][0]
    assert run["state"] == "succeeded"
    assert fleet.tree.run_count()[start + 1] == 1
    assert start not in fleet.published()


@pytest.mark.slow
def test_overlap_queue_runs_one_at_a_time_whatever_dies(fleet: Fleet) -> None:
    fleet.tree.app(
        "app",
        "- {name: tick, handler: jobs.slow, every: 1s, overlap: queue, retries: 1, backoff: [1s], timeout: 20s}",
        head="concurrency: 4",
        env='TAKES: "2.5"',
    )
    first, _second = fleet.start(), fleet.start()
    await_fact(lambda: fleet.tree.runs("begin"), "nothing runs", 15)
    first.kill()
    await_fact(lambda: len(fleet.tree.runs("end")) >= 3, "the schedule is stuck", 40)
    verdicts = [fields["verdict"] for _, fields in fleet.client.xrange(fleet.keys.history_of_schedule("app", "tick"))]
    assert "coalesced" in verdicts
    running: set[str] = set()
    for line in fleet.tree.runs():
        if line["what"] == "begin":
            running = {pid for pid in running if pid != line["message"]}
            assert not running or line["worker"] != first.pid
            running = {line["message"]}
        else:
            running.discard(line["message"])


def test_dead_letters_are_looked_at_replayed_and_removed(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    rules = "- {handler: jobs.on_bad_event, pattern: {kind: [bad]}, retries: 0}\n- {handler: jobs.on_event, pattern: {kind: [good]}}"
    folder = fleet.tree.app(
        "app", "- {name: tick, handler: jobs.fail, every: 2s, retries: 0}", events=rules, head="concurrency: 4"
    )
    fleet.start()
    fleet.emit(kind="bad", n=1)
    fleet.client.xadd(fleet.keys.events, {"event": "not json"})
    await_fact(lambda: len(fleet.dead_letters()) >= 3, "nothing was given up", 20)
    ask("pause", "app/tick")
    fleet.await_idle()

    found = document(ask("dlq", "ls", "--format", "json"))
    assert (found["total"], found["evicted"]) == (len(found["letters"]), 0)
    [event] = document(ask("dlq", "ls", "--handler", "jobs.on_bad_event", "--format", "json"))["letters"]
    firing = document(ask("dlq", "ls", "--schedule", "app/tick", "--limit", "1", "--format", "json"))["letters"][0]
    [raw] = document(ask("dlq", "ls", "--reason", "not-an-object", "--format", "json"))["letters"]
    assert document(ask("dlq", "ls", "--since", "now+1h", "--format", "json"))["letters"] == []
    shown = document(ask("dlq", "show", event["id"], "--format", "json"))
    assert (json.loads(shown["event"]), shown["attempts"]) == ({"kind": "bad", "n": 1}, 1)
    assert "relayctl dlq replay" in ask("dlq", "show", firing["id"]).out

    refused = ask("dlq", "replay", raw["id"])
    assert (refused.code, "only its beginning was kept" in refused.err) == (7, True)
    failed = ask("dlq", "replay", event["id"], "--wait")
    assert failed.code == 3
    assert len(document(ask("dlq", "ls", "--handler", "jobs.on_bad_event", "--format", "json"))["letters"]) == 1

    # The template as it is now decides: the repaired handler, and a budget of its own.
    code = (folder / "jobs.py").read_text().replace("raise SystemExit(3)", "pass")
    (folder / "jobs.py").write_text(code)

    def succeeds() -> bool:
        return ask("dlq", "replay", event["id"], "--wait").code == 0

    await_fact(succeeds, "the repaired handler does not run", 20)
    assert ask("dlq", "show", event["id"]).code == 2
    good = document(ask("dlq", "replay", firing["id"], "--wait", "--format", "json"))["runs"][0]
    assert good["state"] == "succeeded"
    newest = fleet.client.xrevrange(fleet.keys.history_of_schedule("app", "tick"), count=1)[0][1]
    assert (newest["verdict"], newest["scheduled_at"]) == ("succeeded", firing["scheduled_at"])
    assert "replayed" in newest["marks"]
    assert ask("dlq", "rm", raw["id"]).code == 0
    assert document(ask("dlq", "ls", "--reason", "not-an-object", "--format", "json"))["letters"] == []
    assert document(ask("dlq", "ls", "--format", "json"))["evicted"] == 0
