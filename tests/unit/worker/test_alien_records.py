"""A key of one schedule that holds what relayctl did not write: it is named, and all the others go on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact
from support.workbench import Workbench, every, generation

from relayctl.core.checkpoint import Checkpoint
from relayctl.errors import BrokerRefused
from relayctl.store.controls import Controls
from relayctl.store.definitions import Definitions, Mode, Proposal
from relayctl.store.fleet import Holdings
from relayctl.worker.auditor import Auditor
from relayctl.worker.unreadable import AGAIN_S, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD, BAD = ("app", "good"), ("app", "bad")


def two(bench: Workbench) -> None:
    bench.app("app", "name: bad, every: 1s", "name: good, every: 1s")


def spoil(bench: Workbench, kind: str = "schedule") -> str:
    """Put a text in the place of the bad one's record or published set; its key."""
    key: str = getattr(bench.keys, kind)(*BAD)
    bench.client.delete(key)
    bench.client.set(key, "x")
    return key


def named(bench: Workbench) -> list[str]:
    return [fact.schedule for fact in bench.told("schedule-unreadable")]


@pytest.mark.parametrize("kind", ["text", "damaged"])
def test_a_start_registers_and_fires_the_others(bench: Workbench, kind: str) -> None:
    key = spoil(bench)
    if kind == "damaged":
        bench.client.delete(key)
        bench.client.hset(key, mapping={"gen": "one", "hash": "h", "from": "long ago"})
    two(bench)
    bench.look()
    assert bench.scheduler.armed().keys() == {GOOD}
    [fact] = bench.told("schedule-unreadable")
    assert fact.schedule == "bad"
    assert key in fact.reason
    assert "DEL" in fact.reason
    assert bench.told("loop-failed") == []


def test_it_is_named_again_every_ten_minutes(bench: Workbench) -> None:
    spoil(bench)
    two(bench)
    for _ in range(5):
        bench.look(after_s=3)
    assert named(bench) == ["bad"]
    bench.look(after_s=AGAIN_S)
    bench.look(after_s=3)
    assert named(bench) == ["bad", "bad"]


def test_once_the_key_is_taken_away_it_is_registered_anew(bench: Workbench) -> None:
    key = spoil(bench)
    two(bench)
    bench.look()
    bench.client.delete(key)
    bench.look(after_s=3)
    assert bench.scheduler.armed().keys() == {GOOD, BAD}
    assert bench.gen(*BAD) == 1
    assert named(bench) == ["bad"]


def test_a_running_worker_hears_of_changes_of_the_others(bench: Workbench) -> None:
    two(bench)
    bench.look()
    spoil(bench)
    other = generation(every(7), 0)
    bench.definitions.register(
        [Proposal(app="app", schedule="good", mode=Mode.START, hash=other.hash, spec=other.spec)]
    )
    bench.client.delete(bench.keys.definitions_log)
    bench.look(after_s=3)
    assert bench.registrar.behind.keys() == {GOOD}
    assert named(bench) == ["bad"]


def test_an_edit_and_a_removal_reach_the_others(bench: Workbench) -> None:
    two(bench)
    bench.look()
    spoil(bench)
    bench.app("app", "name: bad, every: 3s", "name: good, every: 3s")
    bench.look()
    assert bench.gen(*GOOD) == 2
    bench.app("app")
    bench.settle()
    assert bench.head(*GOOD)["hash"] == "tombstone"
    assert bench.scheduler.armed() == {}


@pytest.mark.parametrize("kind", ["schedule", "published"])
def test_a_tick_publishes_the_others(bench: Workbench, kind: str) -> None:
    two(bench)
    bench.look()
    spoil(bench, kind)

    def is_published() -> bool:
        bench.tick()
        return bool(bench.published(*GOOD))

    await_fact(is_published, "the other is held up")
    assert bench.rescue.recovery.state.value == "running"


def test_a_gap_of_the_others_is_caught_up(bench: Workbench) -> None:
    """What catch-up leaves out is closed first, for all in one batch."""
    two(bench)
    bench.look()
    since = bench.now() - 900
    for name in (GOOD, BAD):
        bench.client.hset(bench.keys.schedule(*name), mapping={"from": since * 1000, "floor": since})
    again = Workbench(bench.client, bench.root, "w2")
    again.look()
    # The worker knows of both gaps when one of the keys is written to.
    spoil(bench)

    def is_caught_up() -> bool:
        again.tick()
        return bool(again.published(*GOOD))

    await_fact(is_caught_up, "the gap of the other is held")
    assert {fact.schedule for fact in again.told("passed-over")} == {"good"}


