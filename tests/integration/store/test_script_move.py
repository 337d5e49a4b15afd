"""A schedule under a new name: what goes along, what stays behind, and what cannot happen twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.storedesk import APP, EVERY_10_S, SCHEDULE, T0, T0_MS, occurrence

from relayctl.store.definitions import Mode, Proposal, Verdict
from relayctl.store.keys import Keys
from relayctl.store.moves import Move, Moves, MoveVerdict
from relayctl.store.stream import Publication, PublishVerdict

if TYPE_CHECKING:
    import redis
    from support.storedesk import Desk

    from relayctl.store.definitions import Head, Name

OLD, NEW, OTHER = (APP, SCHEDULE), (APP, "renamed"), ("other", "far")
KEYS = Keys("relay")


@pytest.fixture
def moves(redis_client: redis.Redis) -> Moves:
    return Moves(redis_client, KEYS)


def propose(desk: Desk, name: Name, hash_: str = "h1", mode: Mode = Mode.START, held: int = 0, at: int = 0) -> Verdict:
    item = Proposal(app=name[0], schedule=name[1], mode=mode, hash=hash_, spec=EVERY_10_S, held_gen=held)
    [answer] = desk.definitions.register([item], now_ms=T0_MS + at)
    assert isinstance(answer, tuple)
    return answer[0]


def moved(
    moves: Moves,
    new: Name = NEW,
    old: Name = OLD,
    *,
    hash_: str = "h1",
    mode: Mode = Mode.EDIT,
    held: int = 1,
    at: int = 0,
) -> MoveVerdict:
    move = Move(old=old, new=new, mode=mode, hash=hash_, spec=EVERY_10_S, held_gen=held)
    [answer] = moves.move([move], now_ms=T0_MS + at)
    assert isinstance(answer, MoveVerdict)
    return answer


def head(desk: Desk, name: Name) -> Head:
    return desk.definitions.heads([name])[name]


def publish(desk: Desk, at: int, name: Name = OLD, gen: int = 1, token: str = "t1") -> Publication:
    item = occurrence(T0 + at, gen, app=name[0], schedule=name[1])
    [(found, answer)] = desk.stream.publish([item], token, now_ms=T0_MS + at * 1000)
    assert found is item
    assert isinstance(answer, Publication)
    return answer


@pytest.mark.parametrize("new", [NEW, OTHER], ids=["name", "app"])
def test_everything_of_the_record_goes_along(desk: Desk, moves: Moves, redis_client: redis.Redis, new: Name) -> None:
    propose(desk, OLD)
    published = publish(desk, 10)
    redis_client.hset(KEYS.schedule(*OLD), mapping={"paused": T0 + 20, "paused_by": "ann", "paused_why": "works"})
    redis_client.hset(KEYS.schedule(*OLD), mapping={"floor": T0, "control": 7, "holder": "1-1|@nightly"})
    assert moved(moves, new, at=30_000) is MoveVerdict.MOVED

    here, there = head(desk, new), head(desk, OLD)
    assert (here.gen, here.hash, here.from_ms, here.floor, here.highest_published) == (1, "h1", T0_MS, T0, T0 + 10)
    assert (here.paused_at, here.paused_by, here.pause_reason, here.control) == (T0 + 20, "ann", "works", 7)
    assert (here.moved_from, here.moved_to) == ((OLD,), None)
    assert (there.hash, there.moved_to, there.paused_at, there.floor) == ("tombstone", new, None, T0 + 30)
    assert desk.definitions.all_names() == {new}
    assert desk.definitions.removed_names() == []
    again = publish(desk, 10, new, token="t2")
    assert (again.verdict, again.entry) == (PublishVerdict.DUPLICATE, published.entry)
    assert redis_client.ttl(KEYS.schedule(*new)) == -1 < redis_client.ttl(KEYS.schedule(*OLD))
    holder = redis_client.hget(KEYS.schedule(*new), "holder")
    assert holder == ("1-1|@nightly" if new == NEW else f"1-1|@nightly|{APP}")
    assert desk.definitions.changes_since(1) == sorted([OLD, new])


def test_it_happens_once(desk: Desk, moves: Moves) -> None:
    assert moved(moves) is MoveVerdict.NOTHING
    propose(desk, OLD)
    assert moved(moves) is MoveVerdict.MOVED
    seq = desk.definitions.seq()
    assert moved(moves) is MoveVerdict.NOTHING
    propose(desk, OTHER)
    assert moved(moves, NEW, OTHER) is MoveVerdict.TAKEN
    assert head(desk, NEW).moved_from == (OLD,)
    assert desk.definitions.seq() == seq + 1


def test_another_definition_begins_with_the_move_and_owes_what_the_old_one_did(desk: Desk, moves: Moves) -> None:
    propose(desk, OLD)
    moved(moves, hash_="h2", at=25_000)
    assert [(each.gen, each.hash, each.from_ms, each.to_ms) for each in desk.definitions.generations(*NEW)] == [
        (1, "h1", T0_MS, T0_MS + 25_000),
        (2, "h2", T0_MS + 25_000, None),
    ]


def test_a_worker_that_knows_the_old_name_alone_publishes_under_the_new_one(
    desk: Desk, moves: Moves, redis_client: redis.Redis
) -> None:
    propose(desk, OLD)
    before = publish(desk, 10)
    moved(moves, at=15_000)
    moved(moves, OTHER, NEW, at=16_000)
    assert publish(desk, 10).entry == before.entry
    first = publish(desk, 20)
    assert first.verdict is PublishVerdict.PUBLISHED
    assert publish(desk, 20, OTHER, token="t2").verdict is PublishVerdict.DUPLICATE
    [(_, fields)] = redis_client.xrange(KEYS.events, first.entry, first.entry)  # type: ignore[misc]
    assert f'"occurrence_id":"schedule:{OTHER[0]}:{OTHER[1]}:' in fields["event"]


def test_moving_back_is_for_a_live_edit_and_for_nobody_who_is_late(desk: Desk, moves: Moves) -> None:
    propose(desk, OLD)
    moved(moves, at=5_000)
    publish(desk, 10, NEW)
    assert propose(desk, OLD, at=11_000) is Verdict.BEHIND
    assert moved(moves, OLD, NEW, mode=Mode.START, held=0, at=11_000) is MoveVerdict.BEHIND
    assert moved(moves, OLD, NEW, at=12_000) is MoveVerdict.MOVED
    back = head(desk, OLD)
    assert (back.gen, back.highest_published, back.moved_from, back.moved_to) == (1, T0 + 10, (NEW,), None)
    assert head(desk, NEW).moved_to == OLD
    assert publish(desk, 10, NEW, token="t9").verdict is PublishVerdict.DUPLICATE
    assert publish(desk, 20, NEW, token="t9").verdict is PublishVerdict.PUBLISHED
    assert publish(desk, 20, OLD, token="t3").verdict is PublishVerdict.DUPLICATE


def test_where_a_name_leads_is_followed_to_its_end(desk: Desk, moves: Moves) -> None:
    propose(desk, OLD)
    moved(moves)
    moved(moves, OTHER, NEW)
    assert moves.homes([OLD, NEW, OTHER, ("no", "such")]) == {OLD: OTHER, NEW: OTHER}
    assert head(desk, OTHER).moved_from == (NEW, OLD)


def test_a_name_that_is_used_again_leads_nowhere_and_owes_nothing_of_before(desk: Desk, moves: Moves) -> None:
    propose(desk, OLD)
    moved(moves, at=25_000)
    assert propose(desk, OLD, "h9", at=40_000) is Verdict.CHANGED
    fresh = head(desk, OLD)
    assert (fresh.moved_to, fresh.floor, fresh.from_ms) == (None, T0 + 25, T0_MS + 40_000)
    assert moves.homes([OLD]) == {}
    assert publish(desk, 50, OLD, gen=3).verdict is PublishVerdict.PUBLISHED


def test_a_key_that_is_no_record_of_ours_is_refused_alone(desk: Desk, moves: Moves, redis_client: redis.Redis) -> None:
    propose(desk, OLD)
    redis_client.set(KEYS.schedule(*OTHER), "what is this")
    odd = Move(old=OTHER, new=("x", "y"), mode=Mode.EDIT, hash="h1", spec=EVERY_10_S)
    good = Move(old=OLD, new=NEW, mode=Mode.EDIT, hash="h1", spec=EVERY_10_S)
    refused, done = moves.move([odd, good])
    assert done is MoveVerdict.MOVED
    assert not isinstance(refused, MoveVerdict)
    assert not refused.is_retryable
