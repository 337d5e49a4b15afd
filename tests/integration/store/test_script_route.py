"""The routing step: every answer, what it leaves behind, that a repetition is harmless, and that no loss stops it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.storedesk import APP, GROUP, HANDLER, LEASE_MS, ROUTED, SCHEDULE, T0, T0_MS, check_indexes, descriptor

from relayctl.core.lifecycle import Claim, Kind
from relayctl.store.stream import Entry, Grant, RouteOrder

if TYPE_CHECKING:
    from support.storedesk import Desk

SLOT = "@" + SCHEDULE
GRANT = Grant(token="t1", descriptor=descriptor().to_json(), revision="r1")


@pytest.fixture
def entry(desk: Desk) -> Entry:
    """A published occurrence, read but not routed."""
    desk.register("h1")
    desk.publish(T0)
    [read] = desk.read()
    return read


def test_ready_creates_the_invocation_and_keeps_the_entry(desk: Desk, entry: Entry) -> None:
    assert desk.route(desk.order(entry)) == [["ready"]]
    assert desk.state(entry.id, slot=SLOT) == ("ready", 0, "")
    assert desk.invocations.due([(APP, 5)], T0_MS) == [(APP, entry.id, desk.wanted(entry.id, slot=SLOT).slot)]
    assert desk.invocations.ready_apps(T0_MS) == [APP]
    assert desk.invocations.next_due_ms() == T0_MS
    assert desk.pending() == {entry.id: ROUTED}
    assert desk.stream.backlog() == 1


def test_a_grant_is_claimed_at_once_with_its_lease(desk: Desk, entry: Entry) -> None:
    assert desk.route(desk.order(entry, grant=GRANT)) == [["claimed"]]
    assert desk.state(entry.id, slot=SLOT) == ("claimed", 1, "t1")
    assert desk.client.zrange(desk.keys.leases, 0, -1, withscores=True) == [
        [f"{APP}|{entry.id}|{SLOT}", T0_MS + LEASE_MS]
    ]
    assert desk.invocations.next_due_ms() is None
    check_indexes(desk, [APP])


def test_whoever_lost_the_reply_asks_with_the_same_token(desk: Desk, entry: Entry) -> None:
    order = desk.order(entry, grant=GRANT)
    desk.route(order)
    before = desk.contents()
    assert desk.route(order) == [["exists"]]
    claim = desk.claimed(entry.id, slot=SLOT, token="t1")
    assert (claim.attempt, claim.descriptor, claim.event) == (1, descriptor(), entry.fields["event"])
    assert desk.contents() == before


def test_drop_and_dead_end_the_entry(desk: Desk) -> None:
    first, second = (desk.stream.emit('{"n":1}') for _ in range(2))
    desk.read()
    orders = [RouteOrder(id=first, is_dropped=True), RouteOrder(id=second, dead=("reason", "too-large", "size", "5"))]
    assert desk.route(*orders) == [["dropped"], ["dead"]]
    assert desk.dead_letters() == [{"reason": "too-large", "size": "5"}]
    assert desk.pending() == {}
    assert desk.stream.backlog() == 0


def test_one_event_for_several_rules_and_apps(desk: Desk) -> None:
    message = desk.enter((APP, "a.one"), (APP, "b.two"), ("mail", "a.one"))
    assert [desk.state(message, app, slot) for app, slot in ((APP, "a.one"), (APP, "b.two"), ("mail", "a.one"))] == [
        ("ready", 0, "")
    ] * 3
    assert set(desk.invocations.ready_apps(T0_MS)) == {APP, "mail"}
    assert len(desk.invocations.due([(APP, 5), ("mail", 5)], T0_MS)) == 3
    assert len(desk.invocations.due([(APP, 1), ("mail", 5)], T0_MS)) == 2
    check_indexes(desk, [APP, "mail"])


@pytest.mark.parametrize("grant", [None, GRANT])
def test_obsolete_when_the_schedule_was_removed_before(desk: Desk, entry: Entry, grant: Grant | None) -> None:
    desk.remove(1)
    order = desk.order(entry, grant=grant)
    assert desk.route(order) == [["obsolete"]]
    assert desk.stream.backlog() == 0
    assert desk.pending() == {}
    assert [item["verdict"] for item in desk.history(schedule=SCHEDULE)] == ["obsolete"]
    assert desk.dead_letters() == []
    before = desk.contents()
    assert desk.route(order) == [["exists"]]
    assert desk.contents() == before


def test_a_pin_on_another_revision_leaves_it_ready(desk: Desk, entry: Entry) -> None:
    desk.client.hset(desk.keys.pins, APP, "r2")
    assert desk.route(desk.order(entry, grant=GRANT)) == [["elsewhere"]]
    assert desk.state(entry.id, slot=SLOT) == ("ready", 0, "")
    assert desk.client.hexists(desk.keys.invocations(entry.id), f"d:{APP}|{SLOT}") is False
    assert desk.claimed(entry.id, slot=SLOT, revision="r2").descriptor.revision == "r2"


def test_a_batch_is_answered_in_order(desk: Desk, entry: Entry) -> None:
    ids = [desk.stream.emit(json.dumps({"n": number})) for number in range(4)]
    entries = desk.read()
    assert [item.id for item in entries] == ids
    answers = desk.route(
        RouteOrder(id=ids[0], is_dropped=True),
        desk.order(entries[1], (APP, HANDLER), ("mail", HANDLER), kind=Kind.EVENT),
        desk.order(entry, grant=GRANT),
        RouteOrder(id=ids[2], dead=("reason", "x")),
        desk.order(entries[3], (APP, HANDLER), kind=Kind.EVENT, grant=GRANT),
    )
    assert answers == [["dropped"], ["ready", "ready"], ["claimed"], ["dead"], ["claimed"]]


def test_the_event_reaches_the_claim_as_it_came(desk: Desk) -> None:
    event = (
        '{"a": "\\u0000 \\ud800 \\"", "π": "🦊\u2028", "n": 12345678901234567890, "deep": '
        + "[" * 300
        + "]" * 300
        + "}"
    )
    message = desk.enter((APP, HANDLER), event=event)
    assert desk.claimed(message).event == event


def test_a_replay_of_finished_work_is_closed(desk: Desk, entry: Entry) -> None:
    desk.route(desk.order(entry, grant=GRANT))
    desk.end(desk.claimed(entry.id, slot=SLOT))
    desk.client.xadd(desk.keys.events, {"event": "{}"}, id="9999999999999-1")
    ghost = Entry("9999999999999-1", {"event": "{}"})
    desk.client.rename(desk.keys.invocations(entry.id), desk.keys.invocations(ghost.id))
    assert desk.route(desk.order(ghost, grant=GRANT)) == [["exists"]]
    assert desk.stream.backlog() == 0


@pytest.mark.parametrize("grant", [None, GRANT])
@pytest.mark.parametrize("lost", ["group", "stream"])
def test_group_or_stream_lost_between_reading_and_routing(
    desk: Desk, entry: Entry, lost: str, grant: Grant | None
) -> None:
    if lost == "group":
        desk.client.xgroup_destroy(desk.keys.events, GROUP)
    else:
        desk.client.delete(desk.keys.events)
    answers = desk.route(desk.order(entry, grant=grant))
    assert answers == [["ready" if grant is None else "claimed"]]
    again = desk.read("w2")
    assert [item.id for item in again] == ([entry.id] if lost == "group" else [])
    assert desk.route(*(desk.order(item, grant=grant) for item in again)) == [["exists"]] * len(again)
    claim = desk.claimed(entry.id, slot=SLOT)
    assert isinstance(claim, Claim)
    assert (claim.attempt, claim.event) == (1, entry.fields["event"])
    assert desk.end(claim)[0].value == "ended"
    assert desk.stream.backlog() == 0
    assert desk.pending() == {}
    assert len(desk.history(schedule=SCHEDULE)) == 1
