"""Children at rest: how long they stay, which of them goes when room is wanted, and what waits when all are busy."""

from __future__ import annotations

from collections.abc import Callable

from runner_stage import Stage, zoo_build

from relayctl.host.clock import SystemClock
from relayctl.runners.invocation import Outcome


class Ahead(SystemClock):
    """A clock that a test moves on."""

    by_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.by_s


def resting(stage: Stage) -> set[str]:
    return {name for name in ("one", "two", "three") if stage.pool.capacity(name)}


def test_they_stay_for_five_minutes(make_stage: Callable[..., Stage]) -> None:
    clock = Ahead()
    stage = make_stage(zoo_build(), clock=clock)
    stage.ready()
    (child,) = stage.pool._nursery.children
    clock.by_s += 200
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED
    clock.by_s += 270  # since its last run, not since its start
    stage.pool.turn(0)
    assert stage.pool._nursery.children == [child] and stage.pool.capacity("zoo") == 1
    clock.by_s += 60
    stage.until(lambda: not stage.pool._nursery.children)
    assert stage.pool.capacity("zoo") == 0


def test_the_one_that_rested_longest_goes_first(make_stage: Callable[..., Stage]) -> None:
    clock = Ahead()
    apps = [zoo_build(app=name, concurrency=1) for name in ("one", "two", "three")]
    stage = make_stage(*apps, max_children=2, clock=clock)
    for name in ("one", "two"):
        stage.ready(app=name)
        clock.by_s += 1
    stage.one("animals.noop", app="one")  # now it is the other that rested longer
    clock.by_s += 1
    stage.ready(app="three")
    assert resting(stage) == {"one", "three"}
    stage.ready(app="two")
    assert resting(stage) == {"two", "three"}


def test_work_waits_when_all_are_busy(make_stage: Callable[..., Stage]) -> None:
    apps = [zoo_build(app=name, concurrency=1) for name in ("one", "two", "three")]
    stage = make_stage(*apps, max_children=2)
    busy = [stage.run("animals.sleep", app=name, event=b'{"s": 1.0}') for name in ("one", "two")]
    for run in busy:
        stage.ready(app=run.app)
        stage.pool.start(run)

    def has_room() -> bool:
        stage.pool.demand("three", 1)  # as a claimer asks again, pass by pass
        assert stage.pool._nursery.occupied <= 2
        return bool(stage.pool.capacity("three"))

    assert not has_room()
    stage.until(has_room)
    done = stage.one("animals.noop", app="three")
    stage.until(lambda: len(stage.ended) == 3)
    assert [each.outcome for each in stage.ended] == [Outcome.SUCCEEDED] * 3
    assert min(each.finished_at for each in stage.ended if each.run in busy) <= done.started_at
