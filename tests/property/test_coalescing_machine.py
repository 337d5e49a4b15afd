"""Several processes and one job: at most one at a time, and every demand is served by a run that begins after it."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from support.cycleactor import Actor

from relayctl.host.clock import SystemClock
from relayctl.host.cycle.exclusive import MOST_RERUNS, QUEUE_NAME, Exclusive, Outcome
from relayctl.host.cycle.slots import SlotFile

_ACTORS = 3
_CAPACITY = 2


class Crew:
    """Actors that outlive an example: starting one costs more than a whole example."""

    def __init__(self) -> None:
        self.actors = [Actor(_CAPACITY) for _ in range(_ACTORS)]

    def replace(self, index: int) -> None:
        self.actors[index].kill()
        self.actors[index] = Actor(_CAPACITY)

    def close(self) -> None:
        for actor in self.actors:
            actor.close()


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    made = Crew()
    yield made
    made.close()


def machine(crew: Crew) -> type[RuleBasedStateMachine]:
    class Coalescing(RuleBasedStateMachine):
        """What should be there, besides what is: who holds it, which run that is, what is noted."""

        def __init__(self) -> None:
            super().__init__()
            self.directory = Path(tempfile.mkdtemp())
            self.looker = Exclusive(self.directory, SystemClock(), capacity=_CAPACITY)
            self.holder: int | None = None
            self.reruns = 0
            self.noted = 0
            self.closed: set[int] = set()
            self.steps = itertools.count()
            self.last_began = -1
            self.is_killed = False
            self.owed: list[int] = []

        def teardown(self) -> None:
            if self.holder is not None:
                # Nobody is owed anything any more, so that one end is the end.
                self.looker._queue.mutate(lambda _: b"")
                self.noted, self.owed = 0, []
                self.finish("end")
            for index in self.closed:
                assert crew.actors[index].ask("gate") == "gate"
            shutil.rmtree(self.directory)

        @rule(index=st.integers(0, _ACTORS - 1), is_demand=st.booleans())
        def enter(self, index: int, *, is_demand: bool) -> None:
            if index == self.holder:
                return
            answer = crew.actors[index].ask(f"{'demand' if is_demand else 'tick'} {self.directory}")
            at = next(self.steps)
            if self.holder is not None and not is_demand:
                assert answer == "skipped 0 False False"
            elif self.holder is not None:
                assert answer == f"{'queued' if self.noted < _CAPACITY else 'discarded'} 0 False False"
                self.noted = min(self.noted + 1, _CAPACITY)
                self.owed.append(at)
            elif index in self.closed:
                assert answer == "gated 0 False False"
            else:
                assert answer == "began 0"
                self.holder, self.reruns, self.noted = index, 0, 0
                self.begin(at)

        def begin(self, at: int) -> None:
            self.last_began = at

        @precondition(lambda self: self.holder is not None)
        @rule(how=st.sampled_from(["end", "fail"]))
        def finish(self, how: str) -> None:
            assert self.holder is not None
            answer = crew.actors[self.holder].ask(how)
            if self.noted and self.reruns < MOST_RERUNS and self.holder not in self.closed:
                self.reruns += 1
                self.noted -= 1
                assert answer == f"began {self.reruns}", "a failure drops no demand"
                self.begin(next(self.steps))
                return
            outcome = "ran-queued" if self.reruns else "ran"
            assert answer == f"{outcome} {self.reruns} {how == 'fail'} {self.noted > 0}"
            if not self.noted and self.owed:
                assert all(at < self.last_began for at in self.owed), "a demand saw no later run begin"
                self.owed.clear()
            self.holder = None

        @rule(index=st.integers(0, _ACTORS - 1))
        def turn_gate(self, index: int) -> None:
            assert crew.actors[index].ask("gate") == "gate"
            self.closed ^= {index}

        # A new process takes as long as all the rest of an example, so one has to do, where it says most.
        @precondition(lambda self: self.holder is not None and self.noted and not self.is_killed)
        @rule()
        def kill(self) -> None:
            assert self.holder is not None
            self.is_killed = True
            crew.replace(self.holder)
            self.closed.discard(self.holder)
            self.holder = None

        @invariant()
        def others_see_it(self) -> None:
            seen = self.looker.holder()
            assert (None if seen is None else seen.pid) == (
                None if self.holder is None else crew.actors[self.holder].pid
            )
            assert self.looker.pending() == self.noted

    return Coalescing


def test_processes_share_one_job(crew: Crew) -> None:
    run_state_machine_as_test(
        machine(crew),
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


def test_a_holder_does_it_eight_times_for_others_and_leaves_the_rest_to_the_next(crew: Crew, tmp_path: Path) -> None:
    first, second, third = crew.actors
    assert first.ask(f"tick {tmp_path}") == "began 0"
    for number in range(1, MOST_RERUNS + 1):
        assert second.ask(f"demand {tmp_path}") == "queued 0 False False"
        assert first.ask("fail") == f"began {number}"
    assert second.ask(f"demand {tmp_path}") == "queued 0 False False"
    assert first.ask("end") == f"ran-queued {MOST_RERUNS} False True"
    looker = Exclusive(tmp_path, SystemClock(), capacity=_CAPACITY)
    assert (looker.pending(), looker.holder()) == (1, None)
    assert third.ask(f"tick {tmp_path}") == "began 0"
    assert looker.pending() == 0, "the run that began serves it"
    assert third.ask("end") == "ran 0 False False"


def test_a_visit_serves_nobody_and_does_what_is_owed(tmp_path: Path) -> None:
    numbers: list[int] = []
    exclusive = Exclusive(tmp_path, SystemClock())
    for enter, expected in ((exclusive.visit, [0, 1]), (exclusive.run_or_skip, [0]), (exclusive.run, [0])):
        (tmp_path / QUEUE_NAME).write_bytes(b"1")
        ending = enter(numbers.append)
        assert (numbers, ending.reruns, exclusive.pending()) == (expected, len(expected) - 1, 0)
        numbers.clear()


def test_what_makes_no_sense_in_the_queue_is_one_demand(crew: Crew, tmp_path: Path) -> None:
    actor = crew.actors[0]
    assert actor.ask(f"tick {tmp_path}") == "began 0"
    (tmp_path / QUEUE_NAME).write_bytes(b"\x00torn")
    assert actor.ask("end") == "began 1"
    assert actor.ask("end") == "ran-queued 1 False False"


def test_who_comes_when_a_holder_has_just_decided_to_leave_works_itself(tmp_path: Path) -> None:
    first, second = (Exclusive(tmp_path, SystemClock()) for _ in range(2))
    outcomes: list[Outcome] = []

    class Interrupted(SlotFile):
        """Lets somebody else come right after each turn but the first, in which the holder came in."""

        turns = 0

        def mutate(self, change: Callable[[bytes], bytes]) -> bytes:
            after = super().mutate(change)
            Interrupted.turns += 1
            if Interrupted.turns == 2:
                outcomes.append(second.run(lambda _: None).outcome)
            return after

    first._queue = Interrupted(tmp_path / QUEUE_NAME)
    assert first.run(lambda _: None).outcome is Outcome.RAN
    assert (outcomes, second.pending()) == ([Outcome.RAN], 0)


def test_in_a_rush_no_demand_is_left_without_a_run_that_began_after_it(tmp_path: Path) -> None:
    runs, served, left = itertools.count(1), [0], []

    def job(_number: int) -> None:
        served[0] = next(runs)

    def rush() -> None:
        exclusive = Exclusive(tmp_path, SystemClock())
        for _ in range(60):
            before = served[0]
            ending = exclusive.run(job)
            while ending.is_deferred:
                ending = exclusive.run(job)
            if ending.outcome in {Outcome.QUEUED, Outcome.DISCARDED}:
                left.append(before)

    threads = [threading.Thread(target=rush) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    looker = Exclusive(tmp_path, SystemClock())
    assert left, "they never met"
    assert (looker.pending(), looker.is_idle()) == (0, True), "a demand came in between and was lost"
    assert all(before < served[0] for before in left)
