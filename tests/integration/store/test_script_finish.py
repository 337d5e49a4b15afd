"""The end of an attempt: each outcome, its repetition, and everything that goes with the last one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.storedesk import APP, HANDLER, LEASE_MS, SCHEDULE, T0, T0_MS, attempt, check_indexes, without_budget

from relayctl.store.invocations import ClaimRefusal, EndVerdict

if TYPE_CHECKING:
    from support.storedesk import Desk

SLOT = "@" + SCHEDULE


def test_success_ends_everything(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message)
    assert desk.end(claim) == (EndVerdict.ENDED, None)
    assert (desk.stream.backlog(), desk.pending(), desk.invocations.expired(T0_MS * 2)) == (0, {}, [])
    [record] = desk.history(handler=HANDLER)
    assert record["verdict"] == "succeeded"
    assert (record["message"], record["attempts"], record["of"], record["worker"]) == (message, "1", "3", "w1")
    assert desk.client.hexists(desk.keys.invocations(message), "env") is False, "an ended event is not kept"
    assert 590_000 < desk.client.pttl(desk.keys.invocations(message)) <= 600_000  # type: ignore[operator]
    assert desk.dead_letters() == []


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_an_end_told_twice_is_recorded_once(desk: Desk, outcome: str) -> None:
    claim = desk.claimed(desk.enter((APP, HANDLER)))
    desk.end(claim, outcome, is_retryable=False)
    before = desk.contents()
    assert desk.end(claim, outcome, is_retryable=False) == (EndVerdict.AGAIN, None)
    assert desk.contents() == before


def test_a_failure_is_a_score_in_the_future(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message)
    assert desk.end(claim, "failed", now_ms=T0_MS + 10) == (EndVerdict.RETRY, T0_MS + 1010)
    assert desk.invocations.ready_apps(T0_MS + 1009) == []
    assert desk.invocations.ready_apps(T0_MS + 1010) == [APP]
    assert desk.invocations.next_due_ms() == T0_MS + 1010
    assert (desk.history(handler=HANDLER), desk.dead_letters(), desk.stream.backlog()) == ([], [], 1)
    before = desk.contents()
    assert desk.end(claim, "failed", now_ms=T0_MS + 99) == (EndVerdict.AGAIN, T0_MS + 1010)
    assert desk.contents() == before
    check_indexes(desk, [APP])


def test_three_runs_with_two_retries_then_one_dead_letter(desk: Desk) -> None:
    message, now_ms = desk.enter((APP, HANDLER), event='{"deal":7}'), T0_MS
    for number in (1, 2, 3):
        claim = desk.claimed(message, token=f"t{number}", now_ms=now_ms)
        assert claim.attempt == number
        verdict, due_ms = desk.end(claim, "failed", now_ms=now_ms)
        now_ms = due_ms or now_ms
    assert verdict is EndVerdict.ENDED
    assert now_ms == T0_MS + 3000
    [dead] = desk.dead_letters()
    assert (dead["reason"], dead["attempts"], dead["event"]) == ("exhausted", "3", '{"deal":7}')
    assert (dead["app"], dead["slot"], dead["handler"], dead["replayable"]) == (APP, HANDLER, HANDLER, "1")
    [record] = desk.history(handler=HANDLER)
    assert (record["verdict"], record["attempts"], record["of"]) == ("failed", "3", "3")
    assert desk.stream.backlog() == 0


def test_a_failure_no_retry_cures_is_buried_at_once(desk: Desk) -> None:
    claim = desk.claimed(desk.enter((APP, HANDLER)))
    assert desk.end(claim, "failed", is_retryable=False) == (EndVerdict.ENDED, None)
    assert [dead["attempts"] for dead in desk.dead_letters()] == ["1"]


def test_release_gives_the_attempt_back_uncharged(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message)
    desk.invocations.release([claim], T0_MS + 5)
    assert desk.state(message) == ("ready", 0, claim.token)
    assert desk.invocations.expired(T0_MS * 2) == []
    before = desk.contents()
    assert desk.end(claim, "released") == (EndVerdict.RELEASED, None), "the same again hears the same"
    assert desk.end(claim) == (EndVerdict.LOST, None), "it is nobody's now"
    assert desk.contents() == before
    assert desk.claimed(message, token="t2", now_ms=T0_MS + 5).attempt == 1
    before = desk.contents()
    assert desk.end(claim, "released") == (EndVerdict.LOST, None), "it is somebody else's now"
    assert desk.contents() == before


def test_a_stale_claimer_overwrites_nothing(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    stale = desk.claimed(message, token="t1")
    desk.take_back(message, now_ms=T0_MS + LEASE_MS)
    fresh = desk.claimed(message, token="t2", now_ms=T0_MS + LEASE_MS)
    before = desk.contents()
    for outcome in ("succeeded", "failed", "released"):
        assert desk.end(stale, outcome) == (EndVerdict.LOST, None)
    assert desk.contents() == before
    assert desk.end(fresh) == (EndVerdict.ENDED, None)
    before = desk.contents()
    assert desk.end(stale) == (EndVerdict.LOST, None)
    assert desk.contents() == before


def test_a_retry_that_became_somebody_elses(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    first = desk.claimed(message, token="t1")
    desk.end(first, "failed", now_ms=T0_MS)
    desk.claimed(message, token="t2", now_ms=T0_MS + 1000)
    assert desk.end(first, "failed") == (EndVerdict.LOST, None)


def test_a_token_used_again_ends_only_its_latest_attempt(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    first = desk.claimed(message, retries=1)
    desk.take_back(message, now_ms=T0_MS + LEASE_MS)
    second = desk.claimed(message, now_ms=T0_MS + LEASE_MS)
    assert (first.token, second.token, second.attempt) == ("t1", "t1", 2)
    assert desk.end(first, "failed") == (EndVerdict.LOST, None), "it would have waited for a third attempt"
    assert desk.end(second, "failed") == (EndVerdict.ENDED, None)


def test_an_app_stands_under_its_earliest_due_work(desk: Desk) -> None:
    retried = desk.enter((APP, HANDLER))
    desk.end(desk.claimed(retried), "failed", now_ms=T0_MS)
    assert desk.invocations.next_due_ms() == T0_MS + 1000
    due = desk.enter((APP, HANDLER))
    assert desk.invocations.next_due_ms() == T0_MS
    check_indexes(desk, [APP])
    desk.claimed(due, token="t2")
    assert desk.invocations.next_due_ms() == T0_MS + 1000
    later = desk.enter((APP, HANDLER))
    desk.end(desk.claimed(later, token="t3"), "failed", now_ms=T0_MS + 500)
    assert desk.invocations.next_due_ms() == T0_MS + 1000
    check_indexes(desk, [APP])


def test_the_entry_stays_until_its_last_invocation_ends(desk: Desk) -> None:
    message = desk.enter((APP, "a.one"), (APP, "b.two"), ("mail", "a.one"))
    for app, slot, left in ((APP, "b.two", 1), ("mail", "a.one", 1), (APP, "a.one", 0)):
        claim = desk.claimed(message, app=app, slot=slot, token=f"{app}{slot}")
        assert claim.event == '{"a":1}'
        desk.end(claim)
        assert desk.stream.backlog() == left
        assert len(desk.pending()) == left
        check_indexes(desk, [APP, "mail"])
    assert len(desk.history(handler="a.one")) == len(desk.history(handler="a.one", app="mail")) == 1


def test_an_occurrence_is_recorded_under_its_schedule(desk: Desk) -> None:
    desk.register("h1")
    desk.publish(T0)
    [entry] = desk.read()
    desk.route(desk.order(entry))
    desk.end(desk.claimed(entry.id, slot=SLOT))
    [record] = desk.history(schedule=SCHEDULE)
    assert (record["scheduled_at"], record["kind"], record["handler"]) == (
        "2027-01-15T08:00:00Z",
        "schedule",
        "jobs.nightly.run",
    )


def test_an_entry_that_is_gone_already_is_no_error(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message)
    desk.client.delete(desk.keys.events)
    assert desk.end(claim) == (EndVerdict.ENDED, None)
    assert desk.claim(message) is ClaimRefusal.TAKEN


def test_a_dead_letter_that_is_refused_leaves_the_claim_whole(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message)
    desk.client.set(desk.keys.dead_letters, "no stream")
    [answer] = desk.invocations.end([(without_budget(claim), attempt("failed"))], T0_MS)
    assert isinstance(answer, Exception)
    assert desk.state(message) == ("claimed", 1, "t1")
    assert desk.invocations.expired(T0_MS + LEASE_MS) == [(APP, message, claim.slot)]
    desk.client.delete(desk.keys.dead_letters)
    assert desk.end(claim, "failed", is_retryable=False) == (EndVerdict.ENDED, None)


def test_the_queues_and_histories_are_bounded(desk: Desk) -> None:
    for number in range(1200):
        desk.client.xadd(desk.keys.history_of_handler(APP, HANDLER), {"n": number})
    desk.end(desk.claimed(desk.enter((APP, HANDLER))))
    kept = desk.history(handler=HANDLER)
    assert len(kept) < 1200
    assert len(kept) >= 1000
    assert kept[-1]["verdict"] == "succeeded"


def test_an_occurrences_dead_letter_tells_its_instant(desk: Desk) -> None:
    desk.register("h1")
    desk.publish(T0)
    [entry] = desk.read()
    desk.route(desk.order(entry))
    desk.end(desk.claimed(entry.id, slot=SLOT), "failed", is_retryable=False)
    [dead] = desk.dead_letters()
    assert dead["scheduled_at"] == "2027-01-15T08:00:00Z"
    assert json.loads(dead["event"])["occurrence_id"] == f"schedule:{APP}:{SCHEDULE}:2027-01-15T08:00:00Z"
