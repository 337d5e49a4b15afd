"""Runs that are cut: by their deadline, by the caller, by the end of the worker; and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from runner_stage import Stage, is_alive, open_descriptors, zoo_build

from relayctl.core.model import Isolation
from relayctl.runners.invocation import Outcome

LOADED = ("animals.noop",)
"""With the module imported beforehand, a short timeout is the handler's alone."""


@pytest.mark.parametrize("handler", ["sleep", "polite", "stubborn", "stopped"])
def test_timeout(make_stage: Callable[..., Stage], handler: str) -> None:
    stage = make_stage(zoo_build(handlers=LOADED), grace_s=0.5)
    stage.ready()
    ended = stage.one(f"animals.{handler}", timeout_s=0.5)
    assert (ended.outcome, ended.reason) == (Outcome.TIMEOUT, "timed out after 0.5s")
    assert 0.5 <= ended.duration_s < 3
    assert ("cleaned up" in stage.texts()) is (handler == "polite")
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("timeout_s", [0.5, 20.0])
def test_what_neither_session_nor_environment_tells_of_goes_too(
    make_stage: Callable[..., Stage], isolation: Isolation, timeout_s: float
) -> None:
    stage = make_stage(zoo_build(isolation=isolation, handlers=LOADED), grace_s=0.2)
    stage.ready()
    event = b'{"s": %d}' % (100 if timeout_s < 1 else 0)
    ended = stage.one("animals.disown", event=event, timeout_s=timeout_s)
    assert ended.outcome is (Outcome.TIMEOUT if timeout_s < 1 else Outcome.SUCCEEDED)
    pids = [int(pid) for pid in ended.output_tail.split()]
    assert len(pids) == 2
    stage.until(lambda: not any(map(is_alive, pids)), within=5)


def test_a_slot_is_free_only_when_its_process_is_gone(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(concurrency=1, handlers=LOADED), grace_s=5.0)
    stage.ready()
    slow = stage.run("animals.dies_slowly", event=b'{"linger": 0.6}', timeout_s=0.5)
    stage.pool.start(slow)
    stage.pool.start(stage.run("animals.noop"))
    stage.until(lambda: len(stage.ended) == 2)
    first, second = stage.ended
    assert (first.run.key, first.outcome) == (slow.key, Outcome.TIMEOUT)
    assert first.duration_s >= 1.1
    assert second.started_at >= first.finished_at


def test_no_descendant_outlives_a_timeout(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(concurrency=3, handlers=LOADED), grace_s=0.2)
    for _ in range(3):
        ended = stage.finish(*(stage.run("animals.breed", timeout_s=1.5) for _ in range(3)))
        assert [one.outcome for one in ended] == [Outcome.TIMEOUT] * 3
        pids = [int(pid) for one in ended for pid in one.output_tail.split()]
        assert len(pids) == 9
        assert not [pid for pid in pids if is_alive(pid)]


def test_children_left_by_a_handler_that_returned_go_with_its_child(stage: Stage) -> None:
    ended = stage.one("animals.breed", event=b'{"wait": false}')
    assert ended.outcome is Outcome.SUCCEEDED
    assert not [pid for pid in ended.output_tail.split() if is_alive(int(pid))]


@pytest.mark.parametrize(("event", "outcome"), [(b"{}", Outcome.SUCCEEDED), (b'{"fail": true}', Outcome.FAILED)])
def test_a_daemon_is_found_and_killed(stage: Stage, event: bytes, outcome: Outcome) -> None:
    ended = stage.one("animals.detach", event=event)
    assert ended.outcome is outcome
    daemon = int(ended.output_tail.split()[0])
    stage.until(lambda: not Path(f"/proc/{daemon}").exists(), within=5)


def test_a_daemon_that_holds_the_pipes_stalls_nobody(stage: Stage) -> None:
    stage.ready()
    began = time.monotonic()
    ended = stage.one("animals.detach", event=b'{"fail": true}')
    assert ended.outcome is Outcome.FAILED
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED
    assert time.monotonic() - began < 5


