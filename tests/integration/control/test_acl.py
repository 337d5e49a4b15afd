"""The documented ACL: it names every command that the store sends, and a worker lives under it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from support.broker import BrokerFactory, await_fact
from support.console import ROOT, inside
from support.fleet import Fleet

from relayctl.store.connect import connect

DOCS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
STORE = ROOT / "relayctl" / "store"
_NO_COMMANDS = {"pipeline", "execute", "execute_command", "close"}
_OTHER_NAMES = {"zscan_iter": "zscan", "delete": "del", "xpending_range": "xpending", "eval_ro": "eval_ro"}


def _rules() -> list[str]:
    [block] = re.findall(r"```\nACL SETUSER relayctl ([^`]*)```", DOCS)
    return block.split()


def _producer_rules() -> list[str]:
    [line] = re.findall(r"producer of events alone needs `([^`]*)`", DOCS)
    return line.split()


def _lua_commands() -> set[str]:
    found = set()
    for path in STORE.rglob("*.lua"):
        for name, sub in re.findall(r"redis\.call\('([A-Za-z]+)'(?:, *'([A-Z]+)')?", path.read_text()):
            found.add(f"{name}|{sub}".lower() if name in {"XGROUP", "XINFO"} else name.lower())
    return found


def _client_commands() -> set[str]:
    methods = set()
    for path in STORE.glob("*.py"):
        text = path.read_text()
        methods |= set(re.findall(r"(?:client|pipeline)\.([a-z_]+)\(", text))
        # Those that are spelled out, for a pipeline or behind a script.
        methods |= {name.lower() for name in re.findall(r'\("([A-Z]{3,})", [a-z]', text)}
        # A pipeline that is a transaction is wrapped by the library.
        methods |= {"multi", "exec"} if "pipeline(transaction=True)" in text or "pipeline()" in text else set()
    return {_OTHER_NAMES.get(name, name.replace("_", "|")) for name in methods - _NO_COMMANDS}


@pytest.mark.parametrize("command", sorted(_lua_commands() | _client_commands()))
def test_every_command_of_the_store_is_granted(command: str) -> None:
    # What only a setting needs is granted beside the block.
    assert f"+{command}" in _rules() or (command in {"wait", "eval", "watch"} and f"`+{command}`" in DOCS)


@pytest.fixture
def guarded(short_dir: Path, broker_factory: BrokerFactory) -> Iterator[Fleet]:
    """A fleet whose broker lets in the documented users only by their passwords."""
    broker = broker_factory("guarded")
    admin = connect(broker.target)
    rules = [rule.replace(">PASSWORD", ">open-sesame") for rule in _rules()]
    admin.execute_command("ACL", "SETUSER", "relayctl", *rules)
    admin.execute_command("ACL", "SETUSER", "producer", "on", ">tell-me", "resetchannels", *_producer_rules())
    admin.close()
    made = Fleet(short_dir, broker.target, broker.url)
    yield made
    made.close()


def _as(url: str, user: str, password: str) -> str:
    return url.replace("unix://", f"unix://{user}:{password}@")


def test_a_worker_and_a_producer_live_under_the_documented_rules(
    guarded: Fleet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    guarded.tree.app(
        "app",
        "- {name: tick, handler: jobs.run, every: 1s}",
        events="- {handler: jobs.on_event, pattern: {kind: [wanted]}}\n- {handler: jobs.on_bad_event, pattern: {kind: [bad]}, retries: 0}",
    )
    worker = guarded.start("--http", "127.0.0.1:0", redis=_as(guarded.url, "relayctl", "open-sesame"))
    file = tmp_path / "event.json"
    for kind in ("wanted", "bad", "other"):
        file.write_text(json.dumps({"kind": kind}))
        answer = inside(capsys, "emit", str(file), "--redis", _as(guarded.url, "producer", "tell-me"))
        assert answer.code == 0, answer.err
    await_fact(lambda: guarded.tree.runs("event") and guarded.tree.runs("fail"), "the events do not run")
    guarded.tree.app("app", "- {name: tock, handler: jobs.run, every: 1s}")
    worker.await_told("app-loaded", app="app", removed=1)
    guarded.pass_time(2, schedule="tock")
    state = str(guarded.root / "state-0")
    health = inside(capsys, "health", "-v", "--state-dir", state)
    assert health.code == 0, health.out + health.err
    assert worker.stop() == 0
    assert not worker.told("loop-failed") and not worker.told("publish-failed")
    assert "open-sesame" not in worker.story() + json.dumps(worker.facts)
    denied = guarded.client.execute_command("ACL", "LOG")
    assert denied == []


def test_a_producer_may_do_nothing_else(guarded: Fleet) -> None:
    from relayctl.store.connect import Target

    client = connect(Target.parse(_as(guarded.url, "producer", "tell-me")))
    try:
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get("{relay}:mode")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.xadd("{relay}:dlq", {"a": "b"})
    finally:
        client.close()
