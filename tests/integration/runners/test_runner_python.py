"""How a Python handler is called, and what counts as success."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runner_stage import ZOO, Stage, is_alive, zoo_build

from relayctl.core.model import Isolation
from relayctl.runners.invocation import Outcome


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    stage = Stage()
    stage.pool.deploy(zoo_build())
    yield stage
    stage.close()


@pytest.fixture
def stage(shared: Stage) -> Stage:
    """One pool for the whole file: each run must leave it fit for the next anyway."""
    shared.lines.clear()
    shared.ended.clear()
    return shared


EVENT = b'{"n":3,"text":"caf\xc3\xa9"}'


@pytest.mark.parametrize(
    ("handler", "printed"),
    [
        ("echo", ['{"n": 3, "text": "caf\\u00e9"}']),
        ("echo_stdin", ['{"n":3,"text":"café"}']),
        ("echo_descriptor", [str(len(EVENT))]),
        ("echo_by_child", ['{"n":3,"text":"café"}']),
        ("coroutine", ["awaited 3"]),
        ("optional", ["event"]),
        ("close_stdin", ["went on"]),
        ("half_a_line", ["no newline"]),
        ("fork_and_return", ["parent", "child"]),
        ("replace_stdout", []),
        ("close_stdout", []),
        ("close_stdout_object", []),
        ("huge_value", []),
        ("leave_from_thread", []),
    ],
)
def test_succeeds_and_the_next_run_does_too(stage: Stage, handler: str, printed: list[str]) -> None:
    first = stage.one(f"animals.{handler}", event=EVENT)
    assert (first.outcome, first.reason) == (Outcome.SUCCEEDED, "")
    assert stage.texts() == printed
    assert stage.one("animals.echo", event=EVENT).output_tail == b'{"n": 3, "text": "caf\\u00e9"}\n'


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        ("animals.raises", "ValueError: no such customer"),
        ("animals.raises_nasty", "Nasty: (its text could not be made)"),
        ("animals.interrupt", "KeyboardInterrupt"),
        ("animals.recursion", "RecursionError: maximum recursion depth exceeded"),
        ("animals.leave_unspeakably", "exit: (its text could not be made)"),
        ("animals.two", "animals.two wants 2 arguments; a handler takes the event, or nothing"),
        ("animals.generator", "animals.generator is a generator function, so calling it would run nothing"),
        ("animals.number", "animals.number is of type int, not a function"),
        ("animals.nope", "module animals has no function nope"),
        ("nowhere.handler", "ModuleNotFoundError: No module named 'nowhere'"),
        ("broken_import.handler", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("plain", "handler 'plain' is not of the form module.function"),
        ("animals.print_after_close", "OSError: [Errno 9] Bad file descriptor"),
        ("animals.garbage", "the handler wrote to the runner's own channel"),
        ("animals.huge_frame", "the handler wrote to the runner's own channel"),
        ("animals.close_everything", "the handler closed the runner's own channel, or replaced its process"),
        ("animals.become", "the handler closed the runner's own channel, or replaced its process"),
    ],
)
def test_fails_with_its_reason_and_the_next_run_succeeds(stage: Stage, handler: str, reason: str) -> None:
    ended = stage.one(handler)
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, reason)
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED


def test_a_file_that_does_not_parse(make_stage: Callable[..., Stage], tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("def handler(event)\n    pass\n")
    stage = make_stage(zoo_build(directory=tmp_path))
    assert stage.one("jobs.handler").reason == "SyntaxError: expected ':' (jobs.py, line 1)"


def test_traceback_starts_in_the_handler_and_is_bounded(stage: Stage) -> None:
    ended = stage.one("animals.raises")
    assert stage.texts("stderr")[0] == "Traceback (most recent call last):"
    assert "python_child" not in ended.output_tail.decode()
    assert stage.one("animals.recursion").output_bytes < 20_000


@pytest.mark.parametrize(
    ("code", "outcome", "exit_code", "reason"),
    [
        ("null", Outcome.SUCCEEDED, 0, ""),
        ("0", Outcome.SUCCEEDED, 0, ""),
        ("3", Outcome.FAILED, 3, "exit code 3"),
        ('"no luck"', Outcome.FAILED, 1, "exit: no luck"),
        ("1" + 50 * "0", Outcome.FAILED, 255, "exit code 255"),
    ],
)
def test_system_exit(stage: Stage, code: str, outcome: Outcome, exit_code: int, reason: str) -> None:
    ended = stage.one("animals.leave", event=f'{{"code": {code}}}'.encode())
    assert (ended.outcome, ended.exit_code, ended.reason) == (outcome, exit_code, reason)


@pytest.mark.parametrize(
    ("handler", "outcome", "number"),
    [
        ("crash", Outcome.FAILED, 11),
        ("kill_itself", Outcome.LOST, 9),
        ("kill_its_group", Outcome.LOST, 9),
    ],
)
def test_death_by_signal(stage: Stage, handler: str, outcome: Outcome, number: int) -> None:
    ended = stage.one(f"animals.{handler}")
    assert (ended.outcome, ended.signal) == (outcome, number)
    assert ended.reason.startswith("killed by SIG")


@pytest.mark.parametrize("code", [0, 3])
def test_process_ended_by_the_handler(stage: Stage, code: int) -> None:
    ended = stage.one("animals.vanish", event=b'{"code": %d}' % code)
    assert (ended.outcome, ended.exit_code) == (Outcome.FAILED, code)
    assert ended.reason == f"the handler ended its process with exit code {code} before it returned"
    assert ended.output_tail == b"before\n"


def test_module_is_imported_once(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build())
    for _ in range(3):
        stage.one("animals.count")
    assert stage.texts() == ["1", "2", "3"]


def test_what_a_handler_changes_is_put_back(stage: Stage) -> None:
    stage.one("animals.look_around", RELAY_APP="zoo", RELAY_SCHEDULE="nightly")
    stage.one("animals.mess_up", RELAY_APP="zoo")
    stage.one("animals.look_around", RELAY_APP="zoo", RELAY_SCHEDULE="nightly")
    before, after = (json.loads(text) for text in stage.texts())
    assert after == before
    assert before["cwd"] == before["path0"] == str(ZOO)
    assert before["pid"] == before["group"] == before["session"]


@pytest.mark.parametrize(
    ("handler", "event"), [("lower_limits", b"{}"), ("give_up", b"{}"), ("give_up", b'{"owner": true}')]
)
def test_no_right_that_a_handler_gives_up_is_missed_by_the_next(stage: Stage, handler: str, event: bytes) -> None:
    stage.one("animals.rights")
    assert stage.one(f"animals.{handler}", event=event).outcome is Outcome.SUCCEEDED
    assert stage.one("animals.rights").outcome is Outcome.SUCCEEDED
    before, after = stage.texts()
    assert after == before


def test_environment_is_built(make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYCTL_REDIS_URL", "redis://:hidden@nowhere")
    stage = make_stage(zoo_build(env=(("API_URL", "https://example.com"), ("HOME", "/home/zoo"))))
    stage.one("animals.look_around", RELAY_SCHEDULE="nightly", RELAY_MESSAGE_ID="1-0")
    stage.one("animals.look_around", RELAY_MESSAGE_ID="2-0")
    first, second = (json.loads(text) for text in stage.texts())
    own = {"PATH", "HOME", "LANG", "TZ", "API_URL", "RELAY_SCHEDULE", "RELAY_MESSAGE_ID", "RELAY_CHILD"}
    assert set(first["environ"]) <= own | {"LC_CTYPE"}
    assert (first["environ"]["HOME"], first["environ"]["API_URL"]) == ("/home/zoo", "https://example.com")
    assert second["environ"]["RELAY_MESSAGE_ID"] == "2-0"
    assert "RELAY_SCHEDULE" not in second["environ"]
    assert "RELAY_SCHEDULE=nightly" not in second["env"]
    assert "RELAY_MESSAGE_ID=2-0" in second["env"]


def test_a_left_thread_costs_the_child(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(), grace_s=0.3)
    assert stage.one("animals.leave_thread", event=b'{"s": 100}').outcome is Outcome.SUCCEEDED
    first = int(stage.texts()[0])
    assert not is_alive(first)
    stage.one("animals.leave_daemon_thread")
    stage.one("animals.pid")
    assert stage.texts()[1] == stage.texts()[2] != str(first)


def test_fresh_children_are_used_once(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(isolation=Isolation.FRESH))
    ended = stage.finish(*(stage.run("animals.count") for _ in range(3)))
    assert [one.output_tail for one in ended] == [b"1\n"] * 3


def test_slow_import_before_the_first_run_costs_no_run_time(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(handlers=("slow_import.handler",)))
    stage.ready()
    ended = stage.one("slow_import.handler", timeout_s=0.9)
    assert (ended.outcome, stage.texts()) == (Outcome.SUCCEEDED, ["at last"])


def test_a_module_that_kills_its_process_hides_no_other(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(handlers=("animals.noop", "deadly_import.handler")))
    stage.pool.demand("zoo", 1)
    stage.until(lambda: stage.pool.trouble("zoo"))
    assert stage.pool.trouble("zoo") == "a child ended before it was ready"
    stage.until(lambda: stage.pool.demand("zoo", 1) or stage.pool.capacity("zoo"))
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED
    assert stage.one("deadly_import.handler").exit_code == 9


@pytest.mark.parametrize("size", [200 * 1024, 2 * 1024 * 1024])
@pytest.mark.parametrize("handler", ["noop", "echo_descriptor", "read_slowly", "close_stdin"])
def test_large_events(stage: Stage, handler: str, size: int) -> None:
    event = json.dumps({"blob": "x" * size}).encode()
    ended = stage.one(f"animals.{handler}", event=event)
    assert (ended.outcome, ended.reason) == (Outcome.SUCCEEDED, "")
    if handler in ("echo_descriptor", "read_slowly"):
        assert stage.texts() == [str(len(event))]


def test_memory_limit(make_stage: Callable[..., Stage]) -> None:
    from relayctl.core.model import Resources

    stage = make_stage(zoo_build(resources=Resources(memory=256 * 1024 * 1024)))
    assert stage.one("animals.allocate", event=b'{"bytes": 1000}').outcome is Outcome.SUCCEEDED
    ended = stage.one("animals.allocate", event=b'{"bytes": 500000000}')
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, "MemoryError")
