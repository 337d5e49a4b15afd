"""Leases: renewed while the attempt lives, taken back when its worker does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.storedesk import APP, HANDLER, LEASE_MS, SCHEDULE, T0, T0_MS, check_indexes

from relayctl.store.invocations import ClaimRefusal, EndVerdict

if TYPE_CHECKING:
    from support.storedesk import Desk

ENDED_MS = T0_MS + LEASE_MS
SLOT = "@" + SCHEDULE


def test_a_lease_that_lasts_is_left_alone(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    desk.claimed(message)
    before = desk.contents()
    assert desk.take_back(message, now_ms=ENDED_MS - 1) == ("alive", 0)
    assert desk.contents() == before


def test_an_ended_lease_is_ready_at_once_and_charged(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message)
    assert desk.take_back(message, now_ms=ENDED_MS) == ("ready", 1)
    assert desk.state(message) == ("ready", 1, "")
    assert desk.invocations.due([(APP, 1)], ENDED_MS) == [(APP, message, claim.slot)]
    before = desk.contents()
    assert desk.take_back(message, now_ms=ENDED_MS) == ("gone", 0)
    assert desk.contents() == before
    assert desk.claimed(message, token="t2", now_ms=ENDED_MS).attempt == 2
    check_indexes(desk, [APP])


def test_without_budget_it_ends_as_lost_with_all_that_is_known(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER), event='{"deal":7}')
    claim = desk.claimed(message, retries=0)
    assert desk.take_back(message, now_ms=ENDED_MS) == ("failed", 1)
    [dead] = desk.dead_letters()
    assert (dead["reason"], dead["attempts"], dead["event"], dead["handler"]) == ("lost", "1", '{"deal":7}', HANDLER)
    assert (dead["app"], dead["slot"], dead["message"]) == (APP, HANDLER, message)
    assert dead["descriptor"] == claim.descriptor.to_json()
    [record] = desk.history(handler=HANDLER)
    assert (record["verdict"], record["reason"], record["worker"]) == ("failed", "lost", "w9")
    assert (record["attempts"], record["of"], record["handler"], record["kind"]) == ("1", "1", HANDLER, "event")
    assert (desk.stream.backlog(), desk.pending()) == (0, {})
    before = desk.contents()
    assert desk.take_back(message, now_ms=ENDED_MS) == ("gone", 0)
    assert desk.end(claim) == (EndVerdict.LOST, None)
    assert desk.contents() == before


def test_a_lost_occurrence_tells_its_instant(desk: Desk) -> None:
    desk.register("h1")
    desk.publish(T0)
    [entry] = desk.read()
    desk.route(desk.order(entry))
    desk.claimed(entry.id, slot=SLOT, retries=0)
    assert desk.take_back(entry.id, slot=SLOT, now_ms=ENDED_MS) == ("failed", 1)
    [record], [dead] = desk.history(schedule=SCHEDULE), desk.dead_letters()
    assert record["scheduled_at"] == dead["scheduled_at"] == "2027-01-15T08:00:00Z"


def test_a_crash_on_every_attempt_reaches_the_dead_letters(desk: Desk) -> None:
    bad, good = desk.enter((APP, HANDLER)), desk.enter((APP, HANDLER))
    now_ms = T0_MS
    for number in (1, 2, 3):
        assert desk.claimed(bad, token=f"t{number}", now_ms=now_ms).attempt == number
        now_ms += LEASE_MS
        assert desk.take_back(bad, now_ms=now_ms)[0] == ("ready" if number < 3 else "failed")
    assert [dead["message"] for dead in desk.dead_letters()] == [bad]
    assert desk.end(desk.claimed(good)) == (EndVerdict.ENDED, None)


def test_a_claim_that_ended_in_time_is_gone(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message)
    desk.client.hset(desk.keys.invocations(message), f"s:{APP}|{HANDLER}", "succeeded|1|t1")
    assert desk.take_back(message, now_ms=ENDED_MS) == ("gone", 0)
    assert desk.invocations.expired(ENDED_MS) == [], f"the lease of {claim.key} is no longer offered"


def test_renewal_moves_the_end_and_tells_what_is_lost(desk: Desk) -> None:
    messages = [desk.enter((APP, HANDLER)) for _ in range(4)]
    claims = [desk.claimed(message, token=f"t{n}") for n, message in enumerate(messages)]
    desk.take_back(messages[1], now_ms=ENDED_MS)
    desk.claimed(messages[1], token="other", now_ms=ENDED_MS)
    desk.end(claims[2])
    lost = desk.invocations.renew(claims, lease_ms=LEASE_MS, now_ms=T0_MS + 2000)
    assert lost == [claims[1], claims[2]]
    before = desk.contents()
    assert desk.invocations.renew(claims, lease_ms=LEASE_MS, now_ms=T0_MS + 2000) == lost
    assert desk.contents() == before
    assert [message for _, message, _ in desk.invocations.expired(ENDED_MS + 2000)] == [messages[0], messages[3]]
    assert desk.invocations.expired(ENDED_MS + 1999) == []
    assert desk.invocations.renew([], lease_ms=LEASE_MS) == []


def test_renewal_of_two_invocations_of_one_message(desk: Desk) -> None:
    message = desk.enter((APP, "a.one"), ("mail", "a.one"))
    claims = [desk.claimed(message, app=app, slot="a.one", token=app) for app in (APP, "mail")]
    assert desk.invocations.renew(claims, lease_ms=LEASE_MS, now_ms=T0_MS + 1) == []


def test_a_renewal_by_a_stale_claimer_extends_nothing(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    stale = desk.claimed(message, token="t1")
    desk.take_back(message, now_ms=ENDED_MS)
    desk.claimed(message, token="t2", now_ms=ENDED_MS)
    before = desk.contents()
    assert desk.invocations.renew([stale], lease_ms=999_999, now_ms=ENDED_MS) == [stale]
    assert desk.contents() == before


def test_due_and_ended_work_of_a_deleted_stream_still_runs(desk: Desk) -> None:
    ready, leased = desk.enter((APP, HANDLER), event='{"n":1}'), desk.enter((APP, HANDLER), event='{"n":2}')
    desk.claimed(leased)
    desk.client.delete(desk.keys.events)
    desk.read()
    first = desk.claimed(ready, token="t2")
    assert first.event == '{"n":1}'
    assert desk.end(first) == (EndVerdict.ENDED, None)
    assert desk.take_back(leased, now_ms=ENDED_MS) == ("ready", 1)
    second = desk.claimed(leased, token="t3", now_ms=ENDED_MS)
    assert (second.attempt, second.event) == (2, '{"n":2}')
    assert desk.end(second) == (EndVerdict.ENDED, None)
    assert len(desk.history(handler=HANDLER)) == 2
    assert desk.claim(leased, now_ms=ENDED_MS) is ClaimRefusal.TAKEN


def test_all_leases_are_seen_however_many_there_are(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message)
    others = {f"{APP}|{number}-0|{HANDLER}": T0_MS for number in range(10_500)}
    desk.client.zadd(desk.keys.leases, others)
    leases = desk.invocations.leases()
    assert len(leases) == 10_501
    assert leases[APP, message, claim.slot] == ENDED_MS, "the one that ends last"
