"""What happens to entries that were read and not routed, and to groups, streams and consumers that vanish."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact
from support.storedesk import APP, GROUP, HANDLER, ROUTED, T0_MS, Desk

from relayctl.core.lifecycle import Kind
from relayctl.errors import BrokerUnavailable
from relayctl.store.connect import connect
from relayctl.store.scripts import Scripts
from relayctl.store.stream import Entry

if TYPE_CHECKING:
    from support.broker import PrivateBroker


def test_events_sent_before_the_first_worker_are_seen(desk: Desk) -> None:
    ids = [desk.stream.emit('{"n":1}') for _ in range(3)]
    assert desk.stream.ensure_group() is True
    assert desk.stream.ensure_group() is False
    assert [entry.id for entry in desk.stream.read("w1", count=10, block_ms=1)] == ids
    assert desk.stream.read("w2", count=10, block_ms=1) == []


def test_extra_fields_travel_beside_the_event(desk: Desk) -> None:
    desk.stream.emit('{"n":1}', {"traceparent": "00-a-b-01"})
    [entry] = desk.read()
    assert entry.fields == {"event": '{"n":1}', "traceparent": "00-a-b-01"}


def test_what_a_dead_reader_held_goes_to_another(desk: Desk) -> None:
    ids = [desk.stream.emit('{"n":1}') for _ in range(3)]
    routed = desk.read("w1", count=1)
    desk.route(desk.order(routed[0], (APP, HANDLER), kind=Kind.EVENT))
    desk.read("w1")
    assert desk.stream.take_unrouted("w2", idle_ms=60_000) == [], "not idle for long enough"
    taken = desk.stream.take_unrouted("w2", idle_ms=0)
    assert [entry.id for entry in taken] == ids[1:]
    assert taken[0].fields == {"event": '{"n":1}'}
    assert desk.pending() == {ids[0]: ROUTED, ids[1]: "w2", ids[2]: "w2"}


def test_a_deleted_entry_is_a_ghost_that_goes(desk: Desk) -> None:
    ids = [desk.stream.emit('{"n":1}') for _ in range(2)]
    desk.read("w1")
    desk.client.xdel(desk.keys.events, ids[0])
    assert [entry.id for entry in desk.stream.take_unrouted("w2", idle_ms=0)] == [ids[1]]
    assert desk.pending() == {ids[1]: "w2"}


def test_more_than_one_batch_is_taken_in_turns(desk: Desk) -> None:
    for _ in range(5):
        desk.stream.emit("{}")
    desk.read("w1")
    taken: list[Entry] = []
    while batch := desk.stream.take_unrouted("w2", idle_ms=0, count=2):
        desk.route(*(desk.order(entry, (APP, HANDLER), kind=Kind.EVENT) for entry in batch))
        taken += batch
    assert len(taken) == 5
    assert set(desk.pending().values()) == {ROUTED}


def test_whoever_dies_while_taking_over_leaves_it_to_the_next(desk: Desk) -> None:
    ids = [desk.stream.emit('{"n":1}') for _ in range(3)]
    desk.read("w0")
    for number in range(1, 21):
        # Each takes them over and is killed before it routes any.
        taken = desk.stream.take_unrouted(f"w{number}", idle_ms=0)
        assert [entry.id for entry in taken] == ids
    desk.route(*(desk.order(entry, (APP, HANDLER), kind=Kind.EVENT) for entry in taken))
    assert desk.pending() == dict.fromkeys(ids, ROUTED)


def test_a_group_made_by_five_at_once_is_made_once(desk: Desk, broker: PrivateBroker) -> None:
    sent = desk.stream.emit('{"n":1}')
    start, made = threading.Barrier(5), []

    def make() -> None:
        client = connect(broker.target)
        own = Desk(client)
        start.wait(10)
        made.append(own.stream.ensure_group())
        client.close()

    threads = [threading.Thread(target=make) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False] * 4 + [True]
    assert [entry.id for entry in desk.stream.read("w1", count=10, block_ms=1)] == [sent]


def test_a_destroyed_group_replays_only_unfinished_work(desk: Desk) -> None:
    done, ready, running = (desk.enter((APP, HANDLER)) for _ in range(3))
    desk.end(desk.claimed(done))
    desk.claimed(running)
    desk.client.xgroup_destroy(desk.keys.events, GROUP)
    assert desk.stream.take_unrouted("w1", idle_ms=0) == []
    assert desk.stream.read("w1", count=10, block_ms=1) == [], "the group is made again first"
    again = desk.stream.read("w1", count=10, block_ms=1)
    assert [entry.id for entry in again] == [ready, running]
    before = desk.state(ready), desk.state(running)
    assert desk.route(*(desk.order(entry, (APP, HANDLER), kind=Kind.EVENT) for entry in again)) == [["exists"]] * 2
    assert (desk.state(ready), desk.state(running)) == before
    assert desk.pending() == {ready: ROUTED, running: ROUTED}
    assert len(desk.invocations.due([(APP, 9)], T0_MS)) == 1


@pytest.mark.parametrize("loss", ["destroy", "delete", "flush"])
def test_a_blocked_reader_goes_on_after_the_loss(desk: Desk, broker: PrivateBroker, loss: str) -> None:
    desk.stream.ensure_group()
    client = connect(broker.target, role="reader")
    got: list[Entry] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        reader = Desk(client)
        while not stop.is_set():
            try:
                got.extend(reader.stream.read("w1", count=10, block_ms=200))
            except BrokerUnavailable:
                continue
            except BaseException as error:
                failures.append(error)
                return

    thread = threading.Thread(target=read)
    thread.start()
    try:
        await_fact(lambda: desk.client.info("clients")["blocked_clients"] == 1, "the reader does not block")  # type: ignore[index]
        match loss:
            case "destroy":
                desk.client.xgroup_destroy(desk.keys.events, GROUP)
            case "delete":
                desk.client.delete(desk.keys.events)
            case _:
                desk.client.flushall()
        sent = desk.stream.emit('{"n":1}')
        await_fact(lambda: got or failures, "nothing arrives after the loss")
    finally:
        stop.set()
        thread.join()
        client.close()
    assert failures == []
    assert [entry.id for entry in got] == [sent]


def test_a_consumer_is_forgotten_only_when_it_holds_nothing(desk: Desk) -> None:
    scripts = Scripts(desk.client)
    message = desk.stream.emit("{}")
    [entry] = desk.read("w1")
    before = desk.contents()
    assert scripts.run("forget", [desk.keys.events], [GROUP, "w1"]) == 0
    assert scripts.run("forget", [desk.keys.events], [GROUP, "nobody"]) == 0
    assert desk.contents() == before
    desk.route(desk.order(entry, (APP, HANDLER), kind=Kind.EVENT))
    assert scripts.run("forget", [desk.keys.events], [GROUP, "w1"]) == 1
    assert scripts.run("forget", [desk.keys.events], [GROUP, ROUTED]) == 0
    assert desk.pending() == {message: ROUTED}


def test_only_consumers_long_idle_that_hold_nothing_are_forgotten(desk: Desk) -> None:
    desk.stream.emit("{}")
    desk.stream.ensure_group()
    desk.read("w1")
    desk.client.xgroup_createconsumer(desk.keys.events, GROUP, "w2")
    desk.fleet.forget_consumers()
    assert _consumers(desk) == {"w1", "w2"}
    desk.fleet.forget_consumers(idle_ms=0)
    assert _consumers(desk) == {"w1"}


def test_there_is_nothing_to_forget_without_a_stream(desk: Desk) -> None:
    desk.client.delete(desk.keys.events)
    desk.fleet.forget_consumers()
    assert not desk.client.exists(desk.keys.events)


def _consumers(desk: Desk) -> set[str]:
    return {row["name"] for row in desk.client.xinfo_consumers(desk.keys.events, GROUP)}
