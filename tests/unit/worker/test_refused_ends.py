"""Ends and take-backs that the broker refuses for good: places come back, nothing else waits behind them, it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.intake import Intake

from relayctl.errors import BrokerUnavailable
from relayctl.host.clock import HeldClock
from relayctl.runners.invocation import Outcome
from relayctl.store.invocations import Invocations, Turn
from relayctl.worker.claimer import RENEW_S

if TYPE_CHECKING:
    from pathlib import Path

    import redis


@pytest.fixture
def intake(tmp_path: Path, redis_client: redis.Redis) -> Intake:
    return Intake(tmp_path, redis_client, clock=HeldClock(datetime.now(UTC)))


def passes(intake: Intake, count: int, step_s: float = 1.1) -> None:
    for _ in range(count):
        intake.clock.advance(timedelta(seconds=step_s))
        intake.claimer.step()


def test_an_end_that_is_refused_for_good_frees_its_place_and_drops_its_lease(intake: Intake) -> None:
    intake.emit(2)
    intake.take_in()
    bad, good = intake.places.started
    # The last attempt fails, and its letter has nowhere to go.
    intake.client.set(intake.keys.dead_letters, "of another type")
    intake.places.end(bad, Outcome.FAILED)
    intake.places.end(good)
    passes(intake, 9)
    assert (intake.places.started, intake.places.free) == ([bad], 2), "the good end was not held up"
    assert intake.told("end-refused") == []
    passes(intake, 30)
    [told] = intake.told("end-refused")
    assert (told.app, told.message, told.attempt, told.outcome) == ("app", bad.message, 1, "failed")
    assert "WRONGTYPE" in told.reason
    assert (intake.places.started, intake.places.free) == ([], 3)
    assert intake.claimer.is_settled()
    # Nobody renews it any more; once the broker takes letters again it is taken back like any lost attempt.
    member = f"app|{bad.message}|jobs.on"
    intake.client.zadd(intake.keys.leases, {member: 1})
    intake.client.delete(intake.keys.dead_letters)
    passes(intake, 70)
    [(_, letter)] = intake.client.xrange(intake.keys.dead_letters)
    assert (letter["message"], letter["reason"]) == (bad.message, "lost")


def test_tries_in_the_same_second_count_once(intake: Intake) -> None:
    intake.emit(1)
    intake.take_in()
    [claim] = intake.places.started
    intake.client.set(intake.keys.dead_letters, "of another type")
    intake.places.end(claim, Outcome.FAILED)
    passes(intake, 40, step_s=0.1)
    assert intake.told("end-refused") == []
    intake.client.delete(intake.keys.dead_letters)
    passes(intake, 1)
    assert intake.places.started == []
    assert intake.told("run-failed")


@pytest.mark.parametrize(
    "error",
    [
        BrokerUnavailable("the broker cannot serve now: OOM command not allowed"),
        BrokerUnavailable("the broker cannot serve now: READONLY You can't write against a read only replica"),
        BrokerUnavailable("the broker is still loading its data"),
        BrokerUnavailable("the broker cannot serve now: MISCONF"),
    ],
)
def test_what_passes_never_costs_an_end(
    intake: Intake, error: BrokerUnavailable, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake.emit(1)
    intake.take_in()
    [claim] = intake.places.started
    intake.places.end(claim)
    with monkeypatch.context() as patch:
        patch.setattr(
            Invocations, "turn", lambda _self, ended, *_, **__: Turn(ends=[error] * len(ended), bids=[], look=None)
        )
        passes(intake, 60)
    assert (intake.places.started, intake.told("end-refused")) == ([claim], [])
    passes(intake, 1)
    assert intake.told("run-ended")


def test_leases_that_cannot_be_taken_back_keep_no_other_and_are_told_now_and_then(intake: Intake) -> None:
    intake.emit(1)
    intake.take_in()
    [claim] = intake.places.started
    intake.places.started.clear()
    for number in range(150):
        message = f"{number}-0"
        intake.client.zadd(intake.keys.leases, {f"app|{message}|jobs.on": 1})
        intake.client.set(intake.keys.invocations(message), "of another type")
    intake.client.zadd(intake.keys.leases, {f"app|{claim.message}|jobs.on": 2})
    passes(intake, 8)
    [(_, letter)] = intake.client.xrange(intake.keys.dead_letters)
    assert letter["message"] == claim.message, "the one behind them is taken back"
    told = [fact for fact in intake.told("loop-failed") if "cannot be taken back" in fact.reason]
    assert len(told) == 2, "once for each hundred"
    assert not intake.claimer.is_broken


def test_a_damaged_descriptor_ends_as_lost(intake: Intake) -> None:
    intake.emit(1)
    intake.take_in()
    [claim] = intake.places.started
    intake.places.started.clear()
    intake.client.hset(intake.keys.invocations(claim.message), "d:app|jobs.on", "{cut of")
    intake.client.zadd(intake.keys.leases, {f"app|{claim.message}|jobs.on": 1})
    passes(intake, 6)
    [(_, letter)] = intake.client.xrange(intake.keys.dead_letters)
    assert (letter["message"], letter["reason"], letter["handler"]) == (claim.message, "lost", "jobs.on")
    assert intake.client.xlen(intake.keys.events) == 0


def test_claims_that_are_refused_for_good_do_not_hide_what_stands_behind_them(intake: Intake) -> None:
    intake.places.free = 0
    intake.emit(4)
    intake.take_in()
    *bad, good = [message for message, _ in intake.client.xrange(intake.keys.events)]
    for message in bad:
        intake.client.set(intake.keys.invocations(message), "of another type")
    intake.places.free = 3
    passes(intake, 3)
    assert [claim.message for claim in intake.places.started] == [good]
    assert intake.places.free == 2
    [told] = intake.told("loop-failed")
    assert "cannot be claimed" in told.reason
    assert "(and 2 more)" in told.reason


def test_a_worker_that_has_just_started_lets_its_peers_renew_first(intake: Intake) -> None:
    intake.emit(1)
    intake.take_in()
    [claim] = intake.places.started
    intake.places.started.clear()
    intake.client.zadd(intake.keys.leases, {f"app|{claim.message}|jobs.on": 1})
    passes(intake, 1, 2 * RENEW_S - 0.1)
    assert intake.client.xlen(intake.keys.dead_letters) == 0
    passes(intake, 1, 0.2)
    assert intake.client.xlen(intake.keys.dead_letters) == 1
