"""What a server that was flushed learns from its workers: the highest floor wins, nothing lies in the future."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import APP, SCHEDULE, T0, T0_MS, Desk, occurrence

from relayctl.core.checkpoint import Checkpoint
from relayctl.errors import ReplyLost
from relayctl.store.controls import Controls
from relayctl.store.definitions import Verdict
from relayctl.store.stream import PublishVerdict, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

REMEMBERED = Checkpoint(
    app=APP, schedule=SCHEDULE, gen=7, hash="h1", spec='{"x":1}', from_ms=T0_MS - 900_000, floor=T0 - 60
)


SPEC = json.dumps({"v": 1, "evaluator": "1", "enabled": True, "every": 10})


def offer(desk: Desk, *checkpoints: Checkpoint) -> int:
    return desk.definitions.restore(checkpoints, T0_MS)


def record(desk: Desk) -> dict[str, str]:
    found: dict[str, str] = desk.client.hgetall(desk.keys.schedule(APP, SCHEDULE))
    return found


def test_an_empty_registry_takes_what_is_remembered(desk: Desk) -> None:
    assert offer(desk, replace(REMEMBERED, paused_at=T0 + 5)) == 1
    head = desk.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE]
    assert (head.gen, head.hash, head.spec, head.from_ms) == (7, "h1", '{"x":1}', T0_MS - 900_000)
    assert (head.floor, head.paused_at) == (T0 - 60, T0 + 5)
    assert desk.definitions.all_names() == {(APP, SCHEDULE)}
    assert desk.definitions.changes_since(0) == [(APP, SCHEDULE)]
    assert offer(desk, replace(REMEMBERED, paused_at=T0 + 5)) == 0
    assert desk.definitions.seq() == 1, "the same again is no change"


def test_the_order_of_offers_does_not_matter(desk: Desk) -> None:
    offers = [
        REMEMBERED,
        replace(REMEMBERED, gen=9, floor=T0 - 300),
        replace(REMEMBERED, from_ms=T0_MS - 1_000_000, floor=T0 - 90),
    ]
    seen = set()
    for order in permutations(offers):
        desk.client.flushall()
        for item in order:
            offer(desk, item)
        kept = record(desk)
        seen.add((kept["gen"], kept["from"], kept["floor"], kept["h:h1"]))
    assert seen == {("9", str(T0_MS - 1_000_000), str(T0 - 60), "9")}


def test_what_ran_is_settled_and_what_did_not_is_owed(desk: Desk) -> None:
    offer(desk, REMEMBERED)
    assert desk.publish(T0 - 60, gen=7).verdict is PublishVerdict.SETTLED
    assert desk.publish(T0 - 59, gen=7).verdict is PublishVerdict.PUBLISHED
    assert desk.register("h1")[0] is Verdict.UNCHANGED


def test_a_worker_that_registered_first_loses_nothing_by_an_offer(desk: Desk) -> None:
    desk.register("h1")
    early = desk.publish(T0)
    assert early.verdict is PublishVerdict.PUBLISHED
    offer(desk, REMEMBERED)
    gens = {item.gen: item for item in desk.definitions.generations(APP, SCHEDULE)}
    assert sorted(gens) == [1, 7]
    assert gens[1].from_ms == gens[1].to_ms, "as a past one it owes nothing"
    assert desk.publish(T0, gen=7).entry == early.entry


def test_another_definition_stays_in_force_and_learns_the_floor(desk: Desk) -> None:
    desk.register("h2")
    offer(desk, REMEMBERED)
    kept = record(desk)
    assert (kept["gen"], kept["hash"], kept["floor"]) == ("1", "h2", str(T0 - 60))


def test_nothing_is_restored_into_the_future(desk: Desk) -> None:
    offer(desk, replace(REMEMBERED, from_ms=T0_MS + 10**9, floor=T0 + 10**6))
    kept = record(desk)
    assert (kept["from"], kept["floor"]) == (str(T0_MS), str(T0))


class _Silent:
    """A connection whose answers do not come."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def read_response(self) -> Any:
        from redis.exceptions import TimeoutError as Silence

        raise Silence("Timeout reading from socket")


@pytest.fixture
def silent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    pool = desk.client.connection_pool
    get = pool.get_connection
    monkeypatch.setattr(pool, "get_connection", lambda *a, **k: _Silent(get(*a, **k)))
    monkeypatch.setattr(pool, "release", lambda connection: None)
    yield desk