@pytest.mark.parametrize("act", ["ended pause", "untold act"])
def test_acts_of_operators_on_the_others_go_on(bench: Workbench, act: str) -> None:
    two(bench)
    bench.look()
    controls = Controls(bench.client, bench.keys)
    until = bench.now() - 1 if act == "ended pause" else None
    for name in (GOOD, BAD):
        controls.pause(*name, until=until, by="ann", reason="x", now_ms=(bench.now() - 5) * 1000)
    bench.registrar.refresh([GOOD, BAD])
    spoil(bench)
    bench.look(after_s=3)
    bench.look(after_s=3)
    assert {fact.target for fact in bench.told("control-used")} >= {"app/good"}
    head = bench.definitions.look([GOOD]).heads[GOOD]
    assert (head.paused_at is None, head.is_untold) == (act == "ended pause", False)
    assert named(bench) == ["bad"]


def test_what_is_remembered_of_the_others_is_restored(bench: Workbench) -> None:
    spoil(bench)
    known = [
        Checkpoint(app="app", schedule=name[1], gen=7, hash="h", spec="{}", from_ms=1000, floor=5)
        for name in (BAD, GOOD)
    ]
    assert bench.definitions.restore(known) == 1
    assert bench.gen(*GOOD) == 7


def audited(bench: Workbench) -> Auditor:
    return Auditor(
        closings=bench.closings,
        definitions=bench.definitions,
        peers=bench.peers,
        snapshot=lambda: bench.reconciler.snapshot,
        time=bench.time,
        clock=bench.clock,
        emit=bench.facts.append,
    )


@pytest.mark.parametrize("kind", ["schedule", "published"])
def test_the_audit_goes_on_with_the_others(bench: Workbench, kind: str) -> None:
    since = bench.now() - 600
    for name in (GOOD, BAD):
        made = generation(every(60), since)
        proposal = Proposal(app="app", schedule=name[1], mode=Mode.START, hash=made.hash, spec=made.spec)
        bench.definitions.register([proposal], since * 1000)
    bench.app("app", "name: bad, every: 60s", "name: good, every: 60s")
    bench.fleet.hold("w1", Holdings(apps={"app": "r"}, schedules={}))
    # Nothing was ever published of either, and nobody is to catch it up.
    bench.scheduler.arm = lambda _armed: None  # type: ignore[method-assign]
    bench.look()
    auditor = audited(bench)
    key = spoil(bench, kind)
    bench.facts.clear()
    auditor.step()
    assert [fact.schedule for fact in bench.told("overdue")] == ["good"]
    assert named(bench) == ["bad"]
    bench.client.delete(key)
    bench.clock.advance(timedelta(seconds=31))
    auditor.step()
    # Without its record it is gone, and watched again as soon as it is registered.
    later = {"published": {"bad"}, "schedule": set()}[kind]
    assert {fact.schedule for fact in bench.told("overdue")} == {"good"} | later
    assert named(bench) == ["bad"]


def test_what_is_asked_for_by_name_is_refused_and_a_look_says_which(bench: Workbench) -> None:
    two(bench)
    bench.look()
    spoil(bench)
    with pytest.raises(BrokerRefused, match="did not write there: WRONGTYPE"):
        bench.definitions.heads([BAD])
    found = bench.definitions.look([GOOD, BAD, ("app", "none")])
    assert (found.heads.keys(), found.unreadable.keys()) == ({GOOD}, {BAD})
    assert bench.stream.highest_published([BAD, GOOD])[0] is None
    first, second = bench.closings.accounts([BAD, GOOD])
    assert isinstance(first, BrokerRefused)
    assert second is not None


def test_a_refusal_of_the_server_is_no_matter_of_one_key(bench: Workbench) -> None:
    two(bench)
    bench.look()
    bench.client.execute_command("ACL", "SETUSER", "blind", "reset", "on", "nopass", "~*", "+@all", "-hmget")
    blind = type(bench.client)(
        connection_pool=type(bench.client.connection_pool)(
            **bench.client.connection_pool.connection_kwargs | {"username": "blind", "password": "x"},
            connection_class=bench.client.connection_pool.connection_class,
        )
    )
    try:
        with pytest.raises(BrokerRefused, match="forbids"):
            Definitions(blind, bench.keys).look([GOOD, BAD])
    finally:
        blind.close()
        blind.connection_pool.disconnect()
        bench.client.execute_command("ACL", "DELUSER", "blind")


def test_two_loops_that_meet_it_tell_it_once(bench: Workbench) -> None:
    unreadable = Unreadable(bench.clock, bench.facts.append)
    tell: Callable[[], None] = lambda: unreadable.tell({BAD: BrokerRefused("found", help="way out")})  # noqa: E731
    tell()
    tell()
    assert named(bench) == ["bad"]
