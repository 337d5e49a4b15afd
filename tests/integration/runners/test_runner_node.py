"""Handlers in node: the same contract as in Python."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runner_stage import ZOO, Stage, is_alive, zoo_build

from relayctl.core.model import Isolation, Resources
from relayctl.errors import UsageError
from relayctl.runners.environ import base_environ
from relayctl.runners.invocation import Outcome

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not on the PATH")


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    stage = Stage()
    stage.pool.deploy(zoo_build(runtime="node"))
    yield stage
    stage.close()


@pytest.fixture
def stage(shared: Stage) -> Stage:
    """One pool for the whole file: each run must leave it fit for the next anyway."""
    shared.lines.clear()
    shared.ended.clear()
    return shared


EVENT = '{"n":3,"text":"café"}'


@pytest.mark.parametrize(
    ("handler", "printed"),
    [
        ("beasts.echo", [EVENT]),
        ("beasts.echo_stdin", [EVENT]),
        ("beasts.echo_stream", [EVENT]),
        ("beasts.echo_by_child", [EVENT]),
        ("beasts.awaits", ["awaited 3"]),
        ("beasts.close_stdin", []),
        ("beasts.close_stdout", []),
        ("beasts.huge_value", []),
        ("modern.handler", ["modern 3 modern.mjs"]),
        ("modern.default", ["default 3"]),
        ("inner.default", ["whole 3"]),
    ],
)
def test_succeeds_and_the_next_run_does_too(stage: Stage, handler: str, printed: list[str]) -> None:
    first = stage.one(handler, event=EVENT.encode())
    assert (first.outcome, first.reason) == (Outcome.SUCCEEDED, "")
    assert stage.texts() == printed
    assert stage.one("beasts.echo", event=EVENT.encode()).output_tail == EVENT.encode() + b"\n"


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        ("beasts.raises", "TypeError: no such customer"),
        ("beasts.rejects", "RangeError: too far"),
        ("beasts.throws_text", "thrown: just words"),
        ("beasts.throws_later", "Error: later"),
        ("beasts.rejects_unseen", "Error: unseen"),
        ("beasts.waits_for_nothing", "the handler waits for something that can never come"),
        ("beasts.recursion", "RangeError: Maximum call stack size exceeded"),
        ("beasts.generator", "beasts.generator is a generator function, so calling it would run nothing"),
        ("beasts.number", "beasts.number is of type number, not a function"),
        ("beasts.nope", "module beasts exports no nope"),
        ("nowhere.handler", "the app has no module nowhere"),
        ("broken.handler", "SyntaxError: Unexpected end of input (broken.cjs, line 2)"),
        ("plain", "handler 'plain' is not of the form module.function"),
        ("beasts.print_after_close", "output was lost: Error: write EBADF"),
        ("beasts.garbage", "the handler wrote to the runner's own channel"),
    ],
)
def test_fails_with_its_reason_and_the_next_run_succeeds(stage: Stage, handler: str, reason: str) -> None:
    ended = stage.one(handler)
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, reason)
    assert stage.one("beasts.noop").outcome is Outcome.SUCCEEDED


def test_a_stack_begins_in_the_handler(stage: Stage) -> None:
    stage.one("beasts.raises")
    shown = stage.texts("stderr")
    assert shown[0] == "TypeError: no such customer"
    assert not any("node_child" in line for line in shown)


@pytest.mark.parametrize(
    ("handler", "code", "outcome"),
    [
        ("beasts.leave", 0, Outcome.SUCCEEDED),
        ("beasts.leave", 3, Outcome.FAILED),
        ("beasts.leave_later", 4, Outcome.FAILED),
    ],
)
def test_exit_codes(stage: Stage, handler: str, code: int, outcome: Outcome) -> None:
    ended = stage.one(handler, event=b'{"code": %d}' % code)
    assert (ended.outcome, ended.exit_code, ended.reason) == (outcome, code, f"exit code {code}" if code else "")
    assert stage.one("beasts.noop").outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("handler", "outcome", "number"),
    [("beasts.abort", Outcome.FAILED, 6), ("beasts.kill_itself", Outcome.LOST, 9)],
)
def test_death_by_signal(stage: Stage, handler: str, outcome: Outcome, number: int) -> None:
    ended = stage.one(handler)
    assert (ended.outcome, ended.signal) == (outcome, number)


@pytest.mark.parametrize("handler", ["sleep", "spin", "stubborn", "polite"])
def test_timeout(make_stage: Callable[..., Stage], handler: str) -> None:
    stage = make_stage(zoo_build(runtime="node", handlers=("beasts.noop",)), grace_s=0.5)
    stage.ready()
    ended = stage.one(f"beasts.{handler}", timeout_s=0.5)
    assert (ended.outcome, ended.reason) == (Outcome.TIMEOUT, "timed out after 0.5s")
    assert ("cleaned up" in stage.texts()) is (handler == "polite")
    assert stage.one("beasts.noop").outcome is Outcome.SUCCEEDED


def test_what_a_handler_changes_is_put_back(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(runtime="node", env=(("API_URL", "https://example.com"),)))
    stage.one("beasts.look", RELAY_APP="zoo", RELAY_SCHEDULE="nightly")
    stage.one("beasts.mess_up", RELAY_APP="zoo")
    stage.one("beasts.look", RELAY_APP="zoo", RELAY_SCHEDULE="nightly")
    stage.one("beasts.look", RELAY_APP="zoo")
    before, after, last = (json.loads(text) for text in stage.texts())
    assert after == before
    assert before["cwd"] == str(ZOO)
    own = {"PATH", "HOME", "LANG", "TZ", "API_URL", "RELAY_APP", "RELAY_SCHEDULE", "RELAY_CHILD"}
    assert set(before["env"]) <= own and before["env"]["RELAY_SCHEDULE"] == "nightly"
    assert "RELAY_SCHEDULE" not in last["env"]


def test_what_a_handler_leaves_running_costs_the_child(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(runtime="node", concurrency=1))
    for handler in ("count", "count", "leave_timer", "count"):
        assert stage.one(f"beasts.{handler}").outcome is Outcome.SUCCEEDED
    assert stage.texts() == ["1", "2", "1"]
    for handler in ("priority", "be_nice", "priority"):
        stage.one(f"beasts.{handler}")
    assert stage.texts()[3] == stage.texts()[4]
    daemon = stage.one("beasts.detach")
    stage.until(lambda: not is_alive(int(daemon.output_tail)))


def test_fresh_children_are_used_once(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(runtime="node", isolation=Isolation.FRESH, concurrency=1))
    for _ in range(2):
        stage.one("beasts.count")
    assert stage.texts() == ["1", "1"]


def test_handlers_that_cannot_be_loaded_are_told_beforehand(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(runtime="node", handlers=("beasts.noop", "broken.handler")))
    stage.ready()
    assert stage.pool.trouble("zoo").startswith("broken.handler: SyntaxError")
    assert stage.one("beasts.noop").outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("size", [200 * 1024, 2 * 1024 * 1024])
@pytest.mark.parametrize("handler", ["noop", "echo_stdin"])
def test_large_events(stage: Stage, handler: str, size: int) -> None:
    event = json.dumps({"blob": "x" * size}).encode()
    ended = stage.one(f"beasts.{handler}", event=event)
    assert (ended.outcome, ended.output_bytes) == (Outcome.SUCCEEDED, 0 if handler == "noop" else len(event) + 1)


def test_large_outputs(stage: Stage) -> None:
    ended = stage.one("beasts.flood", event=b'{"mb": 20}')
    assert (ended.outcome, ended.output_bytes) == (Outcome.SUCCEEDED, 20_000_008)
    assert ended.output_tail.endswith(b"the end\n")


def test_memory_limit(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(runtime="node", resources=Resources(memory=128 * 1024 * 1024)))
    assert stage.one("beasts.allocate", event=b'{"bytes": 1000}').outcome is Outcome.SUCCEEDED
    ended = stage.one("beasts.allocate", event=b'{"bytes": 800000000}')
    assert ended.outcome is not Outcome.SUCCEEDED
    assert b"heap out of memory" in ended.output_tail or ended.signal == 9
    assert stage.one("beasts.noop").outcome is Outcome.SUCCEEDED


def test_a_module_behind_a_link_must_stay_in_the_app(make_stage: Callable[..., Stage], tmp_path: Path) -> None:
    (tmp_path / "outside.js").write_text("exports.run = () => {}")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "jobs.js").symlink_to(tmp_path / "outside.js")
    stage = make_stage(zoo_build(runtime="node", directory=tmp_path / "app"))
    assert stage.one("jobs.run").reason == "module jobs lies outside its app"


def test_a_node_that_is_too_old_or_missing(make_stage: Callable[..., Stage], tmp_path: Path) -> None:
    stage = make_stage(base_environ={**base_environ(), "PATH": str(tmp_path)})
    with pytest.raises(UsageError) as refusal:
        stage.pool.deploy(zoo_build(runtime="node"))
    assert refusal.value.help == "install node 18 or later"
    (tmp_path / "node").write_text("#!/bin/sh\necho 'node v12.0.0 is too old: 18 or later is needed' >&2\nexit 1\n")
    (tmp_path / "node").chmod(0o755)
    stage.pool.deploy(zoo_build(runtime="node"))
    stage.pool.demand("zoo", 1)
    stage.until(lambda: stage.pool.trouble("zoo"))
    assert stage.pool.trouble("zoo").endswith("node v12.0.0 is too old: 18 or later is needed")
