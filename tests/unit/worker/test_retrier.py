"""The retrier on a real broker and a real file: every row ends with its answer, and a bad one blocks no other."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import APP, SCHEDULE, Desk

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.intent import MOST_ROWS, Intent
from relayctl.core.occurrence import Occurrence, from_epoch
from relayctl.errors import BrokerUnavailable
from relayctl.host.clock import HeldClock
from relayctl.host.outbox import Outbox
from relayctl.store.closings import Closings
from relayctl.worker.retrier import BATCH, Retrier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

    from relayctl.core.facts import Fact

LEASE = timedelta(seconds=20)


class Bench:
    """A retrier, its outbox and a schedule in force since an hour ago."""

    def __init__(self, client: redis.Redis, folder: Path) -> None:
        self.desk = Desk(client)
        self.client: Any = client
        self.path = folder / "state.db"
        self.now = int(self.client.time()[0])
        self.clock = HeldClock(datetime.fromtimestamp(self.now, UTC))
        self.facts: list[Fact] = []
        self.settled: list[tuple[tuple[str, str], int]] = []
        self.is_current = True
        self.outbox = Outbox(self.path, self.clock, lambda *_: None)
        self.desk.definitions.restore(
            [
                Checkpoint(
                    app=APP,
                    schedule=SCHEDULE,
                    gen=1,
                    hash="h",
                    spec='{"enabled":true,"evaluator":1,"every":1,"v":1}',
                    from_ms=(self.now - 3600) * 1000,
                    floor=self.now - 3600,
                )
            ]
        )
        self.retrier = self.another("t1")

    def another(self, token: str, **changes: Any) -> Retrier:
        known: dict[str, Any] = {
            "outbox": self.outbox,
            "stream": self.desk.stream,
            "closings": Closings(self.client, self.desk.keys, "w1"),
            "keeper": None,
            "is_current": lambda: self.is_current,
            "now_ms": lambda: self.now * 1000,
            "on_settled": lambda name, at: self.settled.append((name, at)),
            "token": token,
            "clock": self.clock,
            "emit": self.facts.append,
        }
        return Retrier(**known | changes)

    def intent(self, ago: int, *, token: str = "t0", schedule: str = SCHEDULE, **changes: Any) -> Intent:
        occurrence = Occurrence(
            app=APP, schedule=schedule, handler="jobs.run", scheduled_at=from_epoch(self.now - ago), gen=1
        )
        return Intent(occurrence=occurrence, token=token, attempts=5, first_failed_at=from_epoch(self.now), **changes)

    def put(self, *intents: Intent) -> None:
        self.outbox.put(intents, holder="dead", lease=LEASE)
        self.outbox.release([item.occurrence.id for item in intents], "dead")

    def published(self) -> list[int]:
        record = self.client.hgetall(self.desk.keys.published(APP, SCHEDULE))
        return sorted(self.now - int(at) for at, state in record.items() if state.startswith("p|"))

    def told(self, event: str) -> list[Any]:
        return [fact for fact in self.facts if fact.event == event]

    def damage(self, sql: str) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(sql)
        connection.close()


@pytest.fixture
def bench(redis_client: redis.Redis, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(redis_client, tmp_path)
    yield made
    made.outbox.close()


def test_what_failed_is_published_and_its_row_goes(bench: Bench) -> None:
    bench.put(bench.intent(30), bench.intent(20, token="t9"))
    assert bench.retrier.drain() == 2
    assert (bench.published(), bench.outbox.count()) == ([20, 30], 0)
    assert sorted(bench.settled) == [((APP, SCHEDULE), bench.now - 30), ((APP, SCHEDULE), bench.now - 20)]
    assert [fact.late for fact in bench.told("published-late")] == [timedelta(seconds=30), timedelta(seconds=20)]


def test_an_attempt_that_had_won_is_heard_by_its_token(bench: Bench) -> None:
    intent = bench.intent(30, is_ambiguous=True)
    [(_, won)] = bench.desk.stream.publish([intent.occurrence], "t0")
    bench.put(intent)
    bench.retrier.drain()
    assert bench.outbox.count() == 0
    assert bench.told("published")[0].entry == won.entry
    assert bench.desk.stream.backlog() == 1


def test_what_a_peer_published_or_closed_is_settled(bench: Bench) -> None:
    ours, closed = bench.intent(30), bench.intent(7200)
    list(bench.desk.stream.publish([ours.occurrence], "peer"))
    bench.put(ours, closed)
    bench.retrier.drain()
    assert bench.outbox.count() == 0
    assert [fact.event for fact in bench.facts] == ["duplicate"]
    assert bench.desk.stream.backlog() == 1


def test_an_early_one_waits(bench: Bench) -> None:
    bench.put(bench.intent(-60))
    bench.retrier.drain()
    [row] = bench.outbox.rows()
    assert (row.rounds, row.holder, bench.settled) == (1, "", [])
    assert "early" in str(row.intent and row.intent.last_error)


def test_a_schedule_that_is_gone_is_settled_and_a_server_that_is_new_settles_nothing(bench: Bench) -> None:
    bench.put(bench.intent(30, schedule="gone"))
    bench.is_current = False
    bench.retrier.drain()
    assert bench.outbox.count() == 1
    bench.is_current = True
    bench.retrier.drain(is_first=True)
    assert bench.outbox.count() == 0


def test_bad_rows_stay_are_told_once_and_block_nothing(bench: Bench) -> None:
    bench.put(*(bench.intent(ago) for ago in (50, 40, 30)))
    bench.damage(f"UPDATE intents SET app = 'other' WHERE id = '{bench.intent(50).occurrence.id}'")
    bench.damage(f"UPDATE intents SET v = 99 WHERE id = '{bench.intent(40).occurrence.id}'")
    for _ in range(5):
        while bench.retrier.drain():
            pass
        bench.clock.advance(timedelta(minutes=10))
    assert bench.published() == [30]
    assert [row.rounds for row in bench.outbox.rows()] == [5, 5]
    assert sorted(fact.row for fact in bench.told("outbox-row-bad")) == [row.id for row in bench.outbox.rows()]
    assert bench.client.hgetall(bench.desk.keys.published("other", SCHEDULE)) == {}


def test_waits_grow_and_end_at_ten_minutes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(bench.intent(30))

    def away(*_: Any, **__: Any) -> Any:
        raise BrokerUnavailable("the broker cannot be reached")

    monkeypatch.setattr(bench.desk.stream, "publish", away)
    waits = []
    for _ in range(8):
        with pytest.raises(BrokerUnavailable):
            bench.retrier.drain()
        [row] = bench.outbox.rows()
        waits.append((row.next_at - bench.clock.now()).total_seconds())
        assert bench.retrier.drain() == 0, "not before its wait is over"
        bench.clock.advance(timedelta(seconds=waits[-1]))
    assert waits == [5, 15, 30, 120, 300, 600, 600, 600]
    assert row.intent is not None and (row.intent.attempts, row.intent.last_error) == (
        13,
        "the broker cannot be reached",
    )


def test_a_stalled_call_whose_lease_ended_deletes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another retrier takes the row while the first one is still in its call: one entry, and no row too few or many."""
    bench.put(bench.intent(30))
    publish, entered, go_on = bench.desk.stream.publish, threading.Event(), threading.Event()

    def stalled(*arguments: Any, **options: Any) -> Any:
        if not entered.is_set():
            entered.set()
            assert go_on.wait(10)
        return publish(*arguments, **options)

    monkeypatch.setattr(bench.desk.stream, "publish", stalled)
    slow = threading.Thread(target=bench.retrier.drain)
    slow.start()
    assert entered.wait(10)
    assert bench.another("t2").drain() == 0, "it is held"
    bench.clock.advance(timedelta(seconds=31))
    bench.put(bench.intent(20))
    assert bench.another("t2").drain() == 2
    go_on.set()
    slow.join(10)
    assert (bench.published(), bench.desk.stream.backlog(), bench.outbox.count()) == ([20, 30], 2, 0)


