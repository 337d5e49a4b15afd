"""Overlap: one run of a schedule at a time, where its template says so, whoever ends it and however."""

from __future__ import annotations

import json

import pytest
from support.storedesk import APP, LEASE_MS, SCHEDULE, T0, T0_MS, Desk, check_indexes

from relayctl.core.lifecycle import Claim, Kind, Slot
from relayctl.core.occurrence import from_epoch
from relayctl.store.history import History
from relayctl.store.invocations import ClaimRefusal, EndVerdict
from relayctl.store.stream import Grant

SLOT = "@" + SCHEDULE
MANUAL = "!" + SCHEDULE
MANUAL_EVENT = '{"source":"relay.manual","app":"shop","schedule":"nightly","scheduled_at":"2027-01-15T08:00:00Z"}'


@pytest.fixture
def shop(desk: Desk) -> Desk:
    """A desk with the test schedule registered."""
    desk.register("h1")
    return desk


def arrive(desk: Desk, number: int) -> str:
    """Publish and route the occurrence of that second; its message."""
    desk.publish(T0 + number, now_ms=T0_MS + 60_000)
    [entry] = desk.read()
    assert desk.route(desk.order(entry)) == [["ready"]]
    return entry.id


def ask(desk: Desk, message: str, overlap: str, *, slot: str = SLOT, now_ms: int = T0_MS, token: str = "t") -> object:
    return desk.claim(message, slot=slot, overlap=overlap, token=f"{token}-{message}", now_ms=now_ms)


def run(desk: Desk, message: str, overlap: str, *, slot: str = SLOT, now_ms: int = T0_MS) -> Claim:
    answer = ask(desk, message, overlap, slot=slot, now_ms=now_ms)
    assert isinstance(answer, Claim), answer
    return answer


def marks(desk: Desk) -> tuple[str | None, str | None]:
    """Messages of holder and waiter."""
    holder, waiter = desk.client.hmget(desk.keys.schedule(APP, SCHEDULE), "holder", "waiter")  # type: ignore[misc]
    return holder and holder.partition("|")[0], waiter and waiter.partition("|")[0]


def test_allow_runs_side_by_side(shop: Desk) -> None:
    first, second = arrive(shop, 0), arrive(shop, 1)
    shop.end(run(shop, first, "allow"))
    claims = [run(shop, second, "allow"), run(shop, arrive(shop, 2), "allow")]
    assert marks(shop)[0] == second
    for claim in reversed(claims):
        shop.end(claim)
    assert marks(shop) == (None, None)


def test_skip_ends_what_finds_another_unfinished(shop: Desk) -> None:
    first, second, third = (arrive(shop, number) for number in range(3))
    claim = run(shop, first, "skip")
    assert ask(shop, second, "skip") is ClaimRefusal.SKIPPED
    assert ask(shop, second, "skip") is ClaimRefusal.TAKEN
    assert [(item["verdict"], item["reason"]) for item in shop.history(schedule=SCHEDULE)] == [
        ("skipped", f"another run had not ended: {first}")
    ]
    assert set(shop.entries()) == {first, third}
    shop.end(claim)
    shop.end(run(shop, third, "skip"))
    assert shop.stream.backlog() == 0
    assert marks(shop) == (None, None)


def test_an_edit_to_skip_sees_a_run_that_was_admitted_before(shop: Desk) -> None:
    claim = run(shop, arrive(shop, 0), "allow")
    assert ask(shop, arrive(shop, 1), "skip") is ClaimRefusal.SKIPPED
    shop.end(claim)


def test_backoff_counts_as_running(shop: Desk) -> None:
    first = arrive(shop, 0)
    assert shop.end(run(shop, first, "skip"), "failed")[0] is EndVerdict.RETRY
    assert ask(shop, arrive(shop, 1), "skip") is ClaimRefusal.SKIPPED
    shop.end(run(shop, first, "skip", now_ms=T0_MS + 5000))
    run(shop, arrive(shop, 2), "skip")


def test_a_claim_handed_back_keeps_its_place(shop: Desk) -> None:
    first = arrive(shop, 0)
    shop.invocations.release([run(shop, first, "skip")], T0_MS)
    assert ask(shop, arrive(shop, 1), "skip") is ClaimRefusal.SKIPPED
    run(shop, first, "skip", now_ms=T0_MS + 1)


def test_queue_keeps_one_waiting_and_joins_the_others_to_it(shop: Desk) -> None:
    first, second, third, fourth = (arrive(shop, number) for number in range(4))
    claim = run(shop, first, "queue")
    # The first to arrive waits, whatever its instant.
    assert ask(shop, third, "queue") is ClaimRefusal.WAITING
    assert ask(shop, third, "queue", token="again") is ClaimRefusal.WAITING
    assert ask(shop, second, "queue") is ClaimRefusal.COALESCED
    assert marks(shop) == (first, third)
    assert shop.history(schedule=SCHEDULE)[0]["reason"] == f"run {third} stands for it"
    assert [item[1] for item in shop.invocations.due([(APP, 9)], T0_MS + 9000)] == [fourth]

    shop.end(claim)
    assert marks(shop) == (third, None)
    check_indexes(shop, [APP])
    # Nobody takes the place of the one that waited.
    assert ask(shop, fourth, "queue") is ClaimRefusal.WAITING
    shop.end(run(shop, third, "queue", now_ms=T0_MS + 10))
    shop.end(run(shop, fourth, "queue", now_ms=T0_MS + 20))
    assert shop.stream.backlog() == 0
    assert marks(shop) == (None, None)
    assert [item["verdict"] for item in shop.history(schedule=SCHEDULE)] == [
        "coalesced", "succeeded", "succeeded", "succeeded",
    ]  # fmt: skip


