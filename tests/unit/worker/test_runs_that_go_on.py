"""Runs that nobody else has taken over go on, whatever became of the broker's memory or of a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.intake import Intake

from relayctl.errors import BrokerUnavailable
from relayctl.host.clock import HeldClock
from relayctl.store.readmission import Readmission
from relayctl.worker.claimer import RENEW_S

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from relayctl.core.lifecycle import Claim


@pytest.fixture
def worker(redis_client: redis.Redis, tmp_path: Path) -> Intake:
    """One worker with a held clock, in the broker's first epoch."""
    made = Intake(tmp_path, redis_client, clock=HeldClock(datetime.now(UTC)))
    made.client.set(made.keys.epoch, "first")
    return made


def begun(worker: Intake, count: int = 1) -> list[Claim]:
    """Running attempts whose leases were renewed once."""
    worker.emit(count)
    worker.take_in()
    renewed(worker)
    assert len(worker.places.started) == count
    return list(worker.places.started)


def renewed(worker: Intake) -> None:
    worker.clock.advance(timedelta(seconds=RENEW_S))
    worker.claimer.step()


def verdicts(worker: Intake) -> list[str]:
    key = worker.keys.history_of_handler("app", "jobs.on")
    return [fields["verdict"] for _, fields in worker.client.xrange(key)]


@pytest.mark.parametrize("epoch", ["second", None], ids=["marked again", "not marked yet"])
def test_a_flush_ends_no_run_and_its_end_is_recorded(worker: Intake, epoch: str | None) -> None:
    claims = begun(worker, 2)
    worker.client.flushall()
    if epoch:
        worker.client.set(worker.keys.epoch, epoch)
    renewed(worker)
    assert worker.places.stopped == []
    assert [fact.message for fact in worker.facts if fact.event == "run-readmitted"] == [it.message for it in claims]
    renewed(worker)
    for claim in claims:
        worker.places.end(claim)
    worker.claimer.step()
    assert verdicts(worker) == ["succeeded"] * 2
    assert worker.client.zcard(worker.keys.leases) == 0
    assert len([fact for fact in worker.facts if fact.event == "run-readmitted"]) == 2


def test_an_end_straight_after_a_flush_is_recorded(worker: Intake) -> None:
    [claim] = begun(worker)
    worker.client.flushall()
    worker.places.end(claim)
    worker.claimer.step()
    worker.claimer.step()
    assert verdicts(worker) == ["succeeded"]
    assert worker.places.free == 3


def test_a_broker_that_goes_away_between_costs_no_end(worker: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = begun(worker, 2)
    worker.client.delete(worker.keys.invocations(claims[0].message))
    worker.client.set(worker.keys.epoch, "second")

    def gone(*_: object, **__: object) -> list[Claim]:
        raise BrokerUnavailable("connection refused")

    for claim in claims:
        worker.places.end(claim)
    with monkeypatch.context() as patch:
        patch.setattr(Readmission, "readmit", gone)
        with pytest.raises(BrokerUnavailable):
            worker.claimer.step()
    worker.claimer.step()
    worker.claimer.step()
    assert verdicts(worker) == ["succeeded"] * 2
    assert (worker.places.free, worker.places.started) == (3, [])


def test_a_record_that_is_missing_in_the_same_epoch_was_ended_by_a_peer(worker: Intake) -> None:
    [claim] = begun(worker)
    worker.client.delete(worker.keys.invocations(claim.message))
    renewed(worker)
    assert worker.places.stopped == [claim]
    assert not worker.client.exists(worker.keys.invocations(claim.message))


def test_a_run_that_a_peer_took_over_is_not_taken_from_it_after_a_flush(worker: Intake) -> None:
    [claim] = begun(worker)
    worker.client.hset(worker.keys.invocations(claim.message), f"s:app|{claim.slot.text}", "claimed|2|somebody")
    worker.client.set(worker.keys.epoch, "second")
    renewed(worker)
    assert worker.places.stopped == [claim]


def test_a_clock_that_jumps_costs_a_run_nothing(worker: Intake) -> None:
    [claim] = begun(worker)
    renewed(worker)
    renewed(worker)
    # No lease is due for renewal yet, and by the broker's clock, which is ahead by two hours now, all ended long ago.
    [(member, _)] = worker.client.zrange(worker.keys.leases, 0, -1, withscores=True)
    worker.client.zincrby(worker.keys.leases, -7_200_000, member)
    now = worker.clock.monotonic()
    worker.time.learn(worker.time.now_ms() + 7_200_000, now, now)
    for _ in range(8):
        worker.clock.advance(timedelta(seconds=RENEW_S / 2))
        worker.claimer.step()
    assert (worker.places.stopped, worker.places.started) == ([], [claim])
    worker.places.end(claim)
    worker.claimer.step()
    assert verdicts(worker) == ["succeeded"]
