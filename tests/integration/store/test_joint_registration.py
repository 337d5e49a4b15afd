"""A registration inside a transaction of somebody else's: both are done or neither, and nothing is refused too late."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import redis
from support.storedesk import EVERY_10_S, RECORD, T0_MS
from support.templates import SERVICE, checked, schedule, write_app

from relayctl import api
from relayctl.errors import (
    BrokerRefused,
    BrokerUnavailable,
    InvalidTemplates,
    ModeConflict,
    NewerFormat,
    NoTemplates,
    Refused,
    RegistrationConflict,
    RegistryChanged,
    RelayError,
    UsageError,
)
from relayctl.store.connect import connect
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.fleet import RECORD_VERSION, Holdings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.broker import PrivateBroker
    from support.storedesk import Desk

    from relayctl.store.definitions import Head

MINE = "{relay}:mine"
NAME = ("shop", "nightly")
TWO = schedule("every: 1m") + "  - {name: other, handler: jobs.run, every: 1h}\n"


@pytest.fixture
def apps(tmp_path: Path) -> Path:
    """A tree with one app of two schedules."""
    return write_app(tmp_path / "apps", "shop", TWO).parent


def edit(apps: Path, old: str, new: str) -> None:
    path = apps / "shop" / "template.yaml"
    path.write_text(path.read_text().replace(old, new))


def head(desk: Desk) -> Head | None:
    return desk.definitions.heads([NAME]).get(NAME)


def verdicts(registration: api.Registration) -> list[tuple[str, str, int]]:
    return [(each.schedule, each.verdict, each.gen) for each in registration.registered]


def propose(desk: Desk, hash_: str = "h1", spec: str = EVERY_10_S, app: str = "shop", name: str = "nightly") -> None:
    desk.definitions.register([Proposal(app=app, schedule=name, mode=Mode.START, hash=hash_, spec=spec)])


def test_both_are_done(desk: Desk, apps: Path) -> None:
    with api.registering(desk.client, apps) as registration:
        registration.pipeline.set(MINE, "1").get(MINE)
        assert desk.definitions.all_names() == set(), "nothing is done inside the block"
    assert verdicts(registration) == [("nightly", "created", 1), ("other", "created", 1)]
    assert registration.replies[1:] == ["1"]
    assert desk.definitions.all_names() == {NAME, ("shop", "other")}
    found = head(desk)
    assert found is not None
    assert json.loads(found.spec)["every"] == 60
    assert desk.definitions.changes_since(0) == [NAME, ("shop", "other")]
    edit(apps, "1m", "2m")
    with api.registering(desk.client, apps) as registration:
        pass
    assert verdicts(registration) == [("nightly", "changed", 2), ("other", "unchanged", 1)]
    edit(apps, "2m", "1m")
    with api.registering(desk.client, apps) as registration:
        pass
    assert verdicts(registration)[0] == ("nightly", "changed", 3), "what was in force before may be again"


@pytest.mark.one_server
def test_on_a_pipeline_of_a_client_of_any_kind(desk: Desk, broker: PrivateBroker, apps: Path) -> None:
    with redis.Redis.from_url(broker.url) as client:
        pipeline = client.pipeline()
        pipeline.watch(MINE)
        assert pipeline.get(MINE) is None
        registration = api.register(pipeline, apps)
        pipeline.incr(MINE)
        registered = registration.read(pipeline.execute())
        assert [each.verdict for each in registered] == ["created", "created"]
        assert registration.replies == [1]
        registration = api.register(pipeline, apps)
        pipeline.incr(MINE)
        assert {each.verdict for each in registration.read(pipeline.execute())} == {"unchanged"}
        registration = api.register(pipeline, apps)
        desk.client.set(desk.keys.mode, "push")
        pipeline.incr(MINE)
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    assert desk.client.get(MINE) == "2"


def to_push(desk: Desk) -> None:
    desk.client.set(desk.keys.mode, "push")


def released(desk: Desk) -> None:
    desk.client.hset(desk.keys.pins, "shop", "r1")


@pytest.mark.parametrize("meanwhile", [propose, to_push, released])
def test_a_change_meanwhile_undoes_both(desk: Desk, apps: Path, meanwhile: Callable[[Desk], None]) -> None:
    with pytest.raises(RegistryChanged) as raised, api.registering(desk.client, apps) as registration:
        registration.pipeline.set(MINE, "1")
        meanwhile(desk)
    assert raised.value.is_retryable
    assert desk.client.exists(MINE) == 0
    assert desk.definitions.all_names() == ({NAME} if meanwhile is propose else set())


def test_a_block_that_raises_does_nothing(desk: Desk, apps: Path) -> None:
    with pytest.raises(KeyError), api.registering(desk.client, apps) as registration:
        registration.pipeline.set(MINE, "1")
        raise KeyError
    assert desk.contents() == {}


def live(desk: Desk, schedules: dict[str, str], *, beat_ms: int | None = None) -> None:
    desk.fleet.beat(RECORD, beat_ms)
    desk.fleet.hold(RECORD.id, Holdings(apps={"shop": "r"}, schedules=schedules))


def held_otherwise(desk: Desk, _: Path) -> None:
    propose(desk)
    live(desk, {"shop/nightly": "h1"})


def of_a_newer_worker(desk: Desk, _: Path) -> None:
    propose(desk)
    desk.fleet.beat(RECORD)
    document = json.loads(RECORD.to_json()) | {"v": RECORD_VERSION + 1}
    desk.client.set(desk.keys.worker(RECORD.id), json.dumps(document))


def alien(desk: Desk, _: Path) -> None:
    desk.client.hset(desk.keys.schedule(*NAME), mapping={"gen": "many", "hash": "h"})


def alien_type(desk: Desk, _: Path) -> None:
    desk.client.set(desk.keys.published("shop", "other"), "x")


def alien_log(desk: Desk, _: Path) -> None:
    desk.client.xadd(desk.keys.definitions_log, {"s": "a/b"}, id="7-0")


def renamed(desk: Desk, apps: Path) -> None:
    propose(desk, name="old")
    edit(apps, "    every: 1m", "    every: 1m\n    moved_from: shop/old")


@pytest.mark.parametrize(
    ("prepare", "error", "said"),
    [
        (held_otherwise, RegistrationConflict, "shop/nightly is held with another definition by worker w1"),
        (lambda desk, _: to_push(desk), ModeConflict, "push mode"),
        (lambda desk, _: propose(desk, spec='{"v":2}'), NewerFormat, "shop/nightly was defined by a newer relayctl"),
        (of_a_newer_worker, NewerFormat, "may be held with another definition by worker w1 of a newer relayctl"),
        (alien, BrokerRefused, "relayctl did not write"),
        (alien_type, BrokerRefused, "pub:shop:other in the broker holds something"),
        (alien_log, BrokerRefused, "defs:log in the broker holds something"),
        (renamed, Refused, "shop/nightly takes over from shop/old"),
        (lambda _, apps: edit(apps, "1m", "soon"), InvalidTemplates, "shop/template.yaml:"),
        (lambda _, apps: shutil.rmtree(apps / "shop"), NoTemplates, "no app"),
    ],
)
def test_what_is_refused_is_refused_before_anything_runs(
    desk: Desk, apps: Path, prepare: Callable[[Desk, Path], Any], error: type[RelayError], said: str
) -> None:
    prepare(desk, apps)
    before = desk.contents()
    with pytest.raises(error) as raised, api.registering(desk.client, apps) as registration:
        registration.pipeline.set(MINE, "1")
        raise AssertionError("the block is not entered")
    assert said in raised.value.message
    assert raised.value.help or error is NoTemplates
    assert desk.contents() == before


def test_who_has_gone_or_holds_the_same_is_no_hindrance(desk: Desk, apps: Path) -> None:
    propose(desk)
    live(desk, {"shop/nightly": "h1"}, beat_ms=T0_MS - 20 * 365 * 86_400_000)
    with api.registering(desk.client, apps) as registration:
        pass
    assert verdicts(registration)[0] == ("nightly", "changed", 2)
    found = head(desk)
    assert found is not None
    propose(desk, "h3")
    live(desk, {"shop/nightly": found.hash})
    with api.registering(desk.client, apps) as registration:
        pass
    assert verdicts(registration)[0] == ("nightly", "changed", 4)


def test_a_pipeline_that_is_in_use_is_left_as_it_is(desk: Desk, apps: Path) -> None:
    pipeline = desk.client.pipeline(transaction=True)
    pipeline.set(MINE, "1")
    with pytest.raises(UsageError, match="queued already"):
        api.register(pipeline, apps)
    assert len(pipeline.execute()) == 1
    pipeline = desk.client.pipeline(transaction=True)
    pipeline.watch(MINE)
    pipeline.multi()
    with pytest.raises(UsageError, match="cannot watch keys now: Cannot issue a WATCH after a MULTI"):
        api.register(pipeline, apps)
    pipeline.reset()
    assert desk.definitions.all_names() == set()


def test_a_command_of_the_caller_that_fails_is_told(desk: Desk, apps: Path) -> None:
    desk.client.set(MINE, "text")
    with (
        pytest.raises(BrokerRefused, match="was done, but command 2 in it failed"),
        api.registering(desk.client, apps) as registration,
    ):
        registration.pipeline.get(MINE).incr(MINE)
    assert len(registration.registered) == 2
    assert desk.definitions.all_names() == {NAME, ("shop", "other")}


@pytest.mark.one_server
def test_a_connection_that_is_lost_leaves_it_open(desk: Desk, broker: PrivateBroker, apps: Path) -> None:
    client = connect(broker.target, client_name="joint")
    unknown = "whether the transaction was done is not known"
    with pytest.raises(BrokerUnavailable, match=unknown), api.registering(client, apps):
        [mine] = [each["id"] for each in desk.client.client_list() if each["name"] == "joint"]
        assert desk.client.client_kill_filter(_id=mine) == 1
    client.close()


def test_schedules_that_are_at_hand(desk: Desk, apps: Path) -> None:
    app, _ = checked(TWO)
    assert app is not None
    with api.registering(desk.client, {("shop", each.name): each for each in app.schedules}) as registration:
        pass
    with api.registering(desk.client, apps) as again:
        pass
    assert [each[1] for each in verdicts(registration) + verdicts(again)] == ["created"] * 2 + ["unchanged"] * 2


def test_a_tree_of_many_is_registered_at_once(desk: Desk, tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(60)]
    text = f"runtime: python\n{SERVICE}schedules:\n" + "".join(
        f"  - {{name: {n}, handler: jobs.run, every: 1h}}\n" for n in names
    )
    write_app(tmp_path / "apps", "many", text)
    with api.registering(desk.client, tmp_path / "apps") as registration:
        pass
    assert {each.verdict for each in registration.registered} == {"created"}
    assert len(desk.definitions.all_names()) == 60
