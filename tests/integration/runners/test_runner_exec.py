"""Programs as handlers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from runner_stage import Stage, is_alive, zoo_build

from relayctl.runners.invocation import Outcome


@pytest.fixture
def programs(make_stage: Callable[..., Stage]) -> Stage:
    return make_stage(zoo_build(runtime="exec", secrets=(("TOKEN", "api-token"),)), grace_s=0.3)


@pytest.fixture(autouse=True)
def token(programs: Stage) -> None:
    programs.values["api-token"] = "s3cr3t-value"


def test_event_on_stdin_and_environment(programs: Stage) -> None:
    ended = programs.one("bin/echo.sh", event=b'{"n":1}', RELAY_APP="zoo")
    assert (ended.outcome, ended.exit_code) == (Outcome.SUCCEEDED, 0)
    assert programs.texts("stdout") == ['{"n":1}']
    assert programs.texts("stderr") == ["app=zoo token=***"]


def test_exit_code_decides(programs: Stage) -> None:
    ended = programs.one("bin/seven.sh")
    assert (ended.outcome, ended.exit_code, ended.reason) == (Outcome.FAILED, 7, "exit code 7")


def test_two_megabytes_nobody_reads(programs: Stage) -> None:
    assert programs.one("bin/blind.sh", event=b"x" * 2_000_000).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("program", "reason", "started"),
    [
        ("bin/none.sh", "app zoo has no program bin/none.sh", False),
        ("bin/plain.txt", "program bin/plain.txt is not executable; chmod +x it", False),
        ("../runner_stage.py", "program ../runner_stage.py lies outside its app", False),
        ("/bin/true", "program /bin/true lies outside its app", False),
        ("bin/nul\0.sh", "", False),
        ("bin/badline", "bin/badline cannot be run: No such file or directory", True),
    ],
)
def test_programs_that_cannot_run(programs: Stage, program: str, reason: str, started: bool) -> None:
    ended = programs.one(program)
    assert (ended.outcome, ended.started) == (Outcome.FAILED, started)
    assert ended.reason == reason or not reason
    assert programs.one("bin/blind.sh").outcome is Outcome.SUCCEEDED


def test_timeout_takes_the_whole_group(programs: Stage) -> None:
    ended = programs.one("bin/stubborn.sh", timeout_s=0.5)
    assert (ended.outcome, programs.texts()) == (Outcome.TIMEOUT, ["here"])


def test_slots_are_the_capacity(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(runtime="exec", concurrency=2), max_children=5)
    assert stage.pool.capacity("zoo") == 2
    runs = [stage.run("bin/stubborn.sh"), stage.run("bin/blind.sh")]
    for run in runs:
        stage.pool.start(run)
    assert stage.pool.capacity("zoo") == 0
    pids = [child.process.pid for child in stage.pool._nursery.children]
    stage.until(lambda: stage.texts() == ["here"] and stage.pool.capacity("zoo") == 1)
    stage.pool.stop(runs[0].key, "lost")
    stage.until(lambda: stage.pool.capacity("zoo") == 2)
    assert not any(map(is_alive, pids))
