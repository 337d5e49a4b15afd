"""Due every second, on one to three workers, while some of them die or stand still."""

from __future__ import annotations

import random
import signal
import threading

import pytest
from support.fleet import Fleet, await_true, each_second_once

pytestmark = pytest.mark.fault
TICK = "- {name: tick, handler: jobs.run, every: 1s, timeout: 20s}"


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_each_instant_is_published_and_run_once(fleet: Fleet, workers: int) -> None:
    fleet.tree.app("app", TICK, head="concurrency: 4")
    serving = [fleet.start(wait=False) for _ in range(workers)]
    for worker in serving:
        worker.await_up()
    first = fleet.now() + 1
    last = fleet.pass_time(8)
    codes = [worker.stop() for worker in serving]
    assert codes == [0] * workers
    fleet.await_idle(within_s=1)
    each_second_once(fleet, first, last)
    assert fleet.entries_added() == len(fleet.published())
    assert [worker.noise for worker in serving] == [[]] * workers


@pytest.mark.slow
def test_a_killed_and_a_stopped_worker_lose_nothing(fleet: Fleet) -> None:
    fleet.tree.app("app", TICK, head="concurrency: 4")
    serving = [fleet.start(wait=False) for _ in range(3)]
    for worker in serving:
        worker.await_up()
    first = fleet.now() + 1
    fleet.pass_time(4)
    serving[0].kill()
    fleet.pass_time(3)
    serving[1].send(signal.SIGSTOP)
    fleet.pass_time(10)
    serving[1].send(signal.SIGCONT)
    last = fleet.pass_time(4)
    assert [worker.stop() for worker in serving[1:]] == [0, 0]
    fleet.await_idle(within_s=1)
    published = fleet.published()
    assert [at for at in range(first, last + 1) if at not in published] == []
    assert fleet.entries_added() == len(published)
    counts = fleet.tree.run_count()
    assert [at for at in range(first, last + 1) if at not in counts] == []


def test_what_a_killed_worker_held_runs_elsewhere(fleet: Fleet) -> None:
    fleet.tree.app(
        "app",
        events="- {handler: jobs.on_slow_event, pattern: {kind: [go]}, timeout: 30s}",
        head="concurrency: 1",
        env="TAKES: '3'",
    )
    first, second = fleet.start(), fleet.start()
    fleet.emit(kind="go", id="x")
    await_true(lambda: fleet.tree.runs("begin"), "the handler does not begin")
    await_true(lambda: first.told("run-started") or second.told("run-started"), "nobody says that it began")
    holder, other = (first, second) if first.told("run-started") else (second, first)
    holder.kill()
    took = await_true(lambda: len(fleet.tree.runs("begin")) == 2, "nobody takes it over", within_s=14)
    assert took < 10.5
    other.await_told("run-ended")
    assert fleet.tree.runs("begin")[1]["attempt"] == 2
    assert len(fleet.tree.runs("end")) == 1, "the dead worker's handler was left running"


@pytest.mark.slow
def test_a_stall_of_three_seconds_loses_nothing(fleet: Fleet) -> None:
    fleet.tree.app("app", TICK, head="concurrency: 4")
    worker = fleet.start()
    first = fleet.now() + 1
    fleet.pass_time(2)
    worker.send(signal.SIGSTOP)
    # Nothing of this worker moves, so only the clock can be waited for.
    resume_at = fleet.now() + 3
    await_true(lambda: fleet.now() >= resume_at, "the clock stands still")
    worker.send(signal.SIGCONT)
    last = fleet.pass_time(2)
    assert worker.stop() == 0
    each_second_once(fleet, first, last)
    assert worker.told("published-late"), "lateness is logged"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_stops_at_any_moment_end_clean_and_lose_nothing(fleet: Fleet) -> None:
    """Twelve restarts in a row; between two of them the schedule is merely late."""
    fleet.tree.app("app", TICK, head="concurrency: 4")
    first = 0
    moments = random.Random(7)
    for _ in range(12):
        worker = fleet.start()
        first = first or fleet.now() + 1
        threading.Event().wait(moments.uniform(0, 1.5))
        assert worker.stop(moments.choice((signal.SIGTERM, signal.SIGINT))) == 0
        assert worker.noise == []
        assert worker.told("loop-failed") == []
    fleet.start()
    last = fleet.pass_time(1)
    fleet.await_idle()
    each_second_once(fleet, first, last)
