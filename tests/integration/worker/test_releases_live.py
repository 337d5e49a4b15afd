"""Releases over real workers: who takes one, code that does not load, and workers of two revisions beside each other."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact
from support.console import inside
from support.fleet import Fleet, each_second_once, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.console import Answer

EVERY_SECOND = "- {name: tick, handler: jobs.run, every: 1s}"


@pytest.fixture
def apply(fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Publish the fleet's tree, or run another command about releases."""
    monkeypatch.chdir(fleet.root)

    def run(*arguments: str) -> Answer:
        command = arguments if arguments and not arguments[0].startswith("-") else ("apply", "--yes", *arguments)
        return inside(capsys, *command, "--apps", str(fleet.tree.root), "--redis", fleet.url)

    return run


def break_code(folder: Path) -> str:
    code = (folder / "jobs.py").read_text()
    replace_file(folder / "jobs.py", f"import nothing_like_it\n{code}")
    return code


@pytest.mark.slow
def test_code_that_does_not_load_admits_nothing_until_a_rollback(fleet: Fleet, apply: Callable[..., Answer]) -> None:
    worker = fleet.start("--follow")
    folder = fleet.tree.app("app", EVERY_SECOND)
    first = apply()
    assert first.code == 0, first.err
    assert "Workers   1 of 1 on release 1" in first.out
    assert worker.told("release-awaited") and not worker.told("source-lost")
    assert "template.yaml" in (shown := apply("inspect", "app/tick").out) and ", release 1\n" in shown
    begin = fleet.now() + 1
    fleet.await_instant(begin)
    break_code(folder)
    second = apply("--timeout", "2s")
    assert second.code == 8
    assert "ModuleNotFoundError: No module named 'nothing_like_it'; it admits nothing new of app" in second.err
    assert "or back: relayctl rollback 1" in second.err
    refused_at = fleet.now()
    fleet.await_instant(refused_at + 2)
    waiting = fleet.tree.run_count().keys()
    assert refused_at + 1 not in waiting, "it was admitted, though the release's code does not load"
    back = apply("rollback", "1", "--yes")
    assert back.code == 0, back.err
    assert "1 of 1 worker on it" in apply("status").out
    last = fleet.pass_time(1)
    await_fact(lambda: last in fleet.tree.run_count(), "what waited does not run")
    each_second_once(fleet, begin, last)
    assert worker.told("run-failed") == []


@pytest.mark.slow
def test_a_worker_of_another_revision_leaves_all_to_those_that_have_it(
    fleet: Fleet, apply: Callable[..., Answer]
) -> None:
    old = fleet.start("--follow", "--max-bundle-bytes", "65536")
    fleet.tree.app("other", '- {name: nightly, handler: jobs.run, cron: "0 3 29 2 *"}')
    folder = fleet.tree.app("app", EVERY_SECOND)
    assert apply().code == 0
    begin = fleet.now() + 1
    fleet.await_instant(begin)
    new = fleet.start("--follow")
    # Too large for the first worker, which therefore stays where it is.
    (folder / "model.bin").write_bytes(os.urandom(100_000))
    answer = apply("--timeout", "4s")
    assert answer.code == 8
    assert "1 of 2 workers has not taken it" in answer.err
    assert "app app is at" in answer.err
    assert "1 of 2 workers on it" in apply("status").out
    before = len(old.told("published"))
    fleet.pass_time(3)
    assert len(old.told("published")) == before, "it publishes for a release that it has not"
    new.stop()
    stopped_at = max(fleet.published())
    await_fact(lambda: fleet.now() > stopped_at + 3, "time stands still")
    assert max(fleet.published()) == stopped_at, "it publishes for a release that it has not"
    fleet.start("--follow")
    last = fleet.pass_time(1)
    await_fact(lambda: last in fleet.tree.run_count(), "nobody runs what waited", 40)
    fleet.await_idle()
    each_second_once(fleet, begin, last)


def test_a_worker_that_comes_or_goes_meanwhile(fleet: Fleet, apply: Callable[..., Answer]) -> None:
    fleet.tree.nightly("app")
    assert apply().code == 0
    first, second = fleet.start("--follow"), fleet.start("--follow", wait=False)
    fleet.tree.nightly("app", minute=7)
    answer = apply("--format", "json")
    assert answer.code == 0, answer.err
    assert all(each["on_release"] for each in json.loads(answer.out)["workers"])
    second.await_up()
    first.stop()
    fleet.tree.nightly("app", minute=9)
    gone = apply("--format", "json")
    assert gone.code == 0, gone.err
    assert [each["on_release"] for each in json.loads(gone.out)["workers"]] == [True]