def test_interrupted_at_once(stage: Stage) -> None:
    stage.ready()
    run = stage.run("animals.stubborn")
    stage.pool.start(run)
    stage.until(lambda: stage.texts() == ["here"])
    stage.pool.stop(run.key, "the lease was lost")
    stage.until(lambda: stage.ended)
    assert (stage.ended[0].outcome, stage.ended[0].reason) == (Outcome.INTERRUPTED, "the lease was lost")


def test_a_run_that_finishes_when_asked_to_stop_has_succeeded(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(concurrency=2), grace_s=5.0)
    runs = [stage.run("animals.finishes_when_asked"), stage.run("animals.polite")]
    for run in runs:
        stage.pool.start(run)
    stage.until(lambda: stage.texts().count("here") == 2)
    stage.pool.interrupt_all("the worker stops")
    stage.until(lambda: len(stage.ended) == 2)
    outcomes = {ended.run.key: ended.outcome for ended in stage.ended}
    assert outcomes == {runs[0].key: Outcome.SUCCEEDED, runs[1].key: Outcome.INTERRUPTED}
    assert stage.pool.busy() == 0
    refused = stage.one("animals.noop")
    assert (refused.outcome, refused.started) == (Outcome.REFUSED, False)


def test_close_kills_and_reports(make_stage: Callable[..., Stage]) -> None:
    before = open_descriptors()
    stage = Stage()
    stage.pool.deploy(zoo_build(concurrency=2))
    stage.ready(2)
    stage.pool.start(stage.run("animals.stubborn"))
    stage.until(lambda: stage.texts() == ["here"])
    stage.pool.close()
    assert [ended.outcome for ended in stage.pool.take_ended()] == [Outcome.INTERRUPTED]
    assert not stage.selector.get_map()
    stage.selector.close()
    assert open_descriptors() == before


WORKER = """
import os, sys
sys.path[:0] = sys.argv[1:3]
from runner_stage import Stage, zoo_build
stage = Stage()
stage.pool.deploy(zoo_build(concurrency=3))
stage.pool.deploy(zoo_build(app="programs", runtime="exec"))
stage.ready(3)
stage.pool.start(stage.run("animals.stubborn"))
stage.pool.start(stage.run("animals.breed"))
stage.pool.start(stage.run("bin/stubborn.sh", app="programs"))
stage.until(lambda: len(stage.texts()) == 3)
bred = next(text for text in stage.texts() if text != "here")
print(bred, *(child.process.pid for child in stage.pool._nursery.children), flush=True)
while True:
    stage.pool.turn(1.0)
"""


def test_children_die_with_a_killed_worker() -> None:
    here = Path(__file__).parent
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(here), str(here.parents[2])], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    try:
        pids = [int(pid) for pid in worker.stdout.readline().split()]
        assert len(pids) == 7 and all(map(is_alive, pids))
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
    limit = time.monotonic() + 2.0
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < limit, left
        os.sched_yield()


def children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def test_five_hundred_runs_leave_nothing(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(concurrency=4))
    stage.ready(4)
    stage.finish(*(stage.run("animals.noop") for _ in range(4)))
    before = open_descriptors()
    already = (
        children() - {child.process.pid for child in stage.pool._nursery.children} - {stage.pool._nursery._guard.pid}
    )
    kinds = ["noop"] * 90 + [
        "echo",
        "raises",
        "vanish",
        "echo_by_child",
        "fork_and_return",
        "crash",
        "coroutine",
        "mess_up",
    ]
    runs = [stage.run(f"animals.{kinds[n % len(kinds)]}", event=b'{"n": 1, "code": 2}') for n in range(500)]
    ended = stage.finish(*runs, within=50)
    assert len(ended) == 500
    assert sum(one.outcome is Outcome.SUCCEEDED for one in ended) == sum(
        run.handler.split(".")[1] not in ("raises", "vanish", "crash") for run in runs
    )
    stage.pool.demand("zoo", 4)
    stage.until(lambda: stage.pool.capacity("zoo") == 4)
    assert open_descriptors() == before
    expected = {child.process.pid for child in stage.pool._nursery.children} | {stage.pool._nursery._guard.pid}
    assert children() - already == expected
