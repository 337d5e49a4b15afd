"""FLUSHALL at seeded moments under two workers: what has run stays run, nothing is invented, what is owed is run."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest
from support.fleet import Fleet, await_true

from relayctl.core.occurrence import from_epoch

if TYPE_CHECKING:
    from support.fleet import ServeProcess

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(240)]
TICKS = {"second": 1, "three": 3, "seven": 7}
SCHEDULES = "\n".join(
    f"- {{name: {name}, handler: {name}.run, every: {every}s, retries: 0}}" for name, every in TICKS.items()
)
GRACE_S = 5
"""What ran so shortly before a flush may run again: the workers' memory of it may be as old as that."""


def serving(fleet: Fleet) -> list[ServeProcess]:
    folder = fleet.tree.app("app", SCHEDULES, head="concurrency: 8")
    code = (folder / "jobs.py").read_text()
    for name in TICKS:
        # A module for each, so that a run says whose it is.
        (folder / f"{name}.py").write_text(code.replace('what="run"', f'what="{name}"'))
    return [fleet.start(), fleet.start()]


def ran(fleet: Fleet, name: str) -> dict[int, int]:
    """Instant to how often its handler ran."""
    return fleet.tree.run_count(name)


def told_of(workers: list[ServeProcess], name: str, instants: set[int]) -> list[str]:
    """What the workers said of these instants, and of their ways back."""
    texts = {from_epoch(at).strftime("%Y-%m-%dT%H:%M:%SZ") for at in instants}
    return [
        f"{worker.pid} {fact}"
        for worker in workers
        for fact in worker.facts
        if (fact.get("schedule") == name and fact.get("scheduled_at") in texts)
        or fact["event"]
        in {"state-restored", "state-lost", "missed", "passed-over", "loop-failed", "scheduler-changed"}
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_flushes_at_any_moment(frail_fleet: Fleet, seed: int) -> None:
    fleet, moments = frail_fleet, random.Random(seed)
    workers = serving(fleet)
    first = fleet.now() + 1
    flushes: list[int] = []
    for number in range(6):
        fleet.pass_time(moments.uniform(1, 5), schedule="second")
        threading.Event().wait(moments.uniform(0, 1))
        flushes.append(fleet.now())
        fleet.client.flushall()
        for worker in workers:
            worker.await_told("state-restored", count=number + 1, within_s=20)
        await_true(lambda: fleet.client.get(fleet.keys.mode), "nobody says the mode again")
    last = fleet.pass_time(9, schedule="second")
    fleet.await_idle()
    assert [worker.stop() for worker in workers] == [0, 0]
    for name, every in TICKS.items():
        counts = ran(fleet, name)
        assert [at for at in counts if at % every] == [], "invented"
        expected = [at for at in range(first, last + 1) if at % every == 0]
        frail = {at for at in expected for flush in flushes if flush - GRACE_S < at <= flush}
        odd = {at: counts.get(at, 0) for at in expected if at not in frail and counts.get(at, 0) != 1}
        assert odd == {}, f"{name}, flushed at {flushes}: {told_of(workers, name, set(odd))}"
        head = fleet.registry(schedule=name)
        assert head["gen"] == "1"
        assert min(counts) * 1000 >= int(head["from"]), "what was before its time"
    for worker in workers:
        assert worker.noise == []
        assert worker.told("state-lost") == []
        assert worker.told("missed") == []


def test_a_flush_while_a_worker_is_away_and_comes_back(frail_fleet: Fleet) -> None:
    """The one that stayed remembers for both; the one that starts anew has its file."""
    fleet = frail_fleet
    workers = serving(fleet)
    first = fleet.now() + 1
    fleet.pass_time(6, schedule="second")
    workers[0].kill()
    fleet.client.flushall()
    flushed_at = fleet.now()
    again = fleet.start(state=fleet.root / "state-0")
    workers[1].await_told("state-restored", within_s=20)
    last = fleet.pass_time(9, schedule="second")
    assert [worker.stop() for worker in (again, workers[1])] == [0, 0]
    fleet.await_idle(within_s=15)
    counts = ran(fleet, "second")
    steady = [at for at in range(first, last + 1) if not flushed_at - GRACE_S < at <= flushed_at]
    assert {at: counts.get(at, 0) for at in steady if counts.get(at, 0) != 1} == {}