def test_rows_go_in_batches_and_a_failure_frees_what_was_not_tried(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(*(bench.intent(ago, token=f"t{ago % 2}", is_ambiguous=True) for ago in range(1, BATCH + 11)))
    publish = bench.desk.stream.publish

    def away(occurrences: Any, token: str, **options: Any) -> Any:
        raise BrokerUnavailable("away")

    monkeypatch.setattr(bench.desk.stream, "publish", away)
    with pytest.raises(BrokerUnavailable):
        bench.retrier.drain()
    rows = bench.outbox.rows()
    assert {row.holder for row in rows} == {""}
    assert len([row for row in rows if row.rounds]) == BATCH // 2
    monkeypatch.setattr(bench.desk.stream, "publish", publish)
    assert bench.retrier.drain(is_first=True) == BATCH
    assert bench.retrier.drain() == 10
    assert bench.desk.stream.backlog() == BATCH + 10


def test_too_many_rows_cost_the_oldest_that_surely_was_not_published(bench: Bench) -> None:
    oldest = [bench.intent(300, is_ambiguous=True), bench.intent(299), bench.intent(298)]
    bench.put(*oldest, *(bench.intent(ago) for ago in range(1, MOST_ROWS)))
    while bench.retrier.drain(is_first=True):
        pass
    assert bench.outbox.count() == 0
    assert bench.published() == [*range(1, MOST_ROWS), 300]
    assert [int(fact.scheduled_at.timestamp()) for fact in bench.told("outbox-given-up")] == [
        bench.now - 299,
        bench.now - 298,
    ]


def test_what_too_few_replicas_have_stays(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relayctl.store.replicas.WITHIN_MS", 10)
    bench.put(bench.intent(30))
    asking = bench.another("t1", acks=1)
    asking.drain()
    bench.clock.advance(timedelta(seconds=5))
    asking.drain()
    assert (bench.published(), bench.desk.stream.backlog()) == ([30], 1)
    [row] = bench.outbox.rows()
    assert row.intent is not None and row.intent.last_error == "too few replicas have it"


def test_the_loop_works_off_what_is_there_and_ends_at_once(bench: Bench) -> None:
    bench.put(*(bench.intent(ago) for ago in range(1, 2 * BATCH + 1)))
    stop = threading.Event()
    loop = threading.Thread(target=bench.retrier.run, args=(stop,))
    loop.start()
    assert bench.clock.await_waiters(1)
    assert bench.outbox.count() == 0
    stop.set()
    bench.retrier.wake()
    loop.join(5)
    assert not loop.is_alive()
    assert bench.told("loop-failed") == []


def test_what_it_publishes_says_by_whom_and_how(bench: Bench) -> None:
    """History shows both of a firing, however often it had to be tried."""
    caught_up = bench.intent(200)
    caught_up = replace(caught_up, occurrence=replace(caught_up.occurrence, marks=("caught_up",)))
    bench.outbox.put([bench.intent(100), caught_up, bench.intent(0)], holder="gone", lease=timedelta(0))
    bench.another("t2", by="web-1-aaaa1111").drain(is_first=True)
    found = {item["scheduled_at"]: (item["by"], item.get("marks", [])) for item in bench.desk.envelopes()}
    assert [found[at] for at in sorted(found)] == [
        ("web-1-aaaa1111", ["caught_up"]), ("web-1-aaaa1111", ["late"]), ("web-1-aaaa1111", []),
    ]  # fmt: skip
    late = [fact for fact in bench.facts if fact.event == "published-late"]
    assert sorted(fact.is_catch_up for fact in late) == [False, True]  # type: ignore[attr-defined]
