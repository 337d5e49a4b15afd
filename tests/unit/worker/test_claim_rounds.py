"""Rounds of claims: however much is due, leases are renewed in time; what is asked for in them, and how often."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from support.broker import await_fact
from support.intake import TEMPLATE, Intake, live_app

from relayctl.core.lifecycle import Claim
from relayctl.host.clock import HeldClock
from relayctl.worker.claimer import POLL_S, RENEW_S
from relayctl.worker.snapshot import Snapshot

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


def test_an_end_and_the_next_claim_take_one_round_trip(
    tmp_path: Path, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = Intake(tmp_path, redis_client)
    intake.places.free = 1
    intake.emit(2)
    intake.take_in()
    for _ in range(2):
        # The first look says of which app something is due, the second one what.
        intake.claimer.step()
    asked: list[str] = []
    for name in ("turn", "end", "due", "claim"):
        act = getattr(intake.invocations, name)
        monkeypatch.setattr(
            intake.invocations, name, lambda *args, act=act, name=name, **more: asked.append(name) or act(*args, **more)
        )
    intake.places.end(intake.places.started[0])
    # A place is free as soon as its run has ended.
    intake.places.free = 1
    intake.claimer.step()
    assert (asked, len(intake.places.started)) == (["turn"], 1)


TWO_RULES = TEMPLATE.replace("events: [", "events: [{handler: jobs.run, pattern: {kind: [good]}}, ")


def beside_stranded(tmp_path: Path, client: redis.Redis, count: int) -> Intake:
    """A worker that is refused so many due runs, since its template has lost their rule; it has asked for all once."""
    intake = Intake(tmp_path / "old", client, clock=HeldClock(datetime.now(UTC)), templates={"app": TWO_RULES})
    intake.places.free = 0
    intake.emit(count)
    for _ in range(-(-count // 64)):
        intake.take_in()
    without = TWO_RULES.replace("{handler: jobs.on, pattern: {kind: [go]}, retries: 0}", "").replace(", ]", "]")
    intake.snapshot = Snapshot({"app": live_app(tmp_path / "new", "app", without)}, 2)
    intake.places.free = 3
    intake.clock.advance(timedelta(minutes=1))
    intake.claimer.step()
    return intake


def test_many_stranded_runs_are_not_fetched_with_every_pass(
    tmp_path: Path, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = beside_stranded(tmp_path, redis_client, 150)
    assert len(intake.claimer._passed.left()) == 150
    fetched: list[int] = []
    due = intake.invocations.due

    def counted(wanted: list[tuple[str, int]], now_ms: int) -> object:
        fetched.append(len(wanted))
        return due(wanted, now_ms)

    monkeypatch.setattr(intake.invocations, "due", counted)
    for _ in range(16):
        intake.clock.advance(timedelta(seconds=POLL_S))
        intake.claimer.step()
    assert 0 < sum(fetched) <= 5, "about once a second"
    # What can run here is found behind them within the second all the same, though no hint tells of it.
    intake.places.free = 0
    redis_client.xadd(intake.keys.events, {"event": '{"kind": "good"}'})
    intake.take_in()
    intake.places.free = 3
    intake.clock.advance(timedelta(seconds=1.0))
    intake.claimer.step()
    assert [claim.slot.text for claim in intake.places.started] == ["jobs.run"]


def test_few_stranded_runs_delay_nothing(tmp_path: Path, redis_client: redis.Redis) -> None:
    intake = beside_stranded(tmp_path, redis_client, 20)
    for _ in range(3):
        intake.clock.advance(timedelta(seconds=POLL_S))
        intake.claimer.step()
        assert not intake.claimer._passed.rests("app")


def test_a_broker_that_is_short_of_memory_is_told_once_and_costs_no_claim(
    tmp_path: Path, redis_client: redis.Redis
) -> None:
    intake = Intake(tmp_path, redis_client)
    intake.places.free = 0
    intake.emit(2)
    intake.take_in()
    intake.places.free = 3
    stop, claimer = threading.Event(), intake.claimer
    redis_client.config_set("maxmemory", 1)
    loop = threading.Thread(target=claimer.run, args=(stop,))
    loop.start()
    try:
        await_fact(lambda: claimer.is_broken, "nobody hears of it")
        before = claimer.last_pass_at
        await_fact(lambda: claimer.last_pass_at > before, "it does not try again")
        assert intake.places.free == 3, "no place is kept for what was not granted"
        redis_client.config_set("maxmemory", 0)
        await_fact(lambda: len(intake.places.started) == 2 and not claimer.is_broken, "it does not recover")
    finally:
        redis_client.config_set("maxmemory", 0)
        stop.set()
        claimer.wake()
        loop.join()
    [told] = intake.told("loop-failed")
    assert (told.loop, "maxmemory" in told.reason) == ("claimer", True)
