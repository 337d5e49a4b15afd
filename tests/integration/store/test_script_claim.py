"""The claim: who gets an invocation, what is pinned, and that only the token's owner hears of it again."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.storedesk import APP, HANDLER, LEASE_MS, SCHEDULE, T0, T0_MS, Desk, check_indexes, descriptor

from relayctl.core.lifecycle import Claim, Kind
from relayctl.errors import BrokerRefused
from relayctl.store.connect import connect
from relayctl.store.invocations import Bid, ClaimRefusal

if TYPE_CHECKING:
    from support.broker import PrivateBroker

SLOT = "@" + SCHEDULE


def scheduled(desk: Desk) -> str:
    """A routed occurrence, ready at T0."""
    desk.register("h1")
    desk.publish(T0)
    [entry] = desk.read()
    desk.route(desk.order(entry))
    return entry.id


def test_claimed_pins_the_descriptor_and_takes_a_lease(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER), event='{"x":"ü"}')
    claim = desk.claimed(message, token="t1")
    assert claim.attempt == 1
    assert claim.descriptor == descriptor(schedule=None)
    assert claim.payload() == '{"x":"ü"}'
    assert desk.invocations.due([(APP, 5)], T0_MS) == []
    assert desk.invocations.ready_apps(T0_MS) == []
    assert desk.invocations.expired(T0_MS + LEASE_MS - 1) == []
    assert desk.invocations.expired(T0_MS + LEASE_MS) == [(APP, message, claim.slot)]


def test_the_same_claim_again_is_the_same_attempt(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    first = desk.claimed(message, token="t1")
    before = desk.contents()
    assert desk.claimed(message, token="t1", now_ms=T0_MS + 500) == first
    assert desk.contents() == before


def test_taken_by_another_and_after_the_end(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    claim = desk.claimed(message, token="t1")
    before = desk.contents()
    assert desk.claim(message, token="t2") is ClaimRefusal.TAKEN
    assert desk.contents() == before
    desk.end(claim)
    assert desk.claim(message, token="t1") is ClaimRefusal.TAKEN
    assert desk.claim("1-1", token="t1") is ClaimRefusal.TAKEN, "a message nobody knows"


def test_a_stale_member_of_the_ready_set_is_cleared_away(desk: Desk) -> None:
    desk.client.zadd(desk.keys.ready_of(APP), {f"1-1|{HANDLER}": T0_MS})
    desk.client.zadd(desk.keys.ready, {APP: T0_MS})
    assert desk.claim("1-1") is ClaimRefusal.TAKEN
    assert desk.invocations.due([(APP, 5)], T0_MS) == []
    assert desk.invocations.next_due_ms() is None


def test_not_before_it_is_due(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    assert desk.end(desk.claimed(message), "failed", now_ms=T0_MS)[1] == T0_MS + 1000
    before = desk.contents()
    assert desk.claim(message, token="t2", now_ms=T0_MS + 999) is ClaimRefusal.LATER
    assert desk.contents() == before
    assert desk.claimed(message, token="t2", now_ms=T0_MS + 1000).attempt == 2


def test_a_later_attempt_adopts_what_is_pinned(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    desk.end(desk.claimed(message, retries=1), "failed", now_ms=T0_MS)
    claim = desk.claimed(message, token="t2", retries=9, revision="r7", now_ms=T0_MS + 1000)
    assert (claim.descriptor.retries, claim.descriptor.revision) == (1, "r1")


def test_obsolete_ends_without_dead_letter(desk: Desk) -> None:
    message = scheduled(desk)
    desk.remove(1)
    assert desk.claim(message, slot=SLOT) is ClaimRefusal.OBSOLETE
    assert [item["verdict"] for item in desk.history(schedule=SCHEDULE)] == ["obsolete"]
    assert (desk.dead_letters(), desk.stream.backlog(), desk.pending()) == ([], 0, {})
    before = desk.contents()
    assert desk.claim(message, slot=SLOT) is ClaimRefusal.TAKEN
    assert desk.contents() == before
    check_indexes(desk, [APP])


def test_what_was_admitted_outlives_its_schedule(desk: Desk) -> None:
    message = scheduled(desk)
    desk.end(desk.claimed(message, slot=SLOT), "failed", now_ms=T0_MS)
    desk.remove(1)
    assert desk.claimed(message, slot=SLOT, token="t2", now_ms=T0_MS + 1000).attempt == 2


def test_a_pin_admits_its_own_revision_alone(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    desk.client.hset(desk.keys.pins, APP, "r2")
    before = desk.contents()
    assert desk.claim(message, revision="r1") is ClaimRefusal.ELSEWHERE
    assert desk.contents() == before, "neither charged nor pinned nor lost from ready"
    assert desk.claimed(message, revision="r2").attempt == 1


def test_a_pin_does_not_hold_up_what_was_admitted_before(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    desk.end(desk.claimed(message, revision="r1"), "failed", now_ms=T0_MS)
    desk.client.hset(desk.keys.pins, APP, "r2")
    assert desk.claimed(message, token="t2", revision="r1", now_ms=T0_MS + 1000).attempt == 2


def test_a_template_without_the_slot_goes_on_with_what_was_admitted(desk: Desk) -> None:
    message = desk.enter((APP, HANDLER))
    nothing = replace(desk.wanted(message), descriptor="")
    before = desk.contents()
    assert desk.invocations.claim([nothing], lease_ms=LEASE_MS, now_ms=T0_MS) == [ClaimRefusal.ELSEWHERE]
    assert desk.contents() == before
    desk.end(desk.claimed(message), "failed", now_ms=T0_MS)
    later = replace(nothing, token="t2")
    [claim] = desk.invocations.claim([later], lease_ms=LEASE_MS, now_ms=T0_MS + 1000)
    assert isinstance(claim, Claim)
    assert claim.descriptor.handler == HANDLER


def test_an_occurrence_whose_registry_is_gone_is_obsolete(desk: Desk) -> None:
    message = scheduled(desk)
    desk.client.delete(desk.keys.schedule(APP, SCHEDULE))
    assert desk.claim(message, slot=SLOT) is ClaimRefusal.OBSOLETE


def test_a_schedules_payload_is_not_our_envelope(desk: Desk) -> None:
    payload = json.loads(desk.claimed(scheduled(desk), slot=SLOT).payload())
    assert payload == {"source": "relay.schedule", "scheduled_at": "2027-01-15T08:00:00Z"}


def test_a_manual_run_runs_unless_its_schedule_is_gone(desk: Desk) -> None:
    desk.register("h1")
    event = '{"source":"relay.manual","app":"shop","schedule":"nightly","scheduled_at":"2027-01-15T08:00:00Z"}'
    message = desk.enter((APP, "!" + SCHEDULE), kind=Kind.MANUAL, event=event)
    claim = desk.claimed(message, slot="!" + SCHEDULE)
    assert json.loads(claim.payload())["source"] == "relay.manual"
    desk.end(claim)
    assert [item["kind"] for item in desk.history(schedule=SCHEDULE)] == ["manual"]
    late = desk.enter((APP, "!" + SCHEDULE), kind=Kind.MANUAL, event=event)
    desk.client.hset(desk.keys.schedule(APP, SCHEDULE), "hash", "tombstone")
    assert desk.claim(late, slot="!" + SCHEDULE) is ClaimRefusal.OBSOLETE


def test_a_descriptor_of_a_newer_peer_spoils_no_other_claim(desk: Desk) -> None:
    odd, plain = desk.enter((APP, HANDLER)), desk.enter((APP, HANDLER))
    desk.client.hset(desk.keys.invocations(odd), f"d:{APP}|{HANDLER}", '{"v":99}')
    wanted = [desk.wanted(message) for message in (odd, plain)]
    answers = desk.invocations.claim(wanted, lease_ms=LEASE_MS, now_ms=T0_MS)
    assert answers[0] is ClaimRefusal.NEWER
    assert isinstance(answers[1], Claim)
    assert desk.state(odd) == ("ready", 0, ""), "nobody who cannot run it charges it an attempt"


@pytest.mark.parametrize("workers", [4])
def test_racing_claims_have_one_winner_each(desk: Desk, broker: PrivateBroker, workers: int) -> None:
    messages = [desk.enter((APP, HANDLER)) for _ in range(30)]

    def race(token: str) -> list[str]:
        client = connect(broker.target)
        try:
            own = Desk(client)
            return [message for message in messages if isinstance(own.claim(message, token=token), Claim)]
        finally:
            client.close()

    with ThreadPoolExecutor(workers) as pool:
        won = [message for mine in pool.map(race, [f"t{n}" for n in range(workers)]) for message in mine]
    assert sorted(won) == sorted(messages)
    assert all((desk.state(message) or ())[1] == 1 for message in messages)


def bid(desk: Desk, bid: Bid) -> list[object]:
    # A turn goes by the server's time, before which all of it was due.
    for item in bid.wanted:
        desk.client.zadd(desk.keys.ready_of(APP), {f"{item.message}|{HANDLER}": 1}, xx=True)
    [answers] = desk.invocations.turn([], [bid], {}, lease_ms=LEASE_MS, due_ms=T0_MS).bids
    return [answer.token if isinstance(answer, Claim) else answer for answer in answers]


def test_of_more_than_there_are_places_the_first_that_are_there_are_granted(desk: Desk) -> None:
    messages = [desk.enter((APP, HANDLER)) for _ in range(4)]
    desk.end(desk.claimed(messages[0], token="peer"))
    wanted = [desk.wanted(message, token=f"t{number}") for number, message in enumerate(messages)]
    granted = [ClaimRefusal.TAKEN, "t1", "t2", ClaimRefusal.LEFT]
    assert bid(desk, Bid(wanted, 2)) == granted
    assert desk.state(messages[3]) == ("ready", 0, "")
    # The answer was lost, and what a peer had is there again: it may not cost a place that was granted behind it.
    desk.client.hset(desk.keys.invocations(messages[0]), f"s:{APP}|{HANDLER}", "ready|1|")
    assert bid(desk, Bid(wanted, 2, is_again=True)) == [ClaimRefusal.LEFT, "t1", "t2", ClaimRefusal.LEFT]
    assert [desk.state(message)[1] for message in messages[1:3]] == [1, 1], "nothing is charged twice"  # type: ignore[index]


def test_one_that_stops_the_step_holds_up_no_other_of_its_bid(desk: Desk) -> None:
    messages = [desk.enter((APP, HANDLER)) for _ in range(3)]
    desk.client.delete(desk.keys.invocations(messages[1]))
    desk.client.set(desk.keys.invocations(messages[1]), "of another type")
    wanted = [desk.wanted(message, token=f"t{number}") for number, message in enumerate(messages)]
    first, second, third = bid(desk, Bid(wanted, 2))
    assert (first, third) == ("t0", "t2")
    assert isinstance(second, BrokerRefused)
