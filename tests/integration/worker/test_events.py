"""External events from the stream to their end: rules, caps, retries, dead letters, removals, edits."""

from __future__ import annotations

import json
import shutil
from datetime import datetime

import pytest
from support.fleet import Fleet, await_true, replace_file


def test_each_matching_rule_of_each_app_runs_once_and_the_rest_is_dropped(fleet: Fleet) -> None:
    tree = fleet.tree
    rule = "- {handler: jobs.on_event, pattern: {kind: [order], total: [{gte: 10}]}}"
    tree.app("first", events=rule + "\n- {handler: jobs.on_slow_event, pattern: {kind: [refund]}}", env="TAKES: '0'")
    tree.app("second", events=rule)
    # Sent before any worker made the group.
    before = fleet.emit(kind="order", total=12, id="before")
    worker = fleet.start()
    fleet.emit(kind="order", total=10, id="both")
    small = fleet.emit(kind="order", total=9, id="small")
    fleet.emit(kind="refund", id="refund")
    fleet.client.xadd(fleet.keys.events, {"event": "{not json"})
    fleet.await_idle()
    runs = sorted((line["id"], line["what"]) for line in tree.runs())
    assert runs == [("before", "event")] * 2 + [("both", "event")] * 2 + [("refund", "begin"), ("refund", "end")]
    assert worker.told("event-unmatched", message=small)
    worker.await_told("run-ended", message=before, count=2)
    [letter] = fleet.dead_letters()
    assert (letter["replayable"], letter["head"]) == ("0", "{not json")


def test_concurrency_is_a_hard_cap_for_an_app(fleet: Fleet) -> None:
    rule = "- {handler: jobs.on_slow_event, pattern: {kind: [go]}, timeout: 30s}"
    fleet.tree.app("app", events=rule, head="concurrency: 2", env="TAKES: '0.3'")
    fleet.start()
    for number in range(8):
        fleet.emit(kind="go", id=str(number))
    fleet.await_idle()
    running = most = 0
    for line in fleet.tree.runs():
        running += 1 if line["what"] == "begin" else -1
        most = max(most, running)
    assert most == 2
    assert len(fleet.tree.runs("end")) == 8


def test_retries_come_when_their_backoff_ends_and_the_last_failure_leaves_one_dead_letter(fleet: Fleet) -> None:
    rule = "- {handler: jobs.on_bad_event, pattern: {kind: [bad]}, retries: 2, backoff: [1s]}"
    fleet.tree.app("app", events=rule)
    workers = [fleet.start(), fleet.start()]
    event = {"kind": "bad", "id": "x", "note": "ünï"}
    message = fleet.emit(**event)
    fleet.await_idle()
    assert [line["attempt"] for line in fleet.tree.runs("fail")] == [1, 2, 3]
    [letter] = fleet.dead_letters()
    assert (letter["reason"], letter["attempts"], letter["replayable"]) == ("exhausted", "3", "1")
    assert json.loads(letter["event"]) == event

    def times(kind: str) -> list[str]:
        return sorted(fact["time"] for worker in workers for fact in worker.told(kind, message=message))

    await_true(lambda: len(times("run-failed")) == 3, "the last of three failures is not told")
    for end, begin in zip(times("run-failed"), times("run-started")[1:], strict=False):
        waited = (datetime.fromisoformat(begin) - datetime.fromisoformat(end)).total_seconds()
        assert 0.8 <= waited <= 10


@pytest.mark.slow
def test_what_was_never_admitted_ends_obsolete_when_its_app_is_removed(fleet: Fleet) -> None:
    tree = fleet.tree
    tree.nightly("other")
    schedules = "- {name: tick, handler: jobs.slow, every: 1s, timeout: 60s}"
    folder = tree.app("app", schedules, head="concurrency: 1", env="TAKES: '8'")
    worker = fleet.start()
    fleet.await_instant(fleet.now() + 3)
    assert len(tree.runs("begin")) == 1
    shutil.rmtree(folder)
    worker.await_told("app-removed", app="app")
    fleet.await_idle()
    assert fleet.dead_letters() == []
    history = [fields for _, fields in fleet.client.xrange(fleet.keys.history_of_schedule("app", "tick"))]
    verdicts = [record["verdict"] for record in history]
    assert verdicts.count("succeeded") == 1, "what had begun was to go on"
    assert len(verdicts) == len(fleet.published())
    assert set(verdicts) == {"succeeded", "obsolete"}


def test_a_running_handler_outlives_the_edit_of_its_template_and_code(fleet: Fleet) -> None:
    rule = "- {handler: jobs.on_slow_event, pattern: {kind: [go]}, timeout: 30s}"
    folder = fleet.tree.app("app", events=rule, env="TAKES: '3'")
    worker = fleet.start()
    fleet.emit(kind="go", id="old")
    await_true(lambda: fleet.tree.runs("begin"), "the handler does not begin")
    fleet.tree.app("app", events=rule.replace("30s", "1s"), env="TAKES: '0'")
    replace_file(folder / "jobs.py", (folder / "jobs.py").read_text().replace('what="end"', 'what="fresh"'))
    worker.await_told("app-loaded", count=2, app="app")
    fleet.await_idle()
    fleet.emit(kind="go", id="new")
    await_true(lambda: len(fleet.tree.runs()) == 4, "the new build does not run")
    assert [(line["id"], line["what"]) for line in fleet.tree.runs()] == [
        ("old", "begin"),
        ("old", "end"),
        ("new", "begin"),
        ("new", "fresh"),
    ]
    assert worker.told("run-failed") == []
