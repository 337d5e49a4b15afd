"""Work of a schedule that was moved: it is run once, under the new name, and overlap is what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.storedesk import APP, SCHEDULE, T0, T0_MS, descriptor, occurrence, order_of

from relayctl.core.lifecycle import Kind, Slot
from relayctl.core.routing import Owed
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.keys import Keys
from relayctl.store.moves import Move, Moves, MoveVerdict
from relayctl.store.stream import Entry, Grant

if TYPE_CHECKING:
    import redis
    from support.storedesk import Desk

    from relayctl.store.definitions import Name

OLD, NEW, FAR = (APP, SCHEDULE), (APP, "renamed"), ("far", "renamed")
KEYS = Keys("relay")


class Workshop:
    """A schedule whose work can be published, routed, claimed and moved."""

    def __init__(self, desk: Desk, client: redis.Redis) -> None:
        self.desk, self.client, self.moves = desk, client, Moves(client, KEYS)
        item = Proposal(app=APP, schedule=SCHEDULE, mode=Mode.START, hash="h", spec="s")
        desk.definitions.register([item], now_ms=T0_MS)
        desk.stream.ensure_group()

    def route(self, at: int, name: Name = OLD, *, token: str = "", overlap: str = "allow") -> tuple[str, list[str]]:
        """Publish a firing, read it and route it under that name; with a token it is claimed at once."""
        [_] = self.desk.stream.publish([occurrence(T0 + at)], f"t{at}", now_ms=T0_MS + at * 1000)
        [entry] = self.desk.stream.read("w1", count=1, block_ms=100)
        return entry.id, self.route_again(entry.id, name, at, token=token, overlap=overlap)

    def route_again(self, entry: str, name: Name, at: int, *, token: str = "", overlap: str = "allow") -> list[str]:
        owed = Owed(kind=Kind.SCHEDULE, event="{}", invocations=((name[0], Slot.of_schedule(name[1])),))
        pinned = descriptor(app=name[0], schedule=name[1], overlap=overlap).to_json()
        grant = Grant(token=token, descriptor=pinned, revision="r1") if token else None
        [(found, _)] = [(item, 0) for item in self._entries() if item.id == entry]
        order = order_of(found, owed, KEYS, grant)
        [answer] = self.desk.stream.route([order], lease_ms=7000, now_ms=T0_MS + at * 1000)
        return answer

    def _entries(self) -> list[Entry]:
        return [Entry(entry, fields) for entry, fields in self.client.xrange(KEYS.events)]  # type: ignore[union-attr]

    def move(self, new: Name, at: int = 30) -> None:
        move = Move(old=OLD, new=new, mode=Mode.EDIT, hash="h", spec="s", held_gen=1)
        assert self.moves.move([move], now_ms=T0_MS + at * 1000) == [MoveVerdict.MOVED]

    def rehome(self, new: Name, at: int = 31) -> int:
        return self.moves.rehome({new: [OLD]}, now_ms=T0_MS + at * 1000)

    def ready(self, app: str) -> dict[str, float]:
        return dict(self.client.zrange(KEYS.ready_of(app), 0, -1, withscores=True))  # type: ignore[arg-type]

    def state(self, entry: str, name: Name) -> str | None:
        return self.client.hget(KEYS.invocations(entry), f"s:{name[0]}|@{name[1]}")  # type: ignore[return-value]

    def marks(self, name: Name) -> list[str | None]:
        return self.client.hmget(KEYS.schedule(*name), "holder", "waiter")  # type: ignore[return-value]


@pytest.fixture
def shop(desk: Desk, redis_client: redis.Redis) -> Workshop:
    return Workshop(desk, redis_client)


@pytest.mark.parametrize("new", [NEW, FAR], ids=["name", "app"])
def test_what_was_ready_is_ready_under_the_new_name(shop: Workshop, new: Name) -> None:
    entry, answer = shop.route(10)
    assert answer == ["ready"]
    shop.move(new)
    assert shop.rehome(new) == 1
    assert shop.ready(new[0]) == {f"{entry}|@{new[1]}": T0_MS + 10_000}
    assert (shop.state(entry, new), shop.state(entry, OLD)) == ("ready|0|", None)
    assert shop.ready(APP).keys() == ({f"{entry}|@{new[1]}"} if new == NEW else set())
    assert shop.client.zscore(KEYS.ready, new[0]) == T0_MS + 10_000
    assert shop.rehome(new) == 0


def test_what_is_routed_after_the_move_is_left_for_the_new_name(shop: Workshop) -> None:
    shop.client.hset(KEYS.schedule(*OLD), "floor", T0)
    [_] = shop.desk.stream.publish([occurrence(T0 + 10)], "t", now_ms=T0_MS + 10_000)
    [entry] = shop.desk.stream.read("w1", count=1, block_ms=100)
    shop.move(NEW)
    assert shop.route_again(entry.id, OLD, 31) == ["moved"]
    assert shop.client.exists(KEYS.invocations(entry.id)) == 0
    assert [item["name"] for item in shop.client.xinfo_consumers(KEYS.events, "relay")] == ["w1"]  # type: ignore[union-attr]
    assert shop.route_again(entry.id, NEW, 31, token="k") == ["claimed"]
    assert shop.state(entry.id, NEW) == "claimed|1|k"


@pytest.mark.parametrize("new", [NEW, FAR], ids=["name", "app"])
def test_a_waiter_goes_on_when_the_run_under_the_old_name_has_ended(shop: Workshop, new: Name) -> None:
    first, answer = shop.route(10, token="k1", overlap="queue")
    assert answer == ["claimed"]
    second, answer = shop.route(20, token="k2", overlap="queue")
    assert answer == ["waiting"]
    shop.move(new)
    assert shop.rehome(new) == 1
    third, answer = shop.route(30, new, token="k3", overlap="queue")
    assert answer == ["waiting"], "what runs under the old name is in the way"
    assert shop.marks(OLD) == [None, None]
    # The one that was ready again by its new name finds that place taken by now.
    shop.client.zrem(KEYS.leases, f"{APP}|{first}|@{SCHEDULE}")
    shop.rehome(new, 40)
    assert shop.marks(new) == [f"{third}|@{new[1]}", None]
    assert f"{third}|@{new[1]}" in shop.ready(new[0])
    assert f"{second}|@{new[1]}" in shop.ready(new[0])


def test_a_name_that_is_used_again_keeps_its_work(shop: Workshop) -> None:
    shop.move(NEW)
    again = Proposal(app=APP, schedule=SCHEDULE, mode=Mode.START, hash="h9", spec="s")
    shop.desk.definitions.register([again], now_ms=T0_MS + 40_000)
    shop.client.zadd(KEYS.ready_of(APP), {f"9-9|@{SCHEDULE}": T0_MS})
    assert shop.rehome(NEW) == 0
    assert list(shop.ready(APP)) == [f"9-9|@{SCHEDULE}"]
