"""Rounds of claims: however much is due, leases are renewed in time; what is asked for in them, and how often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from support.intake import TEMPLATE, Intake

from relayctl.core.lifecycle import Claim
from relayctl.host.clock import HeldClock
from relayctl.worker.claimer import RENEW_S

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    import redis

STEP_S = 0.1


def test_work_that_never_runs_out_keeps_no_lease_from_being_renewed(
    tmp_path: Path, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = Intake(tmp_path, redis_client, clock=HeldClock(datetime.now(UTC)))
    intake.emit(1)
    intake.take_in()
    [long] = intake.places.started
    intake.claimer.step()
    [(_, before)] = redis_client.zrange(intake.keys.leases, 0, -1, withscores=True)
    intake.places.free = 0
    intake.emit(64)
    intake.take_in()
    intake.places.free = 2
    intake.clock.advance(timedelta(minutes=1))
    submit = intake.places.submit

    def done_at_once(claims: list[Claim]) -> None:
        submit(claims)
        for claim in claims:
            intake.places.end(claim)
        intake.clock.advance(timedelta(seconds=STEP_S))

    monkeypatch.setattr(intake.places, "submit", done_at_once)
    began = intake.clock.monotonic()
    intake.claimer.step()
    assert intake.clock.monotonic() - began <= RENEW_S + STEP_S
    assert redis_client.zcard(intake.keys.ready_of("app")) > 0
    intake.claimer.step()
    assert long in intake.places.started
    leases = dict(redis_client.zrange(intake.keys.leases, 0, -1, withscores=True))
    assert leases[f"app|{long.message}|jobs.on"] > before


def test_more_places_than_were_looked_ahead_for_are_filled_in_one_pass(
    tmp_path: Path, redis_client: redis.Redis
) -> None:
    template = {"app": TEMPLATE.replace("concurrency: 3", "concurrency: 20")}
    intake = Intake(tmp_path, redis_client, templates=template)
    intake.places.free = 0
    intake.emit(20)
    intake.take_in()
    intake.claimer.step()
    intake.places.free = 20
    intake.claimer.step()
    assert len(intake.places.started) == 20


def test_an_end_and_the_next_claim_take_two_round_trips(
    tmp_path: Path, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = Intake(tmp_path, redis_client)
    intake.places.free = 1
    intake.emit(3)
    intake.take_in()
    intake.claimer.step()
    asked: list[str] = []
    for name in ("end_and_look", "look", "due", "claim"):
        act = getattr(intake.invocations, name)
        monkeypatch.setattr(
            intake.invocations, name, lambda *args, act=act, name=name, **more: asked.append(name) or act(*args, **more)
        )
    intake.places.end(intake.places.started[0])
    intake.claimer.step()
    assert (asked, len(intake.places.started)) == (["end_and_look", "claim"], 1)
