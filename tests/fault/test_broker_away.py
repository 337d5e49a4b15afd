"""Workers whose broker is killed, silent, flushed, or loses its group, stream or scripts."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from support.fleet import Fleet, await_true, each_second_once

if TYPE_CHECKING:
    from support.broker import PrivateBroker
    from support.fleet import ServeProcess

pytestmark = pytest.mark.fault
EVERY_SECOND = "- {name: tick, handler: jobs.run, every: 1s}"
SLOW = "- {handler: jobs.on_slow_event, pattern: {kind: [go]}, timeout: 60s, retries: 0}"


@pytest.mark.slow
def test_a_stop_with_the_broker_down(frail_fleet: Fleet, own_broker: PrivateBroker) -> None:
    fleet = frail_fleet
    fleet.tree.app("app", EVERY_SECOND)
    worker = fleet.start()
    fleet.pass_time(1)
    own_broker.kill()
    worker.await_told("scheduler-changed", state="offline")
    assert worker.stop(within_s=20) == 0
    assert worker.noise == []
    own_broker.restart()


@pytest.mark.slow
def test_a_stop_with_a_silent_broker(frail_fleet: Fleet, own_broker: PrivateBroker) -> None:
    fleet = frail_fleet
    fleet.tree.app("app", EVERY_SECOND)
    worker = fleet.start("--drain", "20s")
    fleet.pass_time(1)
    os.kill(own_broker.pid, signal.SIGSTOP)
    try:
        assert worker.stop(within_s=23) == 0
    finally:
        os.kill(own_broker.pid, signal.SIGCONT)
    assert worker.noise == []


def test_a_broker_killed_and_restarted_loses_and_doubles_nothing(frail_fleet: Fleet, own_broker: PrivateBroker) -> None:
    fleet = frail_fleet
    fleet.tree.app("app", EVERY_SECOND, head="concurrency: 4")
    workers = [fleet.start(), fleet.start()]
    first = fleet.now() + 1
    fleet.pass_time(3)
    own_broker.kill()
    # Only with the server surely away for a while do all loops meet its absence.
    workers[0].await_told("loop-failed", loop="claimer")
    own_broker.restart()
    last = fleet.pass_time(4)
    assert [worker.stop() for worker in workers] == [0, 0]
    fleet.await_idle(within_s=1)
    published = fleet.published()
    assert [at for at in range(first, last + 1) if at not in published] == []
    # A second of writes may be lost by the server itself, so a run may be repeated there; elsewhere never.
    counts = fleet.tree.run_count()
    assert [at for at in range(first, last + 1) if at not in counts] == []
    assert sum(count - 1 for count in counts.values()) <= 2
    for worker in workers:
        for loop in ("claimer", "consumer", "scheduler"):
            assert len(worker.told("loop-failed", loop=loop)) <= 1
        assert worker.noise == []


@pytest.mark.slow
def test_a_silent_broker_that_answers_again(frail_fleet: Fleet, own_broker: PrivateBroker) -> None:
    fleet = frail_fleet
    fleet.tree.app("app", EVERY_SECOND, head="concurrency: 4", events=SLOW, env="TAKES: '12'")
    workers = [fleet.start(), fleet.start()]
    first = fleet.now() + 1
    fleet.emit(kind="go", id="long")
    fleet.pass_time(2)
    await_true(lambda: fleet.tree.runs("begin"), "the handler does not begin")
    os.kill(own_broker.pid, signal.SIGSTOP)
    for worker in workers:
        worker.await_told("loop-failed", loop="claimer")
    workers[0].await_told("scheduler-changed", state="offline")
    await_true(lambda: lease_is_over(workers), "the clock stands still")
    os.kill(own_broker.pid, signal.SIGCONT)
    last = fleet.pass_time(3)
    fleet.await_idle()
    assert [worker.stop() for worker in workers] == [0, 0]
    each_second_once(fleet, first, last)
    assert [line["what"] for line in fleet.tree.runs() if line["id"] == "long"] == ["begin", "end"]
    assert fleet.dead_letters() == []
    assert [worker.told("lease-lost") for worker in workers] == [[], []]


def lease_is_over(workers: list[ServeProcess]) -> bool:
    """Whether both have been without their broker for longer than a lease lasts."""
    began = max(fact["time"] for worker in workers for fact in worker.told("loop-failed", loop="claimer"))
    return (datetime.now(UTC) - datetime.fromisoformat(began)).total_seconds() > 3


def test_a_flush_while_serving(frail_fleet: Fleet) -> None:
    """What is owed is still owed, what has run does not run again, and the definition is the one it was."""
    fleet = frail_fleet
    fleet.tree.app("app", EVERY_SECOND, head="concurrency: 4")
    workers = [fleet.start(), fleet.start()]
    fleet.pass_time(3)
    since = fleet.registry()["from"]
    fleet.client.flushall()
    flushed_at = fleet.now()
    workers[0].await_told("state-restored")
    last = fleet.pass_time(7)
    assert [worker.stop() for worker in workers] == [0, 0]
    assert fleet.registry()["from"] == since
    assert fleet.client.get(fleet.keys.mode) == "pull"
    published = fleet.published()
    assert [at for at in range(flushed_at + 1, last + 1) if at not in published] == []
    assert max(fleet.tree.run_count().values()) == 1
    assert sum(len(worker.told("loop-failed")) for worker in workers) <= 6
    assert [worker.told("state-lost") for worker in workers] == [[], []]


@pytest.mark.parametrize(
    "what", [pytest.param("group", marks=pytest.mark.slow), "stream", pytest.param("scripts", marks=pytest.mark.slow)]
)
def test_a_lost_part_is_made_again(frail_fleet: Fleet, what: str) -> None:
    fleet = frail_fleet
    fleet.tree.app("app", EVERY_SECOND, head="concurrency: 4")
    worker = fleet.start()
    first = fleet.now() + 1
    fleet.pass_time(2)
    for _ in range(2):
        if what == "group":
            fleet.client.xgroup_destroy(fleet.keys.events, "relay")
        elif what == "stream":
            # Between two seconds nothing is in it, so that nothing is lost with it.
            await_true(lambda: fleet.backlog() == 0 and fleet.client.time()[1] < 700_000, "it is never empty")
            fleet.client.delete(fleet.keys.events)
        else:
            fleet.client.script_flush()
        last = fleet.pass_time(2)
    assert worker.stop() == 0
    fleet.await_idle(within_s=1)
    each_second_once(fleet, first, last)
    assert len(worker.told("loop-failed")) <= 2
    assert len(worker.told("intake-remade")) == (0 if what == "scripts" else 2)
