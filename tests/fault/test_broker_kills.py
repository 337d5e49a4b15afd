"""A broker killed with -9 again and again under load: what it acknowledged is there, and nothing is there twice.

The server writes its append-only file before it answers, so a kill of the process takes nothing with it that was
acknowledged, unless a sync of a slow disk is under way; `everysec` says only when the disk is waited for.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest
from support.fleet import Fleet

if TYPE_CHECKING:
    from support.broker import PrivateBroker
    from support.fleet import ServeProcess

pytestmark = pytest.mark.fault
EVENTS = "- {handler: jobs.on_event, pattern: {kind: [go]}, retries: 0}"
Firing = tuple[str, str]
"""A schedule and an instant as its handler and the log spell it."""


def schedules(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


def pause(seconds: float) -> None:
    """Let that much of the load pass; nothing else says when it has."""
    threading.Event().wait(seconds)


def under_fire(fleet: Fleet, broker: PrivateBroker, *, names: list[str], kills: int, seed: int) -> list[str]:
    """Kill and restart the broker at seeded moments; the ids of the events that it acknowledged meanwhile."""
    moments = random.Random(seed)
    emitted: list[str] = []
    for kill in range(kills):
        pause(moments.uniform(0.2, 2.2))
        for number in range(3):
            emitted.append(f"e{kill}-{number}")
            fleet.emit(kind="go", id=emitted[-1])
        broker.kill()
        pause(moments.uniform(0.0, 1.0))
        broker.restart()
    fleet.pass_time(3, schedule=names[0])
    return emitted


def told_as_published(workers: list[ServeProcess]) -> dict[Firing, set[str]]:
    """The entries that workers were told of, by firing."""
    told: dict[Firing, set[str]] = {}
    for worker in workers:
        for fact in worker.told("published"):
            told.setdefault((fact["schedule"], fact["scheduled_at"]), set()).add(fact["entry"])
    return told


def check(fleet: Fleet, workers: list[ServeProcess], names: list[str], first: int, emitted: list[str]) -> None:
    last = min(max(fleet.published(schedule=name)) for name in names)
    missing = [(name, at) for name in names for at in set(range(first, last + 1)) - set(fleet.published(schedule=name))]
    assert missing == [], "instants are missing"
    kept = {entry for name in names for entry in fleet.published(schedule=name).values()}
    told = told_as_published(workers)
    assert [firing for firing, entries in told.items() if not entries <= kept] == [], "acknowledged, and lost"
    assert fleet.entries_added() == len(kept) + len(emitted), "a firing or an event has two entries, or none"
    runs: dict[str, int] = {}
    for line in fleet.tree.runs():
        runs[line["message"]] = runs.get(line["message"], 0) + 1
    assert len(runs) == len(kept) + len(emitted), "something was published and not run"
    assert {message: count for message, count in runs.items() if count > 1} == {}, "something ran twice"
    assert sorted(line["id"] for line in fleet.tree.runs("event")) == sorted(emitted)
    assert fleet.dead_letters() == []


@pytest.mark.parametrize(
    ("count", "fleet_size", "kills"),
    [
        pytest.param(4, 2, 3, id="three"),
        pytest.param(20, 3, 30, id="thirty", marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
)
def test_nothing_acknowledged_is_lost_or_doubled(
    frail_fleet: Fleet, own_broker: PrivateBroker, count: int, fleet_size: int, kills: int
) -> None:
    fleet, names = frail_fleet, schedules(count)
    lines = "\n".join(f"- {{name: {name}, handler: jobs.run, every: 1s, retries: 0}}" for name in names)
    fleet.tree.app("app", lines, events=EVENTS, head="concurrency: 8")
    workers = [fleet.start(wait=False) for _ in range(fleet_size)]
    for worker in workers:
        worker.await_up()
    first = fleet.now() + 1
    emitted = under_fire(fleet, own_broker, names=names, kills=kills, seed=count * kills)
    fleet.await_idle(within_s=40)
    assert [worker.stop() for worker in workers] == [0] * fleet_size
    fleet.await_idle(within_s=1)
    check(fleet, workers, names, first, emitted)
    assert [worker.noise for worker in workers] == [[]] * fleet_size
