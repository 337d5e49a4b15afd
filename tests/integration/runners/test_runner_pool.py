"""Who may start, who is spawned and who goes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from runner_stage import ZOO, Stage, is_alive, zoo_build

from relayctl.errors import UsageError
from relayctl.host.clock import SystemClock
from relayctl.runners.build import Build
from relayctl.runners.environ import base_environ
from relayctl.runners.invocation import Outcome, Run
from relayctl.runners.once import run_once


def test_demand_makes_capacity_up_to_the_concurrency(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(concurrency=2))
    assert stage.pool.capacity("zoo") == stage.pool.capacity("unknown") == 0
    stage.ready(2)
    stage.pool.demand("zoo", 50)
    runs = [stage.run("animals.sleep", event=b'{"s": 0.2}') for _ in range(4)]
    stage.pool.start(runs[0])
    assert stage.pool.capacity("zoo") == 1
    ended = stage.finish(*runs[1:])
    spans = sorted((one.started_at, one.finished_at) for one in [*stage.ended[:1], *ended])
    for start, _ in spans:
        assert sum(begin <= start < end for begin, end in spans) <= 2
    assert len(stage.pool._nursery.children) == 2
    assert stage.pool.busy() == 0


def test_resting_children_of_others_make_room_but_never_busy_ones(make_stage: Callable[..., Stage]) -> None:
    apps = [zoo_build(app=name, concurrency=1) for name in ("one", "two", "three")]
    stage = make_stage(*apps, max_children=2)
    stage.ready(app="one")
    stage.pool.start(stage.run("animals.sleep", app="one"))
    stage.ready(app="two")
    stage.ready(app="three")
    assert [stage.pool.capacity(name) for name in ("one", "two", "three")] == [0, 0, 1]
    stage.pool.start(stage.run("animals.sleep", app="three"))
    stage.pool.demand("two", 1)
    assert sum(child.build.app == "two" and not child.is_retired for child in stage.pool._nursery.children) == 0


def test_idle_children_go_in_time(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(), idle_s=0.2)
    stage.ready()
    assert stage.pool.next_timer() is not None
    stage.until(lambda: not stage.pool._nursery.children, within=5)
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED


def test_an_idle_child_that_was_killed_is_replaced(stage: Stage) -> None:
    stage.ready()
    (child,) = stage.pool._nursery.children
    child.kill()
    stage.until(lambda: not stage.pool._nursery.children)
    assert stage.pool.capacity("zoo") == 0
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED


def test_a_resting_child_that_lost_its_channel_gets_no_run(stage: Stage) -> None:
    assert stage.one("animals.close_channel_later", event=b'{"after": 0.1}').outcome is Outcome.SUCCEEDED
    assert stage.pool.capacity("zoo") == 1
    (child,) = stage.pool._nursery.children
    stage.until(lambda: not is_alive(child.process.pid))
    assert stage.one("animals.noop", timeout_s=5).outcome is Outcome.SUCCEEDED


def app_in(directory: Path, text: str, revision: str) -> Build:
    directory.mkdir(exist_ok=True)
    (directory / "jobs.py").write_text(text)
    return zoo_build(directory=directory, revision=revision, handlers=("jobs.handler",))


def printing(word: str) -> str:
    return f"import time\n\ndef handler(event):\n    print({word!r}, flush=True)\n    time.sleep(event.get('s', 0))\n"


def test_a_new_build_takes_over_and_busy_children_finish(make_stage: Callable[..., Stage], tmp_path: Path) -> None:
    stage = make_stage(app_in(tmp_path / "a", printing("old"), "r1"))
    stage.ready()
    stage.pool.take_settled()
    stage.pool.start(stage.run("jobs.handler", event=b'{"s": 1.0}'))
    stage.until(lambda: stage.texts() == ["old"])
    (old,) = stage.pool._nursery.children
    stage.pool.deploy(app_in(tmp_path / "b", printing("new"), "r2"))
    settled: list[object] = []
    stage.until(lambda: settled.extend(stage.pool.take_settled()) or settled)
    assert settled == [("zoo", "r2", True, "")]
    assert not stage.ended
    assert stage.one("jobs.handler").outcome is Outcome.SUCCEEDED
    assert stage.texts() == ["old", "new"]
    stage.until(lambda: len(stage.ended) == 2 and not is_alive(old.process.pid))
    assert [ended.outcome for ended in stage.ended] == [Outcome.SUCCEEDED] * 2


@pytest.mark.parametrize("broken", ["import nowhere_at_all\n", "import os\nos._exit(3)\n", "pass\n"])
def test_a_build_that_cannot_be_imported_leaves_the_old_one(
    make_stage: Callable[..., Stage], tmp_path: Path, broken: str
) -> None:
    stage = make_stage(app_in(tmp_path / "a", printing("old"), "r1"))
    stage.ready()
    stage.pool.take_settled()
    stage.pool.deploy(app_in(tmp_path / "b", broken, "r2"))
    settled: list[tuple[str, str, bool, str]] = []
    stage.until(lambda: settled.extend(stage.pool.take_settled()) or settled)
    assert settled[0][:3] == ("zoo", "r2", False)
    assert settled[0][3] == stage.pool.trouble("zoo") != ""
    assert stage.one("jobs.handler").outcome is Outcome.SUCCEEDED
    stage.pool.deploy(app_in(tmp_path / "c", printing("mended"), "r3"))
    stage.until(stage.pool.take_settled)
    stage.one("jobs.handler")
    assert stage.texts() == ["old", "mended"]
    assert stage.pool.trouble("zoo") == ""


def test_retire_lets_the_busy_finish(stage: Stage) -> None:
    stage.ready(2)
    stage.pool.start(stage.run("animals.sleep", event=b'{"s": 0.3}'))
    stage.pool.retire("zoo")
    assert stage.pool.capacity("zoo") == 0
    assert stage.pool.busy() == 1
    stage.until(lambda: stage.ended and not stage.pool._nursery.children)
    assert stage.ended[0].outcome is Outcome.SUCCEEDED
    assert stage.one("animals.noop").outcome is Outcome.REFUSED


def test_retired_and_deployed_again_while_busy(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(concurrency=1))
    stage.ready()
    stage.pool.start(stage.run("animals.sleep", event=b'{"s": 0.3}'))
    stage.pool.retire("zoo")
    stage.pool.deploy(zoo_build(concurrency=1))
    stage.pool.start(stage.run("animals.noop"))
    stage.until(lambda: len(stage.ended) == 2)
    first, second = stage.ended
    assert second.started_at >= first.finished_at
    assert stage.pool.busy() == 0


@pytest.mark.parametrize("runtime", ["python", "exec"])
def test_concurrency_holds_across_builds_and_beyond_capacity(make_stage: Callable[..., Stage], runtime: str) -> None:
    handler = "animals.sleep" if runtime == "python" else "bin/nap.sh"
    stage = make_stage(zoo_build(runtime=runtime, concurrency=2))
    stage.ready(2)
    runs = [stage.run(handler, event=b'{"s": 0.3}') for _ in range(5)]
    for run in runs[:2]:
        stage.pool.start(run)
    stage.pool.deploy(zoo_build(runtime=runtime, revision="r2", concurrency=1))
    for run in runs[2:]:
        stage.pool.start(run)
    assert stage.pool.busy() == 5
    stage.until(lambda: len(stage.ended) == 5)
    assert [one.outcome for one in stage.ended] == [Outcome.SUCCEEDED] * 5
    spans = [(one.started_at, one.finished_at) for one in stage.ended]
    assert all(begin >= max(end for _, end in spans[: 2 + n]) for n, (begin, _) in enumerate(spans[2:]))


def test_what_waits_can_be_stopped(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(concurrency=1))
    waiting = stage.run("animals.noop")
    stage.pool.start(waiting)
    stage.pool.stop(waiting.key, "the lease was lost")
    stage.pool.stop("nobody|knows", "")
    (ended,) = stage.pool.take_ended()
    assert (ended.outcome, ended.started) == (Outcome.INTERRUPTED, False)


@pytest.mark.parametrize("runtime", ["nodejs", "python9.99", "", "ruby", "python3.11; true"])
def test_unknown_runtimes_are_refused_with_a_way_out(stage: Stage, runtime: str) -> None:
    with pytest.raises(UsageError) as refusal:
        stage.pool.deploy(zoo_build(app="other", runtime=runtime))
    assert refusal.value.help and "other" in refusal.value.message
    assert stage.pool.capacity("other") == 0


def test_an_interpreter_from_the_path(make_stage: Callable[..., Stage], tmp_path: Path) -> None:
    (tmp_path / "python3.99").symlink_to(sys.executable)
    base = {**base_environ(), "PATH": f"{tmp_path}:{base_environ()['PATH']}"}
    stage = make_stage(zoo_build(runtime="python3.99"), base_environ=base)
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED


def test_a_directory_that_vanished(make_stage: Callable[..., Stage], tmp_path: Path) -> None:
    stage = make_stage(zoo_build(directory=tmp_path / "gone"))
    ended = stage.one("animals.noop")
    assert (ended.outcome, ended.started) == (Outcome.FAILED, False)
    assert ended.reason == "no child could be started: No such file or directory"
    stage.pool.demand("zoo", 1)
    assert not stage.pool._nursery.children  # it is not tried again at once


def test_run_once() -> None:
    lines: list[str] = []
    run = Run(
        key="local|animals.echo",
        app="zoo",
        handler="animals.echo",
        stdin=b"[1]",
        variables={},
        timeout_s=20,
        label="zoo",
    )
    ended = run_once(
        zoo_build(directory=ZOO),
        run,
        clock=SystemClock(),
        secrets=str,
        on_line=lambda _run, _stream, line: lines.append(line),
        base_environ=base_environ(),
    )
    assert (ended.outcome, lines) == (Outcome.SUCCEEDED, ["[1]"])
    assert ended.duration_s < time.monotonic()
