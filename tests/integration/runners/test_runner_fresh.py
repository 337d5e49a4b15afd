"""Children that a zygote forks: what they share, what they must not, and what becomes of them when it dies."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from runner_stage import Stage, is_alive, open_descriptors, zoo_build

from relayctl.core.model import Isolation
from relayctl.runners import childproc, forked
from relayctl.runners.build import Build
from relayctl.runners.invocation import Outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each fresh child is an interpreter")

LOADED = ("wild.family",)


def fresh(**changes: object) -> Build:
    return zoo_build(isolation=Isolation.FRESH, **changes)


def written(directory: Path, text: str, revision: str = "r1") -> Build:
    directory.mkdir(exist_ok=True)
    (directory / "jobs.py").write_text(text)
    return fresh(directory=directory, revision=revision, handlers=("jobs.handler",))


def zygotes(stage: Stage) -> list[int]:
    return [each.process.pid for each in stage.pool._nursery._all_zygotes()]


def test_children_are_forks_of_one_that_has_imported(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(fresh(handlers=LOADED))
    stage.finish(*(stage.run("wild.family") for _ in range(5)))
    rows = [line.split() for line in stage.texts()]
    (zygote,) = zygotes(stage)
    assert {(parent, importer) for _, parent, importer, *_ in rows} == {(str(zygote), str(zygote))}
    assert len({pid for pid, *_ in rows}) == len({row[4] for row in rows}) == 5
    assert all(pid == session for pid, _, _, session, _ in rows)


def test_no_child_sees_what_another_did(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(fresh(handlers=("animals.noop",)))
    for handler in ("count", "mess_up", "count", "look_around", "look_around"):
        assert stage.one(f"animals.{handler}", RELAY_APP="zoo").outcome is Outcome.SUCCEEDED
    first, second, *looks = stage.texts()
    assert (first, second) == ("1", "1")
    assert '"/elsewhere"' not in looks[0] and '"umask": 18' in looks[0]


def test_chance_is_its_own(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(fresh(handlers=LOADED))
    stage.finish(*(stage.run("wild.draw") for _ in range(3)))
    rows = [line.split() for line in stage.texts()]
    assert len({drawn for drawn, _ in rows}) == 1
    assert len({own for _, own in rows}) == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(300,), daemon=True).start()\n", "threads"),
        ("import subprocess\nhelper = subprocess.Popen(['sleep', '300'])\n", "processes"),
        ("import socket\npair = socket.socketpair()\n", "connections or files"),
    ],
)
def test_imports_that_cannot_be_shared_are_made_by_each(
    make_stage: Callable[..., Stage], tmp_path: Path, text: str, reason: str
) -> None:
    text += "import os\nimported_by = os.getpid()\ndef handler(event):\n    print(imported_by == os.getpid())\n"
    stage = make_stage(written(tmp_path, text))
    ended = stage.finish(*(stage.run("jobs.handler") for _ in range(3)))
    assert [one.outcome for one in ended] == [Outcome.SUCCEEDED] * 3
    assert stage.texts() == ["True"] * 3
    assert [
        (app, why.rpartition(" starts ")[2].rpartition(" opens ")[2]) for app, why in stage.pool.take_unshared()
    ] == [("zoo", reason)]
    assert len(zygotes(stage)) == 1


def test_a_log_file_that_is_appended_to_can_be_shared(make_stage: Callable[..., Stage], tmp_path: Path) -> None:
    text = f"log = open({str(tmp_path / 'log')!r}, 'a')\ndef handler(event):\n    print('one', file=log, flush=True)\n"
    stage = make_stage(written(tmp_path / "app", text))
    stage.finish(*(stage.run("jobs.handler") for _ in range(3)))
    assert stage.pool.take_unshared() == []
    assert (tmp_path / "log").read_text() == "one\n" * 3


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("import nowhere_at_all\n", "jobs.handler: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("import os\nprint('dear me', flush=True)\nos._exit(3)\n", "a child ended before it was ready: dear me"),
    ],
)
def test_code_that_cannot_be_imported(
    make_stage: Callable[..., Stage], tmp_path: Path, text: str, trouble: str
) -> None:
    stage = make_stage(written(tmp_path, text))
    stage.pool.demand("zoo", 2)
    stage.until(lambda: stage.pool.trouble("zoo"))
    assert stage.pool.trouble("zoo") == trouble
    stage.until(lambda: stage.pool.demand("zoo", 1) or stage.pool.capacity("zoo"))
    assert stage.one("jobs.handler").outcome is Outcome.FAILED


def test_an_import_that_hangs_is_given_up(
    make_stage: Callable[..., Stage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(childproc, "START_S", 0.5)
    stage = make_stage(written(tmp_path, "import time\ntime.sleep(300)\n"))
    stage.pool.demand("zoo", 1)
    stage.until(lambda: stage.pool.trouble("zoo"))
    assert "not ready after" in stage.pool.trouble("zoo")
    stage.until(lambda: not zygotes(stage))


def test_a_killed_zygote_takes_its_children_and_is_replaced(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(fresh(handlers=LOADED, concurrency=2))
    bystander = stage.run("animals.stubborn")
    stage.pool.start(bystander)
    stage.until(lambda: stage.texts() == ["here"])
    (first,) = zygotes(stage)
    killer = stage.one("wild.kill_zygote")
    stage.until(lambda: len(stage.ended) == 2)
    assert {one.outcome for one in stage.ended} == {Outcome.LOST} == {killer.outcome}
    assert stage.one("wild.family").outcome is Outcome.SUCCEEDED
    assert first not in zygotes(stage) and not is_alive(first)


def test_a_stopped_zygote_is_given_up(make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "PATIENCE_S", 0.5)
    stage = make_stage(fresh(handlers=LOADED), grace_s=0.2)
    stage.ready()
    (stopped,) = zygotes(stage)
    os.kill(stopped, signal.SIGSTOP)
    assert stage.one("wild.family").outcome is Outcome.SUCCEEDED  # by the child that was there
    assert stage.one("wild.family").outcome in (Outcome.SUCCEEDED, Outcome.FAILED)
    stage.until(lambda: not is_alive(stopped))
    stage.until(lambda: stage.pool.demand("zoo", 1) or stage.pool.capacity("zoo"))
    assert stage.one("wild.family").outcome is Outcome.SUCCEEDED


def test_it_goes_when_nobody_needs_it(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(fresh(handlers=LOADED), idle_s=0.2)
    stage.one("wild.family")
    stage.until(lambda: not zygotes(stage) and not stage.pool._nursery.children)
    assert stage.one("wild.family").outcome is Outcome.SUCCEEDED


def test_each_build_has_its_own(make_stage: Callable[..., Stage], tmp_path: Path) -> None:
    say = "def handler(event):\n    print({!r})\n"
    stage = make_stage(written(tmp_path / "a", say.format("old")))
    stage.one("jobs.handler")
    (old,) = zygotes(stage)
    stage.pool.take_settled()
    stage.pool.deploy(written(tmp_path / "b", "import nowhere_at_all\n", "r2"))
    stage.until(stage.pool.take_settled)
    stage.until(lambda: zygotes(stage) == [old])
    stage.pool.deploy(written(tmp_path / "c", say.format("new"), "r3"))
    stage.until(stage.pool.take_settled)
    stage.one("jobs.handler")
    assert stage.texts() == ["old", "new"]
    stage.until(lambda: len(zygotes(stage)) == 1 and not is_alive(old))


@pytest.mark.parametrize("fails", ["false", "true"])
def test_a_daemon_is_known_for_its_own_child(make_stage: Callable[..., Stage], fails: str) -> None:
    stage = make_stage(fresh(handlers=LOADED, concurrency=2))
    bystander = stage.run("animals.sleep", event=b'{"s": 1.0}')
    stage.pool.start(bystander)
    ended = stage.one("wild.detach_without_a_name", event=b'{"fail": %s}' % fails.encode())
    pid, mark, own = ended.output_tail.decode().splitlines()[0].split()
    assert mark == f"RELAY_CHILD={own}"
    stage.until(lambda: not is_alive(int(pid)))
    stage.until(lambda: len(stage.ended) == 2)
    outcomes = {one.run.key: one.outcome for one in stage.ended}
    assert outcomes[bystander.key] is Outcome.SUCCEEDED
    assert outcomes[ended.run.key] is (Outcome.FAILED if fails == "true" else Outcome.SUCCEEDED)


def test_what_is_registered_for_the_end_is_done(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(fresh())
    assert stage.one("wild.at_exit").outcome is Outcome.SUCCEEDED
    assert stage.texts() == ["before", "at the end"]


def test_an_import_of_many_seconds_costs_no_run_time(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(fresh(handlers=("slow_import.handler",)))
    ended = stage.finish(*(stage.run("slow_import.handler", timeout_s=0.9) for _ in range(2)))
    assert [one.outcome for one in ended] == [Outcome.SUCCEEDED] * 2


def test_a_hundred_runs_leave_nothing(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(fresh(concurrency=4, handlers=("animals.noop",)), idle_s=0.5)
    stage.one("animals.noop")
    stage.until(lambda: not stage.pool._nursery.children and not zygotes(stage))
    before = open_descriptors()
    kinds = ("noop", "vanish", "crash", "leave_thread", "fork_and_return")
    ended = stage.finish(*(stage.run(f"animals.{kinds[n % 5]}", event=b'{"code": 2, "s": 0}') for n in range(100)))
    assert [one.outcome for one in ended[:5]] == [Outcome.SUCCEEDED, *[Outcome.FAILED] * 2, *[Outcome.SUCCEEDED] * 2]
    (zygote,) = zygotes(stage)
    stage.until(lambda: len(Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()) <= 4)
    stage.until(lambda: not stage.pool._nursery.children and not zygotes(stage))
    assert open_descriptors() == before