def test_a_holder_whose_worker_died_wedges_nothing(shop: Desk) -> None:
    first, second = arrive(shop, 0), arrive(shop, 1)
    assert isinstance(shop.claim(first, slot=SLOT, overlap="queue", retries=0), Claim)
    assert ask(shop, second, "queue") is ClaimRefusal.WAITING
    assert shop.take_back(first, slot=SLOT, now_ms=T0_MS + LEASE_MS) == ("failed", 1)
    assert marks(shop) == (second, None)
    shop.end(run(shop, second, "queue", now_ms=T0_MS + LEASE_MS))
    assert marks(shop) == (None, None)


def test_a_holder_that_a_hand_deleted_wedges_nothing(shop: Desk) -> None:
    first, second, third = (arrive(shop, number) for number in range(3))
    run(shop, first, "queue")
    assert ask(shop, second, "queue") is ClaimRefusal.WAITING
    shop.client.delete(shop.keys.invocations(first), shop.keys.leases)
    assert ask(shop, third, "queue") is ClaimRefusal.WAITING
    assert marks(shop) == (second, third)
    shop.end(run(shop, second, "queue"))


def test_a_schedule_that_is_removed_lets_go_of_its_waiter(shop: Desk) -> None:
    first, second = arrive(shop, 0), arrive(shop, 1)
    claim = run(shop, first, "queue")
    assert ask(shop, second, "queue") is ClaimRefusal.WAITING
    shop.remove(1)
    shop.end(claim)
    assert ask(shop, second, "queue", now_ms=T0_MS + 10) is ClaimRefusal.OBSOLETE
    assert marks(shop) == (None, None)
    assert shop.stream.backlog() == 0


def test_manual_runs_count_too(shop: Desk) -> None:
    by_hand = shop.enter((APP, MANUAL), kind=Kind.MANUAL, event=MANUAL_EVENT)
    claim = run(shop, by_hand, "skip", slot=MANUAL)
    assert ask(shop, arrive(shop, 0), "skip") is ClaimRefusal.SKIPPED
    shop.end(claim)
    claim = run(shop, arrive(shop, 1), "queue")
    second = shop.enter((APP, MANUAL), kind=Kind.MANUAL, event=MANUAL_EVENT)
    assert ask(shop, second, "queue", slot=MANUAL) is ClaimRefusal.WAITING
    shop.end(claim)
    shop.end(run(shop, second, "queue", slot=MANUAL, now_ms=T0_MS + 10))
    assert marks(shop) == (None, None)


def test_a_pin_comes_before_overlap(shop: Desk) -> None:
    first, second = arrive(shop, 0), arrive(shop, 1)
    run(shop, first, "skip")
    shop.client.hset(shop.keys.pins, APP, "r9")
    assert ask(shop, second, "skip") is ClaimRefusal.ELSEWHERE
    shop.client.hdel(shop.keys.pins, APP)
    assert ask(shop, second, "skip") is ClaimRefusal.SKIPPED


@pytest.mark.parametrize(("overlap", "expected"), [("skip", "skipped"), ("queue", "waiting"), ("allow", "claimed")])
def test_a_claim_made_while_routing_is_decided_alike(shop: Desk, overlap: str, expected: str) -> None:
    for number in range(2):
        shop.publish(T0 + number, now_ms=T0_MS + 60_000)
    entries = shop.read()
    wanted = shop.wanted("-", slot=SLOT, overlap=overlap)
    orders = [
        shop.order(entry, grant=Grant(token=f"t-{entry.id}", descriptor=wanted.descriptor, revision="r1"))
        for entry in entries
    ]
    assert shop.route(*orders) == [["claimed"], [expected]]
    check_indexes(shop, [APP])
    first = shop.claim(entries[0].id, slot=SLOT, token=f"t-{entries[0].id}")
    assert isinstance(first, Claim)
    shop.end(first)
    if overlap == "queue":
        run(shop, entries[1].id, "queue", now_ms=T0_MS + 10)
    assert json.loads(wanted.descriptor)["overlap"] == overlap
    assert Slot(SLOT).schedule == SCHEDULE


def test_who_asks_hears_which_run_waits_for_another(shop: Desk) -> None:
    first, second = arrive(shop, 0), arrive(shop, 1)
    claim = run(shop, first, "queue")
    assert ask(shop, second, "queue") is ClaimRefusal.WAITING
    assert [live_state(shop, first, 0), live_state(shop, second, 1)] == ["claimed", "waiting"]
    shop.end(claim)
    assert live_state(shop, second, 1) == "ready"


def live_state(desk: Desk, message: str, number: int) -> str | None:
    now = from_epoch(T0 + 60)
    found = History(desk.client, desk.keys).evidence(APP, SCHEDULE, [T0 + number], now=now, workers=[])
    assert found is not None
    return found.live[message].state
