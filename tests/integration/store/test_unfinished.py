"""Runs that have not ended: what runs, what is to be tried again, what waits; those of other names left out."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.storedesk import APP, HANDLER, SCHEDULE, T0, T0_MS, Desk

from relayctl.core.lifecycle import Claim, Slot
from relayctl.core.occurrence import from_epoch
from relayctl.core.underway import Underway
from relayctl.store.unfinished import Unfinished

SLOT = "@" + SCHEDULE
SLOTS = (Slot.of_schedule(SCHEDULE), Slot.of_manual(SCHEDULE))
AT = from_epoch(T0)


@pytest.fixture
def shop(desk: Desk) -> Desk:
    desk.register("h1")
    return desk


def arrive(desk: Desk, number: int) -> str:
    desk.publish(T0 + number, now_ms=T0_MS + 60_000)
    [entry] = desk.read()
    desk.route(desk.order(entry))
    return entry.id


def begin(desk: Desk, message: str, overlap: str = "allow") -> Claim:
    claim = desk.claim(message, slot=SLOT, overlap=overlap, token=f"t-{message}")
    assert isinstance(claim, Claim), claim
    return claim


def found(desk: Desk, limit: int = 20) -> list[Underway]:
    return Unfinished(desk.client, desk.keys).of(APP, SLOTS, limit=limit)


def test_each_run_stands_where_it_is(shop: Desk) -> None:
    messages = [arrive(shop, number) for number in range(4)]
    shop.end(begin(shop, messages[0]))
    shop.end(begin(shop, messages[1]), outcome="failed")
    begin(shop, messages[2])
    shop.enter((APP, HANDLER))
    waiting, running, retrying = found(shop)
    assert [run.message for run in (waiting, running, retrying)] == messages[:0:-1]
    assert (waiting.state, waiting.attempts, waiting.handler, waiting.due_at) == ("waiting", 0, "", AT)
    assert (running.state, running.attempts, running.attempts_allowed) == ("running", 1, 3)
    assert (running.handler, running.due_at, running.scheduled_at) == (HANDLER, None, AT + timedelta(seconds=2))
    assert (retrying.state, retrying.attempts) == ("retrying", 1)
    assert retrying.due_at is not None and retrying.due_at > AT


def test_few_are_those_that_run(shop: Desk) -> None:
    messages = [arrive(shop, number) for number in range(5)]
    begin(shop, messages[1])
    assert [run.message for run in found(shop, limit=1)] == [messages[1]]
    assert [run.message for run in found(shop, limit=2)] == [messages[4], messages[1]]


def test_one_that_waits_for_another_run_is_there(shop: Desk) -> None:
    first, second = arrive(shop, 0), arrive(shop, 1)
    begin(shop, first, "queue")
    assert not isinstance(shop.claim(second, slot=SLOT, overlap="queue", token="t2"), Claim)
    waiting, running = found(shop)
    assert (waiting.message, waiting.state, waiting.due_at) == (second, "waiting", None)
    assert (running.message, running.state) == (first, "running")


def test_an_event_run_is_found_by_its_handler(shop: Desk) -> None:
    message = shop.enter((APP, HANDLER), ("crm", HANDLER))
    shop.claimed(message, slot=HANDLER)
    [run] = Unfinished(shop.client, shop.keys).of(APP, (Slot(HANDLER),), limit=5)
    assert (run.message, run.state, run.kind, run.scheduled_at) == (message, "running", "event", None)
    assert run.published_at is not None
    assert found(shop) == []
