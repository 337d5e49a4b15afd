"""What nobody can run: marked since when, wiped by a claim, ended as failed after long, whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import APP, HANDLER, LEASE_MS, SCHEDULE, T0, T0_MS, check_indexes

from relayctl.core.lifecycle import Kind, Slot
from relayctl.store.invocations import ClaimRefusal
from relayctl.store.stranded import Stranded, Strandings
from relayctl.store.stream import Grant

if TYPE_CHECKING:
    from support.storedesk import Desk

DAY_MS = 24 * 3_600_000
SLOT = "@" + SCHEDULE


@pytest.fixture
def strandings(desk: Desk) -> Strandings:
    return Strandings(desk.client, desk.keys)


def stranded(message: str, slot: str = HANDLER, *, is_of_slot: bool = False) -> Stranded:
    return Stranded(app=APP, message=message, slot=Slot(slot), is_of_slot=is_of_slot)


def abandon(strandings: Strandings, item: Stranded, now_ms: int, *, after_ms: int | None = DAY_MS) -> Any:
    [answer] = strandings.abandon([item], by="w9", after_ms=after_ms, now_ms=now_ms)
    return answer


def fire(desk: Desk, at: int = T0) -> str:
    """Publish and route one occurrence; its message."""
    desk.publish(at)
    [entry] = desk.read()
    desk.route(desk.order(entry), now_ms=at * 1000)
    return entry.id


def test_it_ends_a_day_after_the_first_mark_and_not_before(desk: Desk, strandings: Strandings) -> None:
    desk.register("h1")
    message = fire(desk)
    item, seen = stranded(message, SLOT), T0_MS + 5000
    assert abandon(strandings, item, seen) == ("waits", seen)
    assert abandon(strandings, item, seen + DAY_MS - 1) == ("waits", seen)
    assert strandings.marks() == {APP: seen}
    assert abandon(strandings, item, seen + DAY_MS, after_ms=None) == ("waits", seen), "only marks"
    assert abandon(strandings, item, seen + DAY_MS) == ("failed", seen)
    [record], [letter] = desk.history(schedule=SCHEDULE), desk.dead_letters()
    assert (record["verdict"], record["reason"], record["worker"]) == ("failed", "unavailable", "w9")
    assert (record["scheduled_at"], record["kind"], record["attempts"]) == ("2027-01-15T08:00:00Z", "schedule", "0")
    assert (letter["reason"], letter["replayable"], letter["handler"]) == ("unavailable", "1", HANDLER)
    assert letter["detail"] == "no live worker could run it for 24 h"
    assert (letter["app"], letter["slot"], letter["message"]) == (APP, SLOT, message)
    assert (desk.stream.backlog(), desk.pending()) == (0, {})
    before = desk.contents()
    assert abandon(strandings, item, seen + DAY_MS) == ("gone", 0)
    assert desk.contents() == before
    check_indexes(desk, [APP])


def test_it_counts_from_its_own_due_time_where_the_mark_is_older(desk: Desk, strandings: Strandings) -> None:
    desk.register("h1")
    first = fire(desk)
    abandon(strandings, stranded(first, SLOT), T0_MS)
    second = fire(desk, T0 + 3600)
    late = T0_MS + DAY_MS
    assert abandon(strandings, stranded(second, SLOT), late) == ("waits", T0_MS + 3_600_000)
    assert abandon(strandings, stranded(first, SLOT), late)[0] == "failed"
    assert abandon(strandings, stranded(second, SLOT), late + 3_600_000)[0] == "failed"


@pytest.mark.parametrize("is_of_slot", [False, True])
@pytest.mark.parametrize("how", ["claim", "grant"])
def test_whoever_can_run_it_wipes_the_mark(desk: Desk, strandings: Strandings, how: str, is_of_slot: bool) -> None:
    message = desk.enter((APP, HANDLER))
    item = stranded(message, is_of_slot=is_of_slot)
    abandon(strandings, item, T0_MS)
    late = T0_MS + DAY_MS
    if how == "claim":
        claim = desk.claimed(message, now_ms=late - 1)
        desk.invocations.release([claim], late)
    else:
        desk.stream.emit("{}")
        [entry] = desk.read()
        wanted = desk.wanted(entry.id)
        grant = Grant(token="g", descriptor=wanted.descriptor, revision="r1")
        assert desk.route(desk.order(entry, (APP, HANDLER), kind=Kind.EVENT, grant=grant)) == [["claimed"]]
    assert strandings.marks() == {}
    assert abandon(strandings, item, late) == ("waits", late)
    assert desk.claimed(message, token="t2", now_ms=late).attempt == 1, "it simply runs"


def test_a_refused_claim_wipes_nothing(desk: Desk, strandings: Strandings) -> None:
    message = desk.enter((APP, HANDLER))
    desk.client.hset(desk.keys.pins, APP, "another revision")
    abandon(strandings, stranded(message, is_of_slot=True), T0_MS)
    assert desk.claim(message, now_ms=T0_MS + 1) is ClaimRefusal.ELSEWHERE
    assert strandings.marks() == {f"{APP}|{HANDLER}": T0_MS}
    assert abandon(strandings, stranded(message, is_of_slot=True), T0_MS + DAY_MS)[0] == "failed"


def test_what_was_admitted_fails_with_its_contract_and_attempts(desk: Desk, strandings: Strandings) -> None:
    message = desk.enter((APP, HANDLER), event='{"deal":7}')
    claim = desk.claimed(message)
    _, due = desk.end(claim, "failed", now_ms=T0_MS)
    assert due is not None
    assert abandon(strandings, stranded(message), due - 1) == ("gone", 0), "not due yet"
    assert abandon(strandings, stranded(message), due) == ("waits", due)
    assert abandon(strandings, stranded(message), due + DAY_MS) == ("failed", due)
    [letter], [record] = desk.dead_letters(), desk.history(handler=HANDLER)
    assert (letter["descriptor"], letter["event"]) == (claim.descriptor.to_json(), '{"deal":7}')
    assert (record["attempts"], record["of"], record["reason"]) == ("1", "3", "unavailable")


def test_a_holder_lets_its_waiter_go(desk: Desk, strandings: Strandings) -> None:
    desk.register("h1")
    first, second = fire(desk), fire(desk, T0 + 60)
    holder = desk.claimed(first, slot=SLOT, overlap="queue", token="t1")
    assert desk.claim(second, slot=SLOT, overlap="queue", token="t2", now_ms=T0_MS + 61_000) is ClaimRefusal.WAITING
    _, due = desk.end(holder, "failed", now_ms=T0_MS + 62_000)
    assert due is not None
    abandon(strandings, stranded(first, SLOT), due)
    late = due + DAY_MS
    assert abandon(strandings, stranded(second, SLOT), late) == ("gone", 0), "it waits in no ready set"
    assert abandon(strandings, stranded(first, SLOT), late)[0] == "failed"
    assert desk.claimed(second, slot=SLOT, overlap="queue", token="t3", now_ms=late).attempt == 1


def test_a_running_one_and_one_of_a_removed_schedule_are_not_ended(desk: Desk, strandings: Strandings) -> None:
    desk.register("h1")
    message = fire(desk)
    claim = desk.claimed(message, slot=SLOT)
    assert abandon(strandings, stranded(message, SLOT), T0_MS + 2 * DAY_MS) == ("gone", 0)
    desk.invocations.release([claim], T0_MS)
    unadmitted = fire(desk, T0 + 60)
    desk.remove(1, now_ms=T0_MS + 90_000)
    late = T0_MS + 3 * DAY_MS
    assert abandon(strandings, stranded(unadmitted, SLOT), late) == ("obsolete", 0)
    assert desk.take_back(message, slot=SLOT, now_ms=T0_MS + LEASE_MS) == ("gone", 0)


def test_marks_are_cleared_by_name(strandings: Strandings, desk: Desk) -> None:
    for slot in (HANDLER, "jobs.other"):
        abandon(strandings, stranded(desk.enter((APP, slot)), slot, is_of_slot=True), T0_MS)
    strandings.clear([])
    strandings.clear([f"{APP}|{HANDLER}", "nobody"])
    assert strandings.marks() == {f"{APP}|jobs.other": T0_MS}
