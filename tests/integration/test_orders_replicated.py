"""Orders under RELAYCTL_MIN_REPLICA_ACKS: each stands, and says whether a fail-over could still lose it."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import RawServer, await_fact
from support.console import Answer, inside
from support.storedesk import APP, SCHEDULE, Desk

from relayctl.errors import BrokerError
from relayctl.store.connect import Target, connect, ping
from relayctl.store.orders import Orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.broker import PrivateBroker

EVERY_10_S = json.dumps({"v": 1, "evaluator": "1", "enabled": True, "every": 10})


@pytest.fixture
def ask(
    broker: PrivateBroker,
    desk: Desk,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Answer]:
    """Run a command for a schedule on a broker without replicas, whose settings want one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELAYCTL_MIN_REPLICA_ACKS", "1")
    monkeypatch.setattr("relayctl.store.replicas.WITHIN_MS", 20)
    desk.register("h1", spec=EVERY_10_S)
    (tmp_path / "event.json").write_text('{"a": 1}')
    return lambda *words: inside(capsys, *words, "--redis", broker.url)


@pytest.fixture
def desk(redis_client: Any) -> Desk:
    return Desk(redis_client)


@pytest.mark.parametrize(
    "words",
    [
        ("pause", f"{APP}/{SCHEDULE}"),
        ("resume", f"{APP}/{SCHEDULE}"),
        ("trigger", f"{APP}/{SCHEDULE}"),
        ("trigger", f"{APP}/{SCHEDULE}", "--slot", "next"),
        ("emit", "event.json"),
    ],
    ids=" ".join,
)
def test_an_order_that_no_replica_holds_is_accepted_and_said_so(
    ask: Callable[..., Answer], words: tuple[str, ...]
) -> None:
    answer = ask(*words, "--format", "json")
    assert answer.code == 0
    assert answer.err.startswith("warning: accepted, not replicated: fewer than 1 replica confirmed it")
    document = json.loads(answer.out)
    assert document.get("runs", [document])[0]["replicated"] is False


def test_nothing_is_said_where_no_replica_is_wanted(
    ask: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RELAYCTL_MIN_REPLICA_ACKS")
    answer = ask("pause", f"{APP}/{SCHEDULE}", "--format", "json")
    assert (answer.code, answer.err, json.loads(answer.out)["replicated"]) == (0, "", None)


@pytest.fixture
def pair(short_dir: Path) -> Iterator[tuple[RawServer, RawServer]]:
    """A server and its replica."""
    first = RawServer(short_dir / "first")
    second = RawServer(short_dir / "second", f"replicaof 127.0.0.1 {first.port}", "repl-diskless-sync-delay 0")
    yield first, second
    second.process.send_signal(signal.SIGCONT)
    second.stop()
    first.stop()


def answers(target: Target) -> bool:
    try:
        ping(target)
    except BrokerError:
        return False
    return True


@pytest.mark.slow
def test_an_order_waits_for_its_replica(pair: tuple[RawServer, RawServer], monkeypatch: pytest.MonkeyPatch) -> None:
    first, replica = pair
    target = Target.parse(f"redis://127.0.0.1:{first.port}")
    await_fact(lambda: answers(target), "the server does not start")
    client: Any = connect(target)
    await_fact(lambda: "online" in str(client.info("replication").get("slave0")), "no replica comes")
    desk = Desk(client)
    desk.register("h1", spec=EVERY_10_S)
    orders = Orders(client, desk.keys, acks=1)

    def pause(reason: str) -> bool | None:
        return orders.pause(APP, SCHEDULE, until=None, by="ann", reason=reason).replicated

    # A replica on a busy machine may confirm late.
    await_fact(lambda: pause("one"), "the replica confirms nothing")
    replica.process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr("relayctl.store.replicas.WITHIN_MS", 100)
    assert pause("two") is False
    assert desk.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE].pause_reason == "two", "the order stands"
    client.close()
