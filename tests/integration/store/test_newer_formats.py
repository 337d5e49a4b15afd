"""What a newer relayctl wrote, in every format: each reader leaves it, says so, goes on with the rest, and never fails."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.console import Answer, inside
from support.intake import Intake
from support.storedesk import APP, HANDLER, SCHEDULE, T0, Desk, occurrence
from support.workbench import every, generation, record

from relayctl.core.intent import Intent
from relayctl.core.lifecycle import DESCRIPTOR_VERSION, INVOCATION_VERSION, Descriptor
from relayctl.core.occurrence import ENVELOPE_VERSION, from_epoch, instant_text
from relayctl.core.output import read_output
from relayctl.host.clock import HeldClock, SystemClock
from relayctl.host.outbox import Outbox
from relayctl.host.state import StateDir
from relayctl.store.definitions import Definitions, Mode, Proposal
from relayctl.store.fleet import Holdings
from relayctl.store.keys import GROUP, PARKED
from relayctl.store.scripts import source
from relayctl.worker.newer import AGAIN_AFTER_S

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from support.broker import PrivateBroker

Ask = Callable[..., Answer]


@pytest.fixture
def intake(tmp_path: Path, redis_client: redis.Redis) -> Intake:
    return Intake(tmp_path / "apps", redis_client, clock=HeldClock(datetime.now(UTC)))


def passes(intake: Intake, count: int, step_s: float = 1.1) -> None:
    for _ in range(count):
        intake.clock.advance(timedelta(seconds=step_s))
        intake.claimer.step()


# --- the worker ---


def newer_envelope(at: int = T0) -> str:
    return json.dumps(json.loads(occurrence(at).to_envelope()) | {"v": 2, "gen": None})


def test_entries_of_a_newer_peer_stand_before_nothing(intake: Intake) -> None:
    newer = [intake.client.xadd(intake.keys.events, {"event": newer_envelope(T0 + n)}) for n in range(120)]
    manual = '{"source":"relay.manual","v":2,"app":"app","schedule":"tick"}'
    newer.append(intake.client.xadd(intake.keys.events, {"event": manual}))
    # A reader that died had read them all, and good ones behind them.
    intake.emit(3)
    intake.stream.ensure_group()
    intake.stream.read("dead", count=200, block_ms=1)
    for _ in range(3):
        taken = intake.stream.take_unrouted("w1", idle_ms=0)
        intake.consumer._route(taken)
    assert [json.loads(claim.event)["id"] for claim in intake.places.started] == [0, 1, 2]
    assert intake.stream.take_unrouted("w1", idle_ms=0) == []
    assert intake.stream.parked() == len(newer)
    assert intake.client.xlen(intake.keys.dead_letters) == 0
    # Whoever knows the version takes them over at once, whatever they are idle for.
    held = intake.client.xpending_range(intake.keys.events, GROUP, "-", "+", 200, f"{PARKED}2")
    assert [row["message_id"] for row in held] == newer


def test_a_reader_that_knows_the_version_takes_them_over(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = intake.client.xadd(intake.keys.events, {"event": newer_envelope()})
    intake.take_in()
    intake.take_in()
    assert (intake.stream.parked(), intake.stream.is_all_routed()) == (1, True)
    monkeypatch.setattr("relayctl.store.stream.ENVELOPE_VERSION", ENVELOPE_VERSION + 1)
    assert [item.id for item in intake.stream.take_unrouted("w2", idle_ms=60_000)] == [entry]


def test_it_is_told_once_and_every_ten_minutes(intake: Intake) -> None:
    def another() -> list[tuple[str, int]]:
        intake.client.xadd(intake.keys.events, {"event": newer_envelope()})
        intake.take_in()
        return [(fact.kind, fact.count) for fact in intake.told("newer-left")]

    assert another() == [("entry", 1)]
    assert another() == [("entry", 1)]
    intake.clock.advance(timedelta(seconds=AGAIN_AFTER_S))
    assert another() == [("entry", 1)] * 2


NEWER_OF_A_MESSAGE = {
    "hash": {"v": "2", "left": "many", "s:app|jobs.on": "waits;0"},
    "descriptor": {"d:app|jobs.on": '{"v":2,"handler":"jobs.on"}'},
}


@pytest.mark.parametrize("what", NEWER_OF_A_MESSAGE)
def test_a_due_message_of_a_newer_peer_is_left_and_hides_nothing(intake: Intake, what: str) -> None:
    intake.places.free = 0
    intake.emit(40)
    intake.take_in()
    *newer, good = [item for item, _ in intake.client.xrange(intake.keys.events)]
    for message in newer:
        intake.client.hset(intake.keys.invocations(message), mapping=NEWER_OF_A_MESSAGE[what])
    before = [intake.client.hgetall(intake.keys.invocations(message)) for message in newer]
    intake.places.free = 2
    passes(intake, 3)
    assert [claim.message for claim in intake.places.started] == [good]
    assert [intake.client.hgetall(intake.keys.invocations(message)) for message in newer] == before
    assert [(fact.kind, fact.name) for fact in intake.told("newer-left")] == [("invocation", newer[0])]


@pytest.mark.parametrize("what", NEWER_OF_A_MESSAGE)
def test_a_lease_of_a_newer_peer_is_left_and_hides_nothing(intake: Intake, what: str) -> None:
    intake.emit(1)
    intake.take_in()
    [claim] = intake.places.started
    intake.places.started.clear()
    for number in range(150):
        inv = intake.keys.invocations(f"{number}-0")
        intake.client.hset(inv, mapping={"v": "1", "s:app|jobs.on": "claimed|1|x"} | NEWER_OF_A_MESSAGE[what])
        intake.client.zadd(intake.keys.leases, {f"app|{number}-0|jobs.on": 1})
    intake.client.zadd(intake.keys.leases, {f"app|{claim.message}|jobs.on": 2})
    passes(intake, 8)
    assert intake.client.zcard(intake.keys.leases) == 150, "theirs stay, ours is taken back"
    assert (intake.state(claim.message) or "").startswith("failed")
    assert [fact.count for fact in intake.told("newer-left")] == [100]


def test_a_second_delivery_of_a_message_of_a_newer_peer_ends_nothing(intake: Intake) -> None:
    intake.places.free = 0
    intake.emit(1)
    intake.take_in()
    [(message, _)] = intake.client.xrange(intake.keys.events)
    intake.client.hset(intake.keys.invocations(message), mapping={"v": "2", "left": "none"})
    intake.client.xgroup_destroy(intake.keys.events, GROUP)
    for _ in range(3):
        intake.take_in()
    assert [item for item, _ in intake.client.xrange(intake.keys.events)] == [message]


def test_a_newer_worker_may_hold_anything(intake: Intake) -> None:
    intake.client.set(intake.keys.worker("w9"), '{"v":2,"what":"ever"}')
    intake.client.set(intake.keys.holdings("w9"), '{"v":2}')
    intake.client.zadd(intake.keys.workers, {"w9": intake.time.now_ms()})
    intake.fleet.hold("w8", Holdings(apps={"app": "r"}, schedules={}))
    intake.fleet.beat(record("w8"))
    intake.peers.update(intake.time.now_ms())
    assert [each.id for each in intake.peers.records] == ["w8"]
    assert intake.peers.newer == ("w9",)
    assert intake.peers.has_app("whatever")
    assert intake.peers.can_run("whatever")


def test_the_steps_know_the_same_versions_as_the_rest() -> None:
    text = source("claim")
    assert f"local INVOCATION_VERSION = {INVOCATION_VERSION}\n" in text
    assert f"local DESCRIPTOR_VERSION = {DESCRIPTOR_VERSION}\n" in text


# --- the command line ---


@pytest.fixture
def ask(broker: PrivateBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str) -> Answer:
        answer = inside(capsys, *arguments, "--redis", broker.url)
        assert "Traceback" not in answer.err + answer.out
        return answer

    return run


@pytest.fixture
def shop(redis_client: redis.Redis) -> Desk:
    """A schedule every minute that is in force for an hour, its last firing published and read by a worker."""
    desk = Desk(redis_client)
    item = generation(every(60, SCHEDULE), 0)
    hour_ago = int(redis_client.time()[0]) - 3600  # type: ignore[index]
    proposal = Proposal(app=APP, schedule=SCHEDULE, mode=Mode.START, hash=item.hash, spec=item.spec)
    Definitions(redis_client, desk.keys).register([proposal], hour_ago * 1000)
    return desk


def last_minute(desk: Desk) -> int:
    now = int(desk.client.time()[0])  # type: ignore[index]
    return now - now % 60


def published(desk: Desk) -> tuple[int, str]:
    """The last firing, published and routed: its instant and its message."""
    at = last_minute(desk)
    desk.publish(at)
    [entry] = desk.read()
    desk.route(desk.order(entry), now_ms=at * 1000)
    return at, entry.id


def the_envelope(desk: Desk) -> str:
    at = last_minute(desk)
    answer = desk.publish(at)
    desk.client.xdel(desk.keys.events, answer.entry)
    entry: Any = desk.client.xadd(desk.keys.events, {"event": newer_envelope(at)})
    desk.client.hset(desk.keys.published(APP, SCHEDULE), str(at), f"p|w1|{entry}")
    desk.read()
    desk.stream.park({str(entry): 2})
    return f"{APP}/{SCHEDULE}@{instant_text(from_epoch(at))}"


def the_hash(desk: Desk) -> str:
    at, message = published(desk)
    desk.client.hset(desk.keys.invocations(message), mapping={"v": "2", f"s:{APP}|@{SCHEDULE}": "odd"})
    return f"{APP}/{SCHEDULE}@{instant_text(from_epoch(at))}"


def the_descriptor(desk: Desk) -> str:
    at, message = published(desk)
    desk.client.hset(desk.keys.invocations(message), f"d:{APP}|@{SCHEDULE}", '{"v":2}')
    return f"{APP}/{SCHEDULE}@{instant_text(from_epoch(at))}"


def the_record(desk: Desk) -> str:
    at, message = published(desk)
    desk.end(desk.claimed(message, slot="@" + SCHEDULE), now_ms=at * 1000 + 10)
    desk.client.delete(desk.keys.invocations(message))
    history = desk.keys.history_of_schedule(APP, SCHEDULE)
    desk.client.delete(history)
    desk.client.xadd(history, {"v": "2", "attempts": "many", "finished": "then"})
    return f"{APP}/{SCHEDULE}@{instant_text(from_epoch(at))}"


def the_definition(desk: Desk) -> str:
    desk.client.hset(desk.keys.schedule(APP, SCHEDULE), "spec", '{"v":2,"on":"odd days"}')
    return f"{APP}/{SCHEDULE}@{instant_text(from_epoch(last_minute(desk)))}"


WHY = {
    "envelope": (the_envelope, "a newer relayctl wrote it"),
    "hash": (the_hash, "a newer relayctl wrote it"),
    "descriptor": (the_descriptor, "a newer relayctl wrote it"),
    "record": (the_record, "in the form of a newer relayctl"),
}


@pytest.mark.parametrize("what", WHY)
def test_why_says_that_it_cannot_be_read_here(shop: Desk, ask: Ask, what: str) -> None:
    make, words = WHY[what]
    target = make(shop)
    answer = ask("why", target)
    assert (answer.code, answer.err) == (0, "")
    assert words in answer.out
    assert json.loads(ask("why", target, "--format", "json").out)["firings"]
    for verb in (("status",), ("history", f"{APP}/{SCHEDULE}"), ("dlq", "ls")):
        assert ask(*verb).code == 0, verb


def test_history_counts_what_it_cannot_show(shop: Desk, ask: Ask) -> None:
    the_record(shop)
    answer = ask("history", f"{APP}/{SCHEDULE}")
    assert (answer.code, answer.out) == (0, "1 record of a newer relayctl cannot be shown here\n")
    assert json.loads(ask("history", f"{APP}/{SCHEDULE}", "--format", "json").out)["newer"] == 1


def test_a_definition_of_a_newer_relayctl_is_not_judged(shop: Desk, ask: Ask, tmp_path: Path) -> None:
    target = the_definition(shop)
    assert "cannot be judged here" in ask("why", target).out
    status = ask("status")
    assert (status.code, "Newer     1 definition (of shop/nightly)" in status.out) == (0, True), status.out
    apps = tmp_path / "apps" / APP
    apps.mkdir(parents=True)
    (apps / "template.yaml").write_text(
        "runtime: python\nevents: [{handler: jobs.on, pattern: {kind: [go]}}]\n"
        f"schedules: [{{name: {SCHEDULE}, handler: jobs.on, every: 1m}}]\n"
    )
    (apps / "jobs.py").write_text("def on(event):\n    pass\n")
    plan = ask("plan", "--apps", str(apps.parent))
    assert plan.code == 0, plan.err
    assert "of a newer relayctl: 1 definition" in plan.out


def test_a_letter_of_a_newer_relayctl_is_shown_and_not_replayed(shop: Desk, ask: Ask) -> None:
    letter: Any = shop.client.xadd(
        shop.keys.dead_letters, {"v": "2", "reason": "bored", "attempts": "none", "app": APP, "slot": HANDLER}
    )
    listed = ask("dlq", "ls")
    assert (listed.code, "written by a newer relayctl" in listed.out) == (0, True), listed.out
    assert "not here: a newer relayctl wrote it" in ask("dlq", "show", letter).out
    replayed = ask("dlq", "replay", letter)
    assert (replayed.code != 0, "newer relayctl" in replayed.err) == (True, True), replayed.err
    assert shop.stream.backlog() == 0


def test_a_newer_worker_and_a_newer_description_are_named(shop: Desk, ask: Ask, tmp_path: Path) -> None:
    now: Any = shop.client.time()
    shop.client.set(shop.keys.worker("w9"), '{"v":2}')
    shop.client.zadd(shop.keys.workers, {"w9": int(now[0]) * 1000 + 500})
    shop.fleet.hold("w8", Holdings(apps={APP: "r"}, schedules={}))
    shop.fleet.report("w8", {APP: '{"v":2,"all":"new"}'}, [])
    shop.fleet.beat(record("w8"))
    for verb in (["status"], ["plan", "--apps", str(_tree(tmp_path))]):
        answer = ask(*verb)
        assert answer.code == 0, answer.err
        assert "1 live worker (w9): what it runs is not known here" in " ".join(answer.out.split())
        assert "1 description (of shop): not compared" in " ".join(answer.out.split())
    assert any("w9" in line for line in json.loads(ask("status", "--format", "json").out)["checks"])


def _tree(root: Path) -> Path:
    app = root / "tree" / "mail"
    app.mkdir(parents=True)
    (app / "template.yaml").write_text("runtime: python\nevents: [{handler: jobs.on, pattern: {kind: [go]}}]\n")
    (app / "jobs.py").write_text("def on(event):\n    pass\n")
    return app.parent


def test_messages_that_wait_for_a_newer_worker_are_counted(shop: Desk, ask: Ask) -> None:
    the_envelope(shop)
    assert "Newer     1 message that only a newer worker can run" in ask("status").out


# --- files and output ---


def test_an_outbox_row_of_a_newer_relayctl_is_listed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = StateDir(tmp_path / "state").create().outbox
    outbox = Outbox(path, SystemClock(), None)
    intent = Intent(occurrence=occurrence(), token="w1", first_failed_at=from_epoch(T0))
    outbox.put([intent], holder="w1", lease=timedelta(0))
    outbox.close()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE intents SET v = 2")
    connection.close()
    answer = inside(capsys, "outbox", "ls", "--state-dir", str(tmp_path / "state"), "--format", "json")
    assert (answer.code, "newer relayctl" in answer.out) == (0, True), answer


def test_output_of_a_newer_relayctl_is_no_output() -> None:
    assert read_output('{"v":2,"text":"new"}') is None


def test_a_descriptor_is_read_in_its_own_version_alone() -> None:
    known = Descriptor.from_json(json.dumps({"v": 1} | _fields()))
    assert known.handler == HANDLER
    with pytest.raises(ValueError, match="not a descriptor of this version"):
        Descriptor.from_json(json.dumps({"v": 2} | _fields()))


def _fields() -> dict[str, Any]:
    return {
        "app": APP, "schedule": None, "handler": HANDLER, "timeout_ms": 1, "timeout_from": "cap", "retries": 0,
        "backoff_ms": [], "input": None, "overlap": "allow", "revision": "r",
    }  # fmt: skip
