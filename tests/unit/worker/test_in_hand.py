"""Claims in hand: how many are worth having, who is left alone, and that what never began is charged nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.intake import TEMPLATE, Intake

from relayctl.core.lifecycle import Claim, Descriptor, Slot
from relayctl.runners.invocation import Ended, Outcome, Run
from relayctl.worker.guests import Turns
from relayctl.worker.inhand import AHEAD_S, HELD_AT_MOST_S, PER_CHILD, REST_S, InHand
from relayctl.worker.ledger import Finished

if TYPE_CHECKING:
    from pathlib import Path

    import redis

CLAIM = Claim(
    message="1-1",
    app="app",
    slot=Slot("jobs.on"),
    token="t.1",
    attempt=1,
    descriptor=Descriptor(
        app="app",
        schedule=None,
        handler="jobs.on",
        timeout_ms=1000,
        timeout_from="default",
        retries=1,
        backoff_ms=(0,),
        input=None,
        overlap="allow",
        revision="r",
    ),
    event="{}",
)
RETRIED = TEMPLATE.replace("retries: 0", "retries: 1")


def claims(count: int, app: str = "app") -> list[Claim]:
    return [replace(CLAIM, message=f"{number}-1", app=app) for number in range(count)]


@pytest.mark.parametrize(
    ("took_s", "worth"),
    [
        (0.0, 2 * PER_CHILD),
        (AHEAD_S / PER_CHILD, 2 * PER_CHILD),
        (AHEAD_S / 2, 4),
        (AHEAD_S, 2),
        (AHEAD_S * 1.01, 0),
    ],
)
def test_what_the_children_get_done_soon_is_worth_having(took_s: float, worth: int) -> None:
    hand = InHand()
    assert hand.room("app", 2, 0.0) == 0, "nothing is known of its runs yet"
    hand.ran("app", took_s)
    assert hand.room("app", 2, 0.0) == worth
    assert hand.room("other", 2, 0.0) == 0
    hand.take(claims(1), 0.0)
    assert hand.room("app", 2, 0.0) == max(0, worth - 1)


def test_one_slow_run_does_not_yet_make_a_fast_app_slow_and_several_do() -> None:
    hand = InHand()
    hand.ran("app", 0.001)
    hand.ran("app", 3 * AHEAD_S)
    assert hand.room("app", 1, 0.0) > 0
    for _ in range(20):
        hand.ran("app", 3 * AHEAD_S)
    assert hand.room("app", 1, 0.0) == 0


def test_what_waits_too_long_is_let_go_of_and_its_app_rests() -> None:
    hand = InHand()
    for app in ("app", "other"):
        hand.ran(app, 0.001)
    hand.take(claims(2), 10.0)
    hand.take(claims(1), 10.2)
    hand.take(claims(1, "other"), 10.2)
    assert hand.late_at() == 10.0 + HELD_AT_MOST_S
    assert hand.late(10.0 + HELD_AT_MOST_S - 0.01) == []
    now = 10.0 + HELD_AT_MOST_S
    assert [claim.app for claim in hand.late(now)] == ["app"] * 3, "what came later waits for the same children"
    hand.ran("app", 0.001)
    assert hand.room("app", 1, now + REST_S - 0.01) == 0
    assert hand.room("app", 1, now + REST_S) > 0
    assert hand.room("other", 1, now) > 0


def test_the_first_that_came_begins_first_and_one_can_be_pulled_out() -> None:
    hand = InHand()
    first, second, third = taken = claims(3)
    hand.take(taken, 0.0)
    assert hand.pull(second)
    assert not hand.pull(second)
    assert (hand.next("app"), hand.next("app")) == (first, third)
    assert (hand.apps(), hand.total(), hand.late_at()) == ([], 0, None)


def test_once_it_is_closed_nothing_is_taken() -> None:
    hand = InHand()
    hand.ran("app", 0.001)
    hand.take(claims(2), 0.0)
    assert hand.close() == claims(2)
    assert not hand.take(claims(1), 0.0)
    assert (hand.total(), hand.room("app", 4, 0.0)) == (0, 0)


def test_guests_take_turns_with_what_is_in_hand() -> None:
    turns = Turns()
    turns.took_guest("app")
    assert turns.kept_for_stream("app") == 0
    assert turns.kept_for_stream("app", is_waiting=True) == 1


def due(root: Path, client: redis.Redis, count: int, template: str = RETRIED) -> Intake:
    """So many events are due, for which there was no place when they were routed."""
    intake = Intake(root, client, templates={"app": template})
    intake.places.free = 0
    intake.emit(count)
    intake.take_in()
    return intake


def test_beyond_the_places_claims_are_taken_in_hand(tmp_path: Path, redis_client: redis.Redis) -> None:
    intake = due(tmp_path, redis_client, 8)
    intake.places.free, intake.places.room = 2, 3
    intake.claimer.step()
    assert (len(intake.places.started), len(intake.places.held)) == (2, 3)
    entries = [claim.message for claim in (*intake.places.started, *intake.places.held)]
    assert entries == sorted(entries), "the first ones begin"
    assert redis_client.zcard(intake.keys.leases) == 5
    assert redis_client.zcard(intake.keys.ready_of("app")) == 3
    assert intake.places.free == 0


def test_with_another_app_that_lacks_children_nothing_is_taken_in_hand(
    tmp_path: Path, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = due(tmp_path, redis_client, 4)
    intake.places.room = 3
    monkeypatch.setattr(intake.places, "is_grown", lambda _app: False)
    intake.claimer.step()
    assert intake.places.held == []
    monkeypatch.undo()
    intake.claimer.wake()
    intake.claimer.step()
    assert len(intake.places.held) == 3


def test_none_is_in_hand_whose_loss_would_end_it(tmp_path: Path, redis_client: redis.Redis) -> None:
    intake = due(tmp_path, redis_client, 4, TEMPLATE)
    intake.places.free, intake.places.room = 1, 3
    intake.claimer.step()
    assert (len(intake.places.started), intake.places.held) == (1, [])
    assert redis_client.zcard(intake.keys.ready_of("app")) == 3


def test_nothing_overtakes_the_last_attempt_of_one(tmp_path: Path, redis_client: redis.Redis) -> None:
    intake = due(tmp_path, redis_client, 3)
    intake.places.free = 1
    intake.claimer.step()
    [first] = intake.places.started
    intake.places.end(first, Outcome.FAILED)
    intake.places.free = -1
    intake.claimer.step()
    # Its backoff has ended.
    redis_client.zadd(intake.keys.ready_of("app"), {f"{first.message}|jobs.on": 1}, xx=True)
    intake.claimer.wake()
    intake.claimer.step()
    intake.places.room = 3
    for _ in range(2):
        intake.claimer.step()
    assert (intake.places.started, intake.places.held) == ([], [])
    intake.places.free = 1
    intake.claimer.wake()
    for _ in range(2):
        intake.claimer.step()
    [again] = intake.places.started
    assert (again.message, again.attempt) == (first.message, 2)
    assert len(intake.places.held) == 2


def test_what_never_began_is_ready_again_uncharged_and_not_told(tmp_path: Path, redis_client: redis.Redis) -> None:
    intake = due(tmp_path, redis_client, 1)
    intake.places.room = 1
    intake.claimer.step()
    [claim] = intake.places.held
    assert intake.state(claim.message) == f"claimed|1|{claim.token}"
    run = Run(
        key=claim.key, app="app", handler="jobs.on", stdin=b"", variables={}, timeout_s=1.0, label="app/jobs.on@1"
    )
    ended = Ended(run=run, outcome=Outcome.REFUSED, reason="", started_at=0.0, finished_at=0.0, started=False)
    intake.places.held, intake.places.started = [], [claim]
    # Once its place is given back none is free, or it would be claimed again at once.
    intake.places.free = -1
    intake.places.finished.append(Finished(claim, ended, 1, 1, has_begun=False))
    intake.claimer.step()
    assert (intake.state(claim.message) or "").startswith("ready|0|")
    assert redis_client.zcard(intake.keys.leases) == 0
    assert (intake.facts, intake.claimer.interrupted, intake.claimer.ended) == ([], 0, 0)
