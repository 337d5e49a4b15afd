"""A peer's own clock: claims whose lease stands still are taken back also where the broker's time says nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.intake import Intake

from relayctl.host.clock import HeldClock
from relayctl.runners.invocation import Outcome
from relayctl.worker.claimer import LEASE_MS, RENEW_S
from relayctl.worker.leasewatch import LOOK_S, STILL_AFTER_S, LeaseWatch

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from relayctl.core.lifecycle import Claim

HOUR_MS = 3_600_000


@given(
    waits=st.lists(st.floats(0.0, 120.0), min_size=1, max_size=60),
    moves=st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_only_what_was_seen_to_stand_still_for_long_enough_is_told(waits: list[float], moves: list[bool]) -> None:
    watch: LeaseWatch[str] = LeaseWatch()
    now, ends, still_s, seen_s = 0.0, 0, 0.0, 0.0
    watch.look({"a": ends}, now)
    for wait, is_moved in zip(waits, moves, strict=False):
        now += wait
        ends += is_moved
        still_s = 0.0 if is_moved else still_s + wait
        seen_s = 0.0 if is_moved else seen_s + min(wait, 2 * LOOK_S)
        told = watch.look({"a": ends}, now)
        if told:
            assert told == {"a": ends}
            assert still_s >= STILL_AFTER_S
        assert bool(told) == (seen_s >= STILL_AFTER_S)


@given(st.floats(0.0, 1e6), st.integers(1, 40))
def test_a_lease_that_is_renewed_is_never_told(start: float, looks: int) -> None:
    watch: LeaseWatch[str] = LeaseWatch()
    for number in range(looks):
        assert watch.look({"a": number}, start + number * LOOK_S) == {}


def test_a_machine_that_slept_has_not_seen_a_lease_stand_still() -> None:
    watch: LeaseWatch[str] = LeaseWatch()
    watch.look({"a": 1}, 0.0)
    assert watch.look({"a": 1}, 8 * 3600.0) == {}
    watch.forget()
    assert watch.look({"a": 1}, 8 * 3600.0 + STILL_AFTER_S) == {}, "nobody could renew"


@pytest.fixture
def peers(tmp_path: Path, redis_client: redis.Redis) -> tuple[Intake, Intake]:
    clock = HeldClock(datetime.now(UTC))
    return (
        Intake(tmp_path / "one", redis_client, clock=clock, worker="w1"),
        Intake(tmp_path / "two", redis_client, clock=clock, worker="w2"),
    )


def test_a_dead_workers_claim_runs_elsewhere_although_the_brokers_clock_went_back(
    peers: tuple[Intake, Intake],
) -> None:
    dead, peer = peers
    dead.emit(2)
    dead.take_in()
    first, second = dead.places.started
    # What a clock that was an hour ahead had written: by the time it has now, these leases last for another hour.
    for claim in (first, second):
        member = f"app|{claim.message}|jobs.on"
        dead.client.zincrby(dead.keys.leases, HOUR_MS, member)
        dead.client.hset(dead.keys.invocations(claim.message), f"d:app|{claim.slot.text}", _with_retries(claim))
    kept_until = int(dead.client.zscore(dead.keys.leases, f"app|{first.message}|jobs.on"))
    for _ in range(int(STILL_AFTER_S / LOOK_S) + 4):
        peer.clock.advance(timedelta(seconds=LOOK_S))
        # The second one's owner lives, and its renewals go by the clock as it is now.
        dead.invocations.renew([second], lease_ms=LEASE_MS + peer.time.now_ms() % 1000)
        peer.claimer.step()
    assert kept_until - peer.time.now_ms() > HOUR_MS // 2
    assert [claim.message for claim in peer.places.started] == [first.message]
    assert peer.places.started[0].attempt == 2, "the attempt that was lost is charged"
    assert dead.invocations.renew([first, second], lease_ms=LEASE_MS) == [first]


def test_a_long_run_is_never_taken_while_its_worker_renews(peers: tuple[Intake, Intake]) -> None:
    owner, peer = peers
    owner.emit(1)
    owner.take_in()
    [claim] = owner.places.started
    for _ in range(60):
        owner.clock.advance(timedelta(seconds=RENEW_S))
        owner.claimer.step()
        peer.claimer.step()
    assert (peer.places.started, owner.places.stopped) == ([], [])
    owner.places.end(claim, Outcome.SUCCEEDED)
    owner.claimer.step()
    assert owner.places.free == 3
    assert owner.client.xlen(owner.keys.events) == 0


def _with_retries(claim: Claim) -> str:
    return replace(claim.descriptor, retries=3).to_json()
