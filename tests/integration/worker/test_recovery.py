"""What becomes of a publication that fails: rows, retries, states of the scheduler, a broker that has forgotten."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import Proxy, RawServer, await_fact
from support.workbench import Workbench, every, generation

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.intent import Intent
from relayctl.core.model import CatchUp
from relayctl.core.occurrence import Occurrence, from_epoch
from relayctl.host.clock import SystemClock
from relayctl.host.database import Database
from relayctl.store.connect import Target, connect, ping
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.scripts import Scripts, source
from relayctl.worker.agenda import Armed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis
    from support.broker import BrokerFactory, PrivateBroker


def arm(
    bench: Workbench, seconds: int = 1, *, since: int, name: str = "tick", policy: CatchUp = CatchUp.LATEST
) -> None:
    """Register a schedule as of `since` and arm it; nothing up to then is owed."""
    made = generation(every(seconds, name), since)
    proposal = Proposal(app="app", schedule=name, mode=Mode.START, hash=made.hash, spec=made.spec)
    bench.definitions.register([proposal], since * 1000)
    armed = Armed(
        app="app",
        schedule=name,
        handler="jobs.run",
        jitter=timedelta(0),
        catch_up=policy,
        generations=(made,),
        settled_until=since,
    )
    bench.scheduler.arm([armed])


def states(bench: Workbench) -> list[str]:
    return [fact.state for fact in bench.told("scheduler-changed")]


def rows(bench: Workbench) -> list[Any]:
    return bench.rescue.outbox.rows()


def until(bench: Workbench, is_true: Callable[[], object], otherwise: str, within_s: float = 15.0) -> None:
    """Let the tick loop come round until that is so."""

    def comes_round() -> object:
        bench.scheduler.step()
        return is_true()

    await_fact(comes_round, otherwise, within_s)


@pytest.fixture
def bench(redis_client: redis.Redis, tmp_path: Path) -> Iterator[Workbench]:
    """A worker on an empty tree and an empty database; its clock is held."""
    made = Workbench(redis_client, tmp_path / "apps")
    yield made
    made.rescue.outbox.close()


@pytest.fixture
def frail(broker_factory: BrokerFactory, tmp_path: Path) -> Iterator[tuple[Workbench, PrivateBroker]]:
    """A worker on a broker that the test may kill; its clock runs."""
    broker = broker_factory()
    client = connect(broker.target)
    bench = Workbench(client, tmp_path / "apps", clock=SystemClock())
    yield bench, broker
    bench.rescue.close()
    client.close()


def test_what_succeeds_at_once_touches_no_file(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.tick()
    arm(bench, since=bench.now() - 3)
    folder = bench.root.parent
    before = {path: os.stat(path).st_mtime_ns for path in folder.rglob("*")}

    def touched(*_: Any) -> Any:
        raise AssertionError("the database was asked")

    monkeypatch.setattr(Database, "_connection", touched)
    bench.tick()
    list(bench.stream.publish([], "w1"))
    assert len(bench.published()) >= 3
    assert {path: os.stat(path).st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.slow
def test_the_first_failure_is_kept_before_it_is_tried_again(frail: tuple[Workbench, PrivateBroker]) -> None:
    bench, broker = frail
    bench.tick()
    now = bench.now()
    arm(bench, 600, since=now - now % 600 - 1)
    broker.kill()
    until(bench, lambda: rows(bench), "nothing is kept")
    [row] = rows(bench)
    assert (row.intent.attempts, row.intent.token, row.intent.is_ambiguous) == (1, "w1", False)
    assert row.holder, "nobody else works on it now"
    until(bench, lambda: states(bench) == ["offline"], "it goes on for ever")
    [row] = rows(bench)
    assert 4 <= row.intent.attempts <= 5
    assert row.holder == "", "it is the retrier's now"
    assert bench.told("publish-failed")[0].attempt == 1
    broker.restart()
    until(bench, lambda: states(bench) == ["offline", "running"], "it does not come back")
    assert rows(bench) == []
    assert bench.published() == [now - now % 600]
    assert len(bench.envelopes()) == 1
    assert bench.scheduler.cursors()["app", "tick"] >= now - now % 600


def test_a_failure_that_passes_leaves_no_row(frail: tuple[Workbench, PrivateBroker]) -> None:
    bench, broker = frail
    bench.tick()
    now = bench.now()
    arm(bench, 600, since=now - now % 600 - 1)
    broker.kill()
    until(bench, lambda: rows(bench), "nothing is kept")
    broker.restart()
    until(bench, lambda: not rows(bench), "the row stays")
    assert (len(bench.envelopes()), states(bench)) == (1, [])


def test_a_stop_ends_the_wait_and_leaves_its_rows_to_the_next_worker(frail: tuple[Workbench, PrivateBroker]) -> None:
    bench, broker = frail
    bench.tick()
    now = bench.now()
    arm(bench, 600, since=now - now % 600 - 1)
    broker.kill()
    stop = threading.Event()
    loop = threading.Thread(target=bench.scheduler.run, args=(stop,))
    loop.start()
    await_fact(lambda: rows(bench), "nothing is kept")
    stop.set()
    bench.scheduler.wake()
    loop.join(2)
    assert not loop.is_alive()
    assert [row.holder for row in rows(bench)] == [""]
    broker.restart()
    heir = Workbench(bench.client, bench.root, clock=SystemClock())
    # A connection from before the kill may still be there, and fail its first command.
    await_fact(lambda: heir.rescue.drain(True) and not rows(heir), "the row stays")
    assert (heir.published(), len(heir.envelopes())) == ([now - now % 600], 1)
    heir.rescue.outbox.close()


def test_after_a_long_outage_the_attempted_come_first_and_the_rest_by_policy(bench: Workbench) -> None:
    """The row is settled before catch-up looks at the gap, so that its firing is not passed over."""
    bench.tick()
    now = bench.now()
    arm(bench, 10, since=now - 900, policy=CatchUp.NONE)
    attempted = (now - 900) // 10 * 10 + 10
    [made] = bench.definitions.generations("app", "tick")
    occurrence = Occurrence(
        app="app", schedule="tick", handler="jobs.run", scheduled_at=from_epoch(attempted), gen=made.gen
    )
    intent = Intent(occurrence=occurrence, token="w1", attempts=5, first_failed_at=from_epoch(now))
    bench.rescue.outbox.put([intent], holder="gone", lease=timedelta(0))
    bench.scheduler._gate._close()
    until(bench, lambda: bench.told("passed-over"), "catch-up does not come")
    assert bench.published()[0] == attempted
    [fact] = bench.told("passed-over")
    assert int(fact.first_at.timestamp()) == attempted + 10


def test_an_outbox_that_cannot_be_written_stops_firing_until_it_can(frail: tuple[Workbench, PrivateBroker]) -> None:
    bench, broker = frail
    bench.tick()
    now = bench.now()
    arm(bench, 600, since=now - now % 600 - 1)
    path = bench.rescue.outbox.path
    aside = path.with_name("aside")
    path.rename(aside)
    path.mkdir()
    broker.kill()
    until(bench, lambda: states(bench), "it goes on")
    assert states(bench) == ["degraded"]
    broker.restart()
    arm(bench, 1, since=now - 5, name="other")
    for _ in range(3):
        bench.scheduler.step()
    assert bench.published(name="other") == [], "what it could not recover it does not fire"
    until(bench, lambda: not [record for record in bench.fleet.records() if record.is_publishing], "it says it fires")
    path.rmdir()
    aside.rename(path)
    until(bench, lambda: states(bench) == ["degraded", "running"], "it does not resume")
    until(bench, lambda: bench.published(name="other"), "it does not fire")
    assert (bench.published(), rows(bench)) == ([now - now % 600], [])


def test_an_outbox_that_cannot_be_opened_at_the_start(bench: Workbench) -> None:
    bench.rescue.outbox.path.mkdir()
    arm(bench, since=bench.now() - 3)
    bench.tick()
    assert (states(bench), bench.published()) == (["unavailable"], [])
    assert bench.fleet.records(), "it lives and says so"
    bench.rescue.outbox.path.rmdir()
    bench.clock.advance(timedelta(seconds=1))
    bench.tick()
    bench.tick()
    assert states(bench) == ["unavailable", "running"]
    assert len(bench.published()) >= 3


class Far:
    """A worker whose broker stands behind a proxy that can swallow answers."""

    def __init__(self, root: Path, broker: PrivateBroker, client: redis.Redis) -> None:
        def upstream() -> socket.socket:
            made = socket.socket(socket.AF_UNIX)
            made.connect(str(broker.target.path))
            return made

        self.proxy = Proxy(upstream)
        self.near = connect(Target.parse(f"redis://127.0.0.1:{self.proxy.port}"), timeout_s=0.3)
        self.bench = Workbench(self.near, root / "apps", clock=SystemClock())
        self.client: Any = client

    def losing_the_answer_of(self, script: str, act: Callable[[], object]) -> None:
        self.client.script_load(source(script))
        # The connection is there already, so that the lost answer is that of the deed.
        self.near.ping()
        original = Scripts.run_many

        def run_many(scripts: Scripts, name: str, *arguments: Any, **options: Any) -> Any:
            if name == script:
                self.proxy.eat.set()
            return original(scripts, name, *arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scripts, "run_many", run_many)
            act()
        self.proxy.eat.clear()

    def close(self) -> None:
        self.bench.rescue.outbox.close()
        self.near.close()
        self.proxy.close()


@pytest.fixture
def far(tmp_path: Path, broker: PrivateBroker, redis_client: redis.Redis) -> Iterator[Far]:
    made = Far(tmp_path, broker, redis_client)
    yield made
    made.close()


def test_a_tick_whose_answer_was_lost_hears_that_it_had_won(far: Far) -> None:
    bench = far.bench
    bench.tick()
    now = bench.now()
    arm(bench, 600, since=now - now % 600 - 1)
    far.losing_the_answer_of("publish", bench.scheduler.step)
    [row] = rows(bench)
    assert row.intent.is_ambiguous
    assert len(bench.envelopes()) == 1
    until(bench, lambda: not rows(bench), "it never hears")
    assert len(bench.envelopes()) == 1
    [fact] = bench.told("published")
    assert fact.entry == bench.client.xrange(bench.keys.events)[0][0]


def test_a_retry_whose_answer_was_lost_hears_that_it_had_won(far: Far) -> None:
    bench = far.bench
    bench.tick()
    now = bench.now()
    arm(bench, 600, since=now - now % 600 - 1)
    far.losing_the_answer_of("publish", bench.scheduler.step)
    bench.rescue.recovery.hand_over()
    far.client.delete(bench.keys.published("app", "tick"))  # as if the first attempt had not won
    with pytest.raises(Exception, match="did not answer"):
        far.losing_the_answer_of("publish", lambda: bench.rescue.drain(True))
    assert len(rows(bench)) == 1
    added = len(bench.envelopes())
    assert bench.rescue.drain(True) == 1
    assert (rows(bench), len(bench.envelopes())) == ([], added)


def test_an_offer_whose_answer_was_lost_is_made_again(far: Far) -> None:
    bench = far.bench
    bench.app("app", "name: tick, every: 1s")
    bench.reconciler.step()
    bench.tick()
    before = dict(bench.head())
    far.client.flushall()
    with pytest.raises(Exception, match="did not answer"):
        far.losing_the_answer_of("restore", lambda: (bench.tick(), bench.reconciler.step()))
    bench.reconciler.step()
    after = bench.head()
    assert (after["gen"], after["from"], after["hash"]) == (before["gen"], before["from"], before["hash"])


def heir_of(bench: Workbench) -> Workbench:
    """A worker that starts on the same tree and the same state after that one is gone."""
    bench.rescue.close()
    return Workbench(bench.client, bench.root)


def test_a_worker_that_starts_on_a_flushed_broker_tells_it_what_ran(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s", "name: rare, every: 1h")
    bench.look()
    now = bench.now()
    bench.client.hset(bench.keys.schedule("app", "tick"), "from", (now - 30) * 1000)
    bench.client.hset(bench.keys.schedule("app", "tick"), "floor", now - 20)
    bench.registrar.follow(0)
    bench.registrar.refresh([("app", "tick")])
    bench.tick()
    heir = heir_of(bench)
    ran = max(bench.scheduler.cursors()["app", "tick"], now - 20)
    bench.client.flushall()
    heir.look()
    assert heir.published() == [], "peers are waited for"
    heir.look(after_s=5)
    await_fact(lambda: heir.now() > ran + 1, "time stands still")
    heir.tick()
    published = heir.published()
    assert [at for at in published if at <= ran] == []
    assert published == list(range(ran + 1, published[-1] + 1)), "what was owed meanwhile is late, not lost"
    assert [fact.restored for fact in heir.told("state-restored")] == [2]
    heir.rescue.close()


def test_peers_that_remember_more_win(bench: Workbench, tmp_path: Path) -> None:
    """This worker stood still; its peer had gone on and remembers more."""
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    now = bench.now()
    bench.client.flushall()
    bench.tick()
    bench.reconciler.step()
    [mine] = bench.rescue.keeper._current().values()
    bench.definitions.restore([replace(mine, floor=now + 1, gen=5)])
    bench.look(after_s=5)
    bench.tick()
    assert bench.gen() == 5
    assert [at for at in bench.published() if at <= now + 1] == []


def test_a_second_flush_while_peers_are_waited_for(bench: Workbench) -> None:
    """The heartbeat has not heard of it when the wait is over: nothing may be registered on its old word."""
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    before = dict(bench.head())
    bench.client.flushall()
    bench.tick()
    bench.reconciler.step()
    assert bench.head()["from"] == before["from"]
    bench.client.flushall()
    bench.clock.advance(timedelta(seconds=5))
    bench.reconciler.step()
    assert bench.head()["from"] == before["from"]
    assert [fact.restored for fact in bench.told("state-restored")] == [1, 1]


def test_a_schedule_nobody_remembers_begins_now_and_that_is_told(bench: Workbench, monkeypatch: Any) -> None:
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    bench.client.flushall()
    monkeypatch.setattr(bench.rescue.keeper, "_current", dict)
    bench.look(after_s=2)
    bench.look(after_s=5)
    assert [fact.schedules for fact in bench.told("state-lost")] == [("app/tick",)]
    assert int(bench.head()["from"]) > (bench.now() - 3) * 1000


def test_checkpoints_are_written_only_where_something_changed(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s", "name: rare, every: 1h")
    bench.look()
    bench.tick()
    bench.rescue.keeper.keep_in_time()
    kept = {item.schedule: item for item in bench.rescue.outbox.checkpoints()}
    assert set(kept) == {"tick", "rare"}
    with sqlite3.connect(bench.rescue.outbox.path) as connection:
        connection.execute("UPDATE checkpoints SET spec = 'untouched'")
    connection.close()
    bench.clock.advance(timedelta(seconds=5))
    await_fact(lambda: bench.now() > kept["tick"].floor, "time stands still")
    bench.tick()
    bench.rescue.keeper.keep_in_time()
    again = {item.schedule: item for item in bench.rescue.outbox.checkpoints()}
    assert again["rare"].spec == "untouched"
    assert again["tick"].floor > kept["tick"].floor


def test_checkpoints_of_removed_schedules_go_and_those_of_peers_stay(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1h")
    bench.look()
    made = generation(every(60, "gone"), 0)
    known = Proposal(app="app", schedule="gone", mode=Mode.START, hash=made.hash, spec=made.spec)
    bench.definitions.register([known, replace(known, schedule="of-a-peer")])
    bench.definitions.register([replace(known, mode=Mode.EDIT, hash="tombstone", spec="", held_gen=1)])
    remembered = Checkpoint(
        app="app", schedule="gone", gen=1, hash=made.hash, spec=made.spec, from_ms=0, floor=bench.now()
    )
    names = ("gone", "of-a-peer", "never-heard-of")
    bench.rescue.outbox.keep("e", [replace(remembered, schedule=name) for name in names])
    bench.rescue.keeper.keep_in_time()
    kept = [item.schedule for item in bench.rescue.outbox.checkpoints()]
    assert kept == ["never-heard-of", "of-a-peer", "tick"]


@pytest.fixture
def pair(short_dir: Path) -> Iterator[tuple[RawServer, RawServer]]:
    """A server and its replica."""
    first = RawServer(short_dir / "first")
    second = RawServer(short_dir / "second", f"replicaof 127.0.0.1 {first.port}", "repl-diskless-sync-delay 0")
    yield first, second
    second.process.send_signal(signal.SIGCONT)
    second.stop()
    first.stop()


def test_what_too_few_replicas_hold_stays_in_the_outbox(
    pair: tuple[RawServer, RawServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relayctl.store.replicas.WITHIN_MS", 200)
    first, replica = pair
    target = Target.parse(f"redis://127.0.0.1:{first.port}")
    await_fact(lambda: _answers(target), "the server does not start")
    client: Any = connect(target)
    await_fact(lambda: "online" in str(client.info("replication").get("slave0")), "no replica comes")
    bench = Workbench(client, tmp_path / "apps", clock=SystemClock(), acks=1)
    bench.tick()
    now = bench.now()
    arm(bench, 1, since=now - 3, name="safe")
    until(bench, lambda: bench.published(name="safe")[:3] == [now - 2, now - 1, now], "nothing is published")
    # A replica on a busy machine may acknowledge late; the row waits for it.
    until(bench, lambda: bench.rescue.drain(True) == 0 and not rows(bench), "the rows stay")
    replica.process.send_signal(signal.SIGSTOP)
    arm(bench, 600, since=now - now % 600 - 1)
    until(bench, bench.published, "nothing is published")
    assert [row.id for row in rows(bench) if ":tick:" in row.id], "no replica has it"
    # Once: it is not told again where the replica acknowledged too late before.
    assert {fact.wanted for fact in bench.told("replicas-behind")} == {1}
    bench.scheduler.drop([("app", "safe"), ("app", "tick")])
    bench.rescue.drain(True)
    assert rows(bench), "an answer without a write is no acknowledgement of that write"
    replica.process.send_signal(signal.SIGCONT)

    def drained() -> bool:
        bench.rescue.drain(True)
        return not rows(bench)

    await_fact(drained, "the rows stay although the replica has all")
    assert len([item for item in bench.envelopes() if item["schedule"] == "tick"]) == 1
    bench.rescue.outbox.close()
    client.close()


def _answers(target: Target) -> bool:
    try:
        ping(target)
    except Exception:
        return False
    return True
