"""Publications that no retry can cure: counted in a row, closed at the tenth, and never for what a broker lacks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.workbench import Workbench, every, generation

from relayctl.core.due import Due, Timeline
from relayctl.core.facts import Missed
from relayctl.core.model import CatchUp
from relayctl.errors import ArgumentsRefused, BrokerRefused, BrokerUnavailable
from relayctl.store.controls import Controls
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.failure import library, to_broker_error
from relayctl.worker.agenda import Armed, Job
from relayctl.worker.passedover import PassedOverFirings
from relayctl.worker.poison import MOST_REFUSALS, Poison
from relayctl.worker.publisher import Outcome, Publisher, Standing


class Stage:
    """One schedule every second, and a publisher whose limit for an envelope the test moves."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.now = bench.now()
        known = generation(every(1), self.now - 100)
        bench.definitions.register(
            [Proposal(app="app", schedule="tick", mode=Mode.START, hash=known.hash, spec=known.spec)],
            (self.now - 100) * 1000,
        )
        self.known = known
        self.job = Job(
            app="app",
            schedule="tick",
            handler="jobs.run",
            jitter=timedelta(0),
            catch_up=CatchUp.LATEST,
            timeline=Timeline([known]),
            cursor=self.now - 10,
        )

    def publish(self, at: int, *, max_bytes: int = 10_000, token: str = "w1") -> Outcome:
        bench = self.bench
        poison = Poison(
            controls=Controls(bench.client, bench.keys),
            closings=bench.closings,
            token=f"{token}-{at}-{len(self.record())}-{self.failures()}",
            max_bytes=max_bytes,
            emit=bench.facts.append,
        )
        passed_over = PassedOverFirings(bench.closings, bench.facts.append)
        publisher = Publisher(bench.stream, token, bench.facts.append, passed_over, bench.rescue.recovery, poison)
        [outcome] = publisher.publish([(self.job, Due(firings=((at, self.known),), cursor=at))], self.now * 1000)
        return outcome

    def record(self) -> dict[str, str]:
        found: Any = self.bench.client.hgetall(self.bench.keys.published("app", "tick"))
        return dict(found)

    def failures(self) -> int:
        count: Any = self.bench.client.hget(self.bench.keys.schedule("app", "tick"), "failures")
        return int(count or 0)


@pytest.fixture
def stage(bench: Workbench) -> Stage:
    return Stage(bench)


def test_the_tenth_refusal_in_a_row_closes_that_firing_and_the_count_starts_again(stage: Stage) -> None:
    at = stage.now - 5
    for number in range(1, MOST_REFUSALS):
        outcome = stage.publish(at, max_bytes=10)
        assert (outcome.standing, outcome.cursor) == (Standing.FAILED, stage.job.cursor)
        assert isinstance(outcome.error, ArgumentsRefused)
        assert stage.failures() == number
    outcome = stage.publish(at, max_bytes=10)
    assert (outcome.standing, outcome.cursor) == (Standing.DONE, at)
    assert stage.record() == {str(at): "c|missed|poison"}
    [told] = [fact for fact in stage.bench.facts if isinstance(fact, Missed)]
    assert (told.first_at.timestamp(), told.level.name) == (at, "ERROR")
    assert told.reason.startswith("poison: its envelope has ")
    assert stage.failures() == 0
    assert stage.publish(at + 1).standing is Standing.DONE


def test_a_publication_that_is_taken_ends_the_row(stage: Stage) -> None:
    for _ in range(MOST_REFUSALS - 1):
        stage.publish(stage.now - 5, max_bytes=10)
    stage.publish(stage.now - 6)
    assert stage.failures() == 0
    assert stage.publish(stage.now - 5, max_bytes=10).standing is Standing.FAILED
    assert stage.failures() == 1


def test_a_stream_that_is_none_never_closes_anything(stage: Stage) -> None:
    stage.bench.client.set(stage.bench.keys.events, "no stream")
    for _ in range(MOST_REFUSALS + 2):
        outcome = stage.publish(stage.now - 5)
        assert outcome.standing is Standing.FAILED
        assert isinstance(outcome.error, BrokerRefused)
        assert not isinstance(outcome.error, ArgumentsRefused)
    assert stage.failures() == 0
    assert stage.record() == {}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ERR value is not an integer or out of range", ArgumentsRefused),
        ("user_script:12: attempt to index a nil value", ArgumentsRefused),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", BrokerRefused),
        ("ERR unknown command 'EVALSHA'", BrokerRefused),
        ("CROSSSLOT Keys in request don't hash to the same slot", BrokerRefused),
        ("OOM command not allowed when used memory > 'maxmemory'", BrokerUnavailable),
    ],
)
def test_which_answers_are_about_the_arguments(said: str, kind: type[Exception]) -> None:
    assert type(to_broker_error(library.ResponseError(said))) is kind


def test_a_definition_that_cannot_be_evaluated_stops_no_other(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = bench.now() - 5
    for name in ("good", "odd"):
        known = generation(every(1, name), since)
        proposal = Proposal(app="app", schedule=name, mode=Mode.START, hash=known.hash, spec=known.spec)
        bench.definitions.register([proposal], since * 1000)
        bench.scheduler.arm(
            [
                Armed(
                    app="app",
                    schedule=name,
                    handler="jobs.run",
                    jitter=timedelta(0),
                    catch_up=CatchUp.LATEST,
                    generations=(known,),
                    settled_until=since,
                )
            ]
        )
    take = Job.take

    def fail_for_odd(job: Job, now_ms: int, horizon: int) -> Due:
        if job.schedule == "odd":
            raise ZeroDivisionError("odd")
        return take(job, now_ms, horizon)

    monkeypatch.setattr(Job, "take", fail_for_odd)
    bench.tick()
    assert {item["schedule"] for item in bench.envelopes()} == {"good"}
    assert any("app/odd cannot be evaluated: ZeroDivisionError" in fact.reason for fact in bench.told("loop-failed"))
    assert bench.scheduler.armed().keys() == {("app", "good"), ("app", "odd")}