@pytest.mark.one_server
def test_an_answer_that_does_not_come_is_told_from_a_refusal(silent: Desk) -> None:
    with pytest.raises(ReplyLost, match="did not answer"):
        silent.definitions.restore([REMEMBERED])


def test_replicas_are_asked_in_the_same_breath(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relayctl.store.replicas.WITHIN_MS", 20)
    desk.register("h1")
    stream = Stream(desk.client, desk.keys)
    [(_, answer)] = stream.publish([occurrence()], "t", now_ms=T0_MS, acks=1)
    assert (answer.verdict, answer.is_safe) == (PublishVerdict.PUBLISHED, False)
    assert json.loads(desk.read()[0].fields["event"])["occurrence_id"].endswith("Z")
    desk.client.script_flush()
    [(_, answer)] = stream.publish([occurrence()], "t", now_ms=T0_MS, acks=1)
    assert (answer.verdict, answer.is_safe) == (PublishVerdict.PUBLISHED, False)
    [(_, answer)] = stream.publish([occurrence()], "t", now_ms=T0_MS)
    assert answer.is_safe


def test_a_pause_comes_back_with_its_end(desk: Desk) -> None:
    offer(desk, replace(REMEMBERED, paused_at=T0 - 50, paused_until=T0 + 50))
    offer(desk, replace(REMEMBERED, schedule="open", paused_at=T0 - 50))
    heads = desk.definitions.heads([(APP, SCHEDULE), (APP, "open")])
    assert [(head.paused_at, head.paused_until) for head in heads.values()] == [(T0 - 50, T0 + 50), (T0 - 50, None)]


def test_a_pause_that_was_forgotten_alone_comes_back_with_its_end(desk: Desk) -> None:
    offer(desk, REMEMBERED)
    offer(desk, replace(REMEMBERED, paused_at=T0 - 50, paused_until=T0 + 50))
    assert (record(desk)["paused"], record(desk)["paused_until"]) == (str(T0 - 50), str(T0 + 50))


def state(desk: Desk) -> tuple[int | None, int | None, str, str]:
    head = desk.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE]
    return head.paused_at, head.paused_until, head.paused_by, head.pause_reason


def test_of_a_pause_and_its_end_the_later_act_counts(desk: Desk) -> None:
    """Whoever was cut off before a resume remembers the pause; what it offers may not bring it back."""
    paused = replace(
        REMEMBERED, paused_at=T0 - 50, paused_until=T0 + 50, paused_by="ann@host", pause_reason="repair", control=10
    )
    resumed = replace(REMEMBERED, control=11)
    renewed = replace(paused, pause_reason="still", paused_until=None, control=12)
    none = (None, None, "", "")
    for offers, expected in (
        ([paused, resumed], none),
        ([paused, resumed, renewed], (T0 - 50, None, "ann@host", "still")),
        ([paused], (T0 - 50, T0 + 50, "ann@host", "repair")),
    ):
        for order in permutations(offers):
            desk.client.flushall()
            for item in order:
                offer(desk, item)
            assert state(desk) == expected, order
            assert [offer(desk, item) for item in order] == [0] * len(order)


def test_an_act_after_the_loss_is_later_than_what_is_remembered(desk: Desk) -> None:
    controls = Controls(desk.client, desk.keys)
    desk.register("h1", spec=SPEC)
    controls.pause(APP, SCHEDULE, until=None, by="ann", reason="old", now_ms=T0_MS - 9000)
    known = desk.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE]
    remembered = replace(
        REMEMBERED, paused_at=known.paused_at, paused_by="ann", pause_reason="old", control=known.control
    )
    desk.client.flushall()
    desk.register("h1", spec=SPEC)
    controls.pause(APP, SCHEDULE, until=None, by="bob", reason="new", now_ms=T0_MS)
    offer(desk, remembered)
    assert state(desk) == (T0, None, "bob", "new")
    controls.resume(APP, SCHEDULE, by="bob", now_ms=T0_MS)
    offer(desk, remembered)
    assert state(desk)[0] is None


def test_acts_are_numbered_upwards_whatever_the_clock_does(desk: Desk) -> None:
    controls = Controls(desk.client, desk.keys)
    desk.register("h1")
    numbers = []
    for at in (T0_MS, T0_MS - 5000, T0_MS - 9000):
        controls.pause(APP, SCHEDULE, until=None, by="ann", reason=str(at), now_ms=at)
        numbers.append(int(record(desk)["control"]))
    assert numbers == [T0_MS, T0_MS + 1, T0_MS + 2]
