"""How scripts are loaded, run and written: lost caches, declared keys, headers, key names in one place."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import (
    APP,
    EVERY_10_S,
    GROUP,
    HANDLER,
    LEASE_MS,
    RECORD,
    SCHEDULE,
    T0,
    T0_MS,
    Desk,
    attempt,
    without_budget,
)

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.deadletter import LetterFilter
from relayctl.core.lifecycle import Kind, Slot
from relayctl.core.manual import ManualRun
from relayctl.core.occurrence import from_epoch
from relayctl.core.output import OutputLimits, output_of
from relayctl.store import connect as factory
from relayctl.store.controls import Controls
from relayctl.store.dead_letters import DeadLetters
from relayctl.store.definitions import Mode
from relayctl.store.invocations import ClaimRefusal
from relayctl.store.outputs import Outputs
from relayctl.store.replicas import Replicas
from relayctl.store.scripts import Scripts, digest, source
from relayctl.store.stranded import Stranded, Strandings
from relayctl.store.stream import Entry, OwedInvocation, RouteOrder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import redis
    from support.broker import PrivateBroker

FOLDER = files("relayctl.store").joinpath("scripts")
NAMES = sorted(item.name.removesuffix(".lua") for item in FOLDER.iterdir() if item.name.endswith(".lua"))
STEPS = [name for name in NAMES if not name.startswith("_")]
PACKAGE = files("relayctl")


def live_through_a_day(desk: Desk) -> None:
    """Every script in every part at least once."""
    desk.fleet.beat(RECORD, T0_MS)
    desk.register("h1")
    desk.register("h2")
    desk.register("h1", mode=Mode.EDIT, held=2)
    desk.register("gone", schedule="old")
    desk.publish(T0, gen=3)
    desk.publish(T0, gen=3)
    desk.close(T0 - 3600, T0 - 60)
    desk.close(T0 - 3600)
    desk.publish(T0 - 60, gen=3)
    desk.raise_floor(T0 - 60)
    desk.publish(T0, schedule="old")
    desk.register("tombstone", schedule="old", mode=Mode.EDIT, held=1, spec="")
    desk.definitions.settle_removed(APP, "old", 2)
    for known in (SCHEDULE, "forgotten"):
        remembered = Checkpoint(
            app=APP, schedule=known, gen=3, hash="h1", spec="{}", from_ms=T0_MS, floor=T0 - 1, paused_at=T0 + 900
        )
        desk.definitions.restore([remembered], T0_MS)
    desk.stream.emit('{"a":1}')
    nightly, old, event = desk.read()
    desk.route(
        desk.order(nightly),
        desk.order(old, (APP, "@old")),
        desk.order(event, (APP, HANDLER), ("mail", HANDLER), kind=Kind.EVENT),
    )
    desk.route(desk.order(nightly))
    claim = desk.claimed(nightly.id, slot="@" + SCHEDULE)
    desk.invocations.renew([claim], lease_ms=LEASE_MS, now_ms=T0_MS)
    kept = output_of(claim, worker="w1", started_ms=T0_MS)
    outputs = Outputs(desk.client, desk.keys, OutputLimits(attempts=1))
    outputs.keep([(claim, kept)], T0_MS)
    printed = replace(attempt("failed"), output=replace(kept, text="two words", outcome="failed"))
    desk.invocations.end([(without_budget(claim), printed)], T0_MS + 10)
    assert [each.text for each in outputs.of_schedule(APP, SCHEDULE)] == ["two words"]
    lost = desk.claimed(event.id, retries=0)
    desk.take_back(event.id, now_ms=T0_MS + LEASE_MS)
    desk.end(lost)
    desk.invocations.release([desk.claimed(event.id, app="mail")], T0_MS)
    assert desk.end(desk.claimed(event.id, app="mail"))[0].value == "ended"
    assert desk.stream.backlog() == 0
    nobody_can_run(desk)
    give_orders(desk)
    desk.client.xgroup_createconsumer(desk.keys.events, GROUP, "idle")
    keys = [desk.keys.events]
    assert Scripts(desk.client).run("forget", keys, [GROUP, "idle"]) == 1
    assert Scripts(desk.client).run("forget", keys, [GROUP, "idle"]) == 0


def nobody_can_run(desk: Desk) -> None:
    """What is stranded is marked, and ends with its letter."""
    strandings = Strandings(desk.client, desk.keys)
    item = Stranded(app=APP, message=desk.enter((APP, HANDLER)), slot=Slot(HANDLER))
    for now_ms in (T0_MS, T0_MS + 10, T0_MS + 10):
        strandings.abandon([item], by="w1", after_ms=10, now_ms=now_ms)
    strandings.move(strandings.marks(), 1000)
    strandings.clear(list(strandings.marks()))
    [letter] = DeadLetters(desk.client, desk.keys).newest(LetterFilter(reason="unavailable"), 10)
    DeadLetters(desk.client, desk.keys).remove(letter.id)


def give_orders(desk: Desk) -> None:
    """Every step that operators take, and what hangs on it when such runs end."""
    controls, letters = Controls(desk.client, desk.keys), DeadLetters(desk.client, desk.keys)
    desk.register("ordered", schedule="by-hand", spec=EVERY_10_S)
    controls.pause(APP, "by-hand", until=T0 + 100, by="ann", reason="x", now_ms=T0_MS)
    controls.pause(APP, "by-hand", until=None, by="ann", reason="y", now_ms=T0_MS + 200_000)
    controls.resume(APP, "by-hand", by="ann", now_ms=T0_MS + 300_000)
    assert len(controls.take_untold(APP, "by-hand")) == 4, "the end of the first pause is one of them"
    for key in ("one", "two", "three", "three"):
        controls.trigger(ManualRun(app=APP, schedule="by-hand", key=key, asked_at=from_epoch(T0), by="ann"))
    runs = [item.id for item in desk.read()]
    desk.route(*(desk.order(Entry(item, {"event": "{}"}), (APP, "!by-hand"), kind=Kind.MANUAL) for item in runs))
    first = desk.claimed(runs[0], slot="!by-hand", overlap="queue", token="o1")
    assert desk.claim(runs[1], slot="!by-hand", overlap="queue", token="o2") is ClaimRefusal.WAITING
    assert desk.claim(runs[2], slot="!by-hand", overlap="queue", token="o3") is ClaimRefusal.COALESCED
    desk.end(first)
    desk.end(desk.claimed(runs[1], slot="!by-hand", overlap="queue", token="o2", now_ms=T0_MS + 20))
    newest, oldest = letters.newest(LetterFilter(), 10)
    message = letters.replay(oldest.id)[1]
    letters.replay(oldest.id)
    letters.remove(oldest.id)
    [entry] = desk.read()
    assert entry.id == message
    slot = entry.fields["slot"]
    owed = OwedInvocation(app=APP, slot=slot, schedule=SCHEDULE, history=desk.keys.history_of_schedule(APP, SCHEDULE))
    desk.route(RouteOrder(id=message, event=entry.fields["event"], kind="schedule", replay=oldest.id, owed=(owed,)))
    desk.end(desk.claimed(message, slot=slot))
    letters.remove(newest.id)
    assert letters.counts() == (0, 0)


def test_an_order_says_whether_replicas_hold_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relayctl.store.replicas.WITHIN_MS", 20)
    assert Replicas(desk.client, desk.keys, 0).confirm() is None
    assert Replicas(desk.client, desk.keys, 1).confirm() is False, "there is no replica"


def test_a_lost_script_cache_is_refilled(desk: Desk) -> None:
    desk.register("h1")
    desk.client.script_flush()
    first = desk.publish(T0)
    desk.client.script_flush()
    assert desk.publish(T0).entry == first.entry
    desk.client.script_flush()
    live_through_a_day(Desk(desk.client, "other"))


def test_a_cache_lost_inside_a_batch_loses_no_answer(desk: Desk) -> None:
    scripts = Scripts(desk.client)
    runs = [([desk.keys.worker(f"w{n}"), "{relay}:x"], [str(n)]) for n in range(50)]
    assert all(isinstance(answer, Exception) for answer in scripts.run_many("forget", runs)), "no such stream"
    desk.client.script_flush()
    assert all("no such key" in str(answer) for answer in scripts.run_many("forget", runs))
    assert scripts.run_many("forget", []) == []


def test_a_connection_that_failed_is_not_used_again(desk: Desk) -> None:
    scripts = Scripts(desk.client)
    beat = [desk.keys.workers, desk.keys.worker("w1"), desk.keys.definitions_seq, desk.keys.epoch]
    with pytest.raises(TypeError):
        scripts.run_many("beat", [(beat, ["w1", "{}", 1000, "e", ""]), (beat, None)])  # type: ignore[list-item]
    [answer] = scripts.run_many("beat", [(beat, ["w1", "{}", 1000, "e", 5000])])
    assert answer == [5000, 0, "e", "w1"]


class _DeclaredOnly:
    """Runs scripts as a user who may touch exactly the keys that the run declares."""

    def __init__(self, admin: redis.Redis, limited: redis.Redis) -> None:
        self.admin = admin
        self.limited = limited
        self.seen: set[str] = set()

    def run(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        rules = [f"~{key}" for key in keys]
        self.admin.execute_command("ACL", "SETUSER", "narrow", "resetkeys", *rules)
        self.seen.add(name)
        self.limited.script_load(source(name))
        return self.limited.evalsha(digest(name), len(keys), *keys, *args)

    def run_all(self, runs: Iterable[Any], *, then: Any = ()) -> list[Any]:
        assert then == ()
        return [self.run(*run) for run in runs]


@pytest.fixture
def declared_only(redis_client: redis.Redis, broker: PrivateBroker) -> Iterator[_DeclaredOnly]:
    redis_client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", "nopass", "+@all")
    limited = factory.connect(broker.target)
    limited.connection_pool.connection_kwargs |= {"username": "narrow", "password": "any"}
    assert limited.execute_command("ACL", "WHOAMI") == "narrow"
    yield _DeclaredOnly(redis_client, limited)
    limited.close()
    redis_client.execute_command("ACL", "DELUSER", "narrow")


@pytest.mark.one_server
def test_scripts_touch_no_key_they_do_not_declare(
    desk: Desk, declared_only: _DeclaredOnly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripts, "run", lambda _self, *args: declared_only.run(*args))
    monkeypatch.setattr(Scripts, "run_all", lambda _self, *args, **how: declared_only.run_all(*args, **how))
    live_through_a_day(desk)
    assert declared_only.seen >= {
        "abandon", "audit", "beat", "claim", "close", "discard", "expire", "finish", "forget", "output", "pause", "publish", "register",
        "renew", "replay", "restore", "resume", "route", "trigger",
    }  # fmt: skip


@pytest.mark.one_server
def test_a_user_limited_to_the_namespace_can_do_all(desk: Desk, broker: PrivateBroker) -> None:
    desk.client.execute_command(
        "ACL", "SETUSER", "small", "reset", "on", "nopass", "~{relay}:*", "+@all", "-@dangerous", "-@admin", "+info"
    )
    client = factory.connect(broker.target)
    client.connection_pool.connection_kwargs |= {"username": "small", "password": "any"}
    try:
        assert client.execute_command("ACL", "WHOAMI") == "small"
        live_through_a_day(Desk(client))
    finally:
        client.close()
        desk.client.execute_command("ACL", "DELUSER", "small")


@pytest.mark.parametrize("name", STEPS)
def test_a_script_says_what_it_takes_and_answers(name: str) -> None:
    header = re.match(r"(?:--.*\n)+", FOLDER.joinpath(f"{name}.lua").read_text())
    assert header is not None
    for word in ("-- KEYS ", "-- ARGV ", "-- Answers ", "-- Idempotent"):
        assert word in header[0], word


@pytest.mark.parametrize("name", NAMES)
def test_key_names_are_spelled_in_one_module(name: str) -> None:
    code = re.sub(r"--.*", "", FOLDER.joinpath(f"{name}.lua").read_text())
    literals = re.findall(r"'([^']*)'", code)
    assert not [text for text in literals if "{" in text or text.startswith(("relay", "inv:", "sch:", "pub:"))]
    for first in re.findall(r"redis\.p?call\('(?:[A-Z]+)'\s*,\s*([^,)]+)", code):
        assert not first.startswith("'") or first in {"'CONSUMERS'", "'DELCONSUMER'", "'GROUPS'"}, first


@pytest.mark.parametrize("name", STEPS)
def test_includes_are_resolved_once(name: str) -> None:
    text = source(name)
    assert "--@include" not in text
    functions = re.findall(r"^local function (\w+)", text, re.MULTILINE)
    assert len(functions) == len(set(functions))


def test_no_other_module_spells_a_key() -> None:
    spelled = re.compile(r"""f?["']\{(?:relay|ns|namespace|self\._prefix)\}:\S""")
    found = [str(path) for path in _modules(PACKAGE) if path.name != "keys.py" and spelled.search(path.read_text())]
    assert found == []


def _modules(folder: Any) -> Iterator[Any]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _modules(item)
        elif item.name.endswith(".py"):
            yield item
