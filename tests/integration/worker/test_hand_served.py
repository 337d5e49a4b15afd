"""Claims in hand beside real children: they begin as soon as one is free, or go back uncharged."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.fleet import Fleet, await_true
from support.intake import live_app

from relayctl.core.lifecycle import Claim, Slot, descriptor_of
from relayctl.host.clock import SystemClock
from relayctl.runners.build import Build
from relayctl.worker.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from relayctl.worker.ledger import Finished

TEMPLATE = """
runtime: python
concurrency: 1
events: [{handler: jobs.on, pattern: {kind: [go]}}]
"""
JOBS = """
import os, time

def on(event):
    with open(event["log"], "a") as log:
        log.write(f"{event['n']} begins\\n")
    if event.get("until"):
        while not os.path.exists(event["until"]):
            time.sleep(0.01)
    if event.get("dies"):
        os._exit(1)
"""

COUNT = 200


class Stage:
    """An executor with one child of one app, whose runs have been fast so far."""

    def __init__(self, root: Path) -> None:
        self.live = live_app(root, "app", TEMPLATE)
        (self.live.directory / "jobs.py").write_text(JOBS)
        self.log, self.gate = root / "log", root / "gate"
        self.ended: list[Finished] = []
        self.facts: list[Any] = []
        self.told = threading.Event()
        self.executor = Executor(
            secrets=str,
            clock=SystemClock(),
            emit=self.facts.append,
            max_children=4,
            base_environ={},
            on_change=self.told.set,
        )
        self.thread = threading.Thread(target=self.executor.run)
        self.thread.start()
        self.executor.deploy([Build.of(self.live.app, self.live.directory, "r1")])
        for number in range(3):
            self.begin(self.claim(-3 + number))
            self.await_ended(number + 1)
        await_fact(lambda: self.executor.room_in_hand("app") > 0, "a fast app has no room in hand", 10)
        self.executor.forget([item.claim for item in self.ended])
        self.ended.clear()

    def claim(self, number: int, **event: Any) -> Claim:
        [rule] = self.live.app.events
        return Claim(
            message=f"{number + 100}-0",
            app="app",
            slot=Slot("jobs.on"),
            token=f"t.{number}",
            attempt=1,
            descriptor=descriptor_of("app", rule, cap=rule.contract.timeout, revision="r1"),
            event=json.dumps({"n": number, "log": str(self.log), **event}),
        )

    def begin(self, claim: Claim) -> None:
        """Have it started on a place of its own."""
        self.executor.demand("app", 1)
        await_fact(lambda: self.executor.reserve("app", 1), "no place becomes free", 20)
        self.executor.submit([claim])

    def busy(self, **event: Any) -> Claim:
        """A run that goes on until the gate opens."""
        claim = self.claim(0, until=str(self.gate), **event)
        self.begin(claim)
        await_fact(lambda: "0 " in self.log.read_text(), "it does not begin", 10)
        return claim

    def await_ended(self, count: int) -> None:
        def look() -> bool:
            self.ended += self.executor.take_finished()
            return len(self.ended) >= count

        await_fact(look, f"not {count} end: {self.ended}", 20)

    def unbegun(self) -> list[str]:
        return [item.claim.token for item in self.ended if not item.has_begun]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.gate.touch()
    made.executor.close()
    made.thread.join()


def test_they_begin_in_order_one_by_one_and_keep_their_place(stage: Stage) -> None:
    stage.busy()
    stage.executor.hold([stage.claim(number) for number in (1, 2, 3)])
    assert (stage.executor.in_hand(), len(stage.executor.running())) == (3, 4)
    assert stage.executor.reserve("app", 1) == 0
    stage.gate.touch()
    stage.await_ended(4)
    assert [item.claim.token for item in stage.ended] == ["t.0", "t.1", "t.2", "t.3"]
    assert all(item.ended.outcome.value == "succeeded" for item in stage.ended)
    starts = [item.ended.started_at for item in stage.ended]
    ends = [item.ended.finished_at for item in stage.ended]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False)), "two ran at once in one place"


def test_what_waits_too_long_goes_back_and_no_more_is_taken(stage: Stage) -> None:
    stage.busy()
    stage.executor.hold([stage.claim(1)])
    stage.await_ended(1)
    assert [item.claim.token for item in stage.ended] == stage.unbegun() == ["t.1"], "the busy one goes on"
    assert stage.executor.room_in_hand("app") == 0


@pytest.mark.parametrize("how", ["drain", "retired", "new code", "lost lease", "lost child", "interrupted"])
def test_what_has_not_begun_goes_back(stage: Stage, how: str) -> None:
    busy = stage.busy(dies=how == "lost child")
    waiting = stage.claim(1)
    stage.executor.hold([waiting])
    if how == "drain":
        stage.executor.let_go()
    elif how == "retired":
        stage.executor.retire(["app"])
    elif how == "new code":
        build = Build.of(replace(stage.live.app, concurrency=1, env={"NEW": "1"}), stage.live.directory, "r2")
        stage.executor.deploy([build])
    elif how == "lost lease":
        stage.executor.stop_run(waiting, "another worker has taken over this attempt")
    elif how == "interrupted":
        stage.executor.interrupt_all("the worker is stopping")
    else:
        stage.gate.touch()
    stage.await_ended(1)
    stage.gate.touch()
    stage.await_ended(2)
    assert stage.unbegun() == ["t.1"]
    assert {item.claim.token for item in stage.ended} == {"t.0", busy.token, "t.1"}
    assert "1 " not in [line[:2] for line in stage.log.read_text().splitlines()]
    if how in {"drain", "interrupted"}:
        stage.executor.hold([stage.claim(2)])
        stage.await_ended(3)
        assert stage.unbegun() == ["t.1", "t.2"], "nothing is taken any more"


def test_a_stop_with_claims_in_hand_loses_and_charges_nothing(fleet: Fleet) -> None:
    rule = "- {handler: jobs.on_slow_event, pattern: {kind: [go]}}"
    fleet.tree.app("app", events=rule, head="concurrency: 2", env="TAKES: '0.004'")
    worker = fleet.start()
    for number in range(COUNT):
        fleet.emit(kind="go", id=number)
    await_true(lambda: len(fleet.tree.runs("end")) >= 10, "no handler runs")
    assert worker.stop(signal.SIGTERM) == 0
    assert worker.told("stopped")[0]["interrupted"] == 0
    assert len(fleet.tree.runs("end")) < COUNT, "nothing was left to do, so this shows nothing"
    assert fleet.client.zcard(fleet.keys.leases) == 0
    found = [fleet.client.hgetall(key) for key in fleet.client.scan_iter(fleet.keys.invocations("*"))]
    states = [state.split("|")[:2] for each in found for name, state in each.items() if name.startswith("s:")]
    assert {tuple(state) for state in states} == {("ready", "0"), ("succeeded", "1")}
    fleet.start()
    fleet.await_idle()
    ended = fleet.tree.runs("end")
    assert sorted(line["id"] for line in ended) == list(range(COUNT)), "each ran once"
    assert {line["attempt"] for line in ended} == {1}
    assert len(fleet.tree.runs("begin")) == COUNT


@pytest.mark.slow  # leases end after seven seconds
def test_after_a_kill_with_claims_in_hand_all_of_it_runs_elsewhere_within_ten_seconds(fleet: Fleet) -> None:
    rule = "- {handler: jobs.on_slow_event, pattern: {kind: [go]}}"
    fleet.tree.app("app", events=rule, head="concurrency: 2", env="TAKES: '0.004'")
    worker = fleet.start()
    for number in range(COUNT):
        fleet.emit(kind="go", id=number)
    await_true(lambda: len(fleet.tree.runs("end")) >= 10, "no handler runs")
    worker.kill()
    left = fleet.client.zcard(fleet.keys.leases)
    assert left > 2, "nothing was in hand, so this shows nothing"
    fleet.start()
    await_true(lambda: fleet.client.zcard(fleet.keys.ready_of("app")) == 0, "work is left", within_s=30)
    took = await_true(lambda: fleet.backlog() == 0, "what was in hand does not run", within_s=15)
    assert took <= 10
    assert {line["id"] for line in fleet.tree.runs("end")} == set(range(COUNT))
    assert fleet.dead_letters() == []
