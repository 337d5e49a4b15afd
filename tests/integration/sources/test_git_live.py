"""A worker that follows a repository: pushes told by a webhook, held commits and removals, a start without the place."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.console import Answer, inside
from support.fleet import Fleet, await_true
from support.gitorigin import BROKEN, Origin

if TYPE_CHECKING:
    from support.fleet import ServeProcess

SECRET = "s3cret-of-the-hook"
Ask = Callable[..., Answer]


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    made = Origin(tmp_path)
    for number in range(8):
        made.app(f"a{number}", minute=1)
    made.push()
    return made


@pytest.fixture
def state(short_dir: Path) -> Path:
    return short_dir / "state"


@pytest.fixture
def ask(fleet: Fleet, state: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*arguments: str, redis: bool = False) -> Answer:
        more = ["--redis", fleet.url] if redis else []
        return inside(capsys, *arguments, "--state-dir", str(state), *more)

    return run


def report(ask: Ask) -> dict[str, Any]:
    [found] = json.loads(ask("health", "--format", "json").out)["workers"]
    return dict(found)


def push_told(ask: Ask, token: str = SECRET) -> int:
    url = f"http://{report(ask)['http']}/hooks/git"
    request = urllib.request.Request(url, data=b'{"ref": "refs/heads/main"}', headers={"X-Gitlab-Token": token})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_what_is_pushed_goes_live_as_a_whole_or_not_at_all(
    fleet: Fleet, origin: Origin, state: Path, ask: Ask, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    flags = ("--git", origin.url, "--git-interval", "off")
    hook = ("--http", "127.0.0.1:0", "--webhook-secret-file", str(secret))
    worker: ServeProcess = fleet.start(*flags, *hook, state=state)
    assert fleet.generation("a1") == 1
    assert fleet.client.get(fleet.keys.mode) == "pull"
    # An edit, announced by the host of the repository.
    origin.app("a1", minute=2)
    second = origin.push()
    assert push_told(ask, "wrong") == 401
    assert push_told(ask) == 202
    worker.await_told("app-loaded", app="a1", changed=1)
    await_true(lambda: fleet.generation("a1") == 2, "the edit is not registered")
    assert (fleet.generation("a0"), len(worker.told("hook-refused"))) == (1, 1)
    assert len(worker.told("app-loaded")) == 9, "only what was edited is touched"
    # One broken app holds the commit, whatever else is in it.
    origin.app("a2", BROKEN)
    origin.app("a3", minute=3)
    bad = origin.push()
    assert ask("reconcile").code == 0
    held = worker.await_told("revision-held")
    assert (held["revision"], held["in_force"]) == (bad[:12], second[:12])
    assert fleet.generation("a3") == 1
    await_true(
        lambda: any(bad[:12] in note for note in _worker(ask)["notes"]), "the fleet's status does not name the commit"
    )
    assert (_worker(ask)["revision"], _worker(ask)["source"]) == (second[:12], f"git {origin.url} main:apps")
    # Too many removals wait for consent, and the rest of that commit does not.
    origin.git("rm", "-q", "-r", *(f"apps/a{number}" for number in range(2, 8)))
    third = origin.push()
    assert push_told(ask) == 202
    removal = worker.await_told("removal-held")
    assert (removal["revision"], removal["removed"]) == (third, 6)
    assert fleet.registry("a5")["hash"] != "tombstone"
    assert ask("reconcile", "--accept-removals", third[:10]).code == 0
    worker.await_told("app-removed", count=6)
    assert worker.told("loop-failed") == []
    assert worker.stop() == 0


def _worker(ask: Ask) -> dict[str, Any]:
    [found] = json.loads(ask("status", "--format", "json", redis=True).out)["workers"]
    return dict(found)


@pytest.mark.slow
def test_without_the_place_it_runs_what_it_took_last_and_catches_up_later(
    fleet: Fleet, origin: Origin, state: Path, ask: Ask
) -> None:
    flags = ("--git", origin.url, "--git-interval", "1s")
    assert fleet.start(*flags, state=state).stop() == 0
    away = origin.bare.with_name("away")
    origin.bare.rename(away)
    worker = fleet.start(*flags, state=state)
    assert worker.told("worker-started")[0]["apps"] == 8
    lost = worker.await_told("source-lost")
    assert "no repository there" in lost["reason"]
    assert "cannot be read" in next(check["reason"] for check in report(ask)["checks"] if check["name"] == "source")
    away.rename(origin.bare)
    origin.app("a1", minute=2)
    origin.push()
    assert ask("reconcile").code == 0
    worker.await_told("source-back")
    worker.await_told("app-loaded", app="a1", changed=1)
    assert worker.told("app-removed") == []
    assert worker.stop() == 0


def test_a_run_that_ends_by_itself_needs_the_place_or_what_was_taken_before(
    fleet: Fleet, origin: Origin, state: Path
) -> None:
    left = state / "git" / "0123456789abcdef"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    missing = fleet.start("--git", f"{origin.url}-not", "--once", state=state, wait=False)
    assert missing.await_exit() == 3
    assert "no repository there" in "".join(missing.noise)
    assert not left.exists(), "what nobody has followed for long is kept"


@pytest.mark.slow
def test_workers_on_one_state_directory_share_what_one_of_them_is_asked_to_fetch(
    fleet: Fleet, origin: Origin, state: Path
) -> None:
    flags = ("--git", origin.url, "--git-interval", "off")
    workers = [fleet.start(*flags, state=state) for _ in range(2)]
    stamp = next((state / "git").glob("*/last-fetch.json"))

    def fetched() -> int:
        return int(json.loads(stamp.read_text())["count"])

    # Each asks once when it starts.
    await_true(lambda: fetched() == 2, "the second one has not asked")
    origin.app("a1", minute=2)
    first = origin.push()[:12]
    workers[0].send(signal.SIGHUP)
    for worker in workers:
        worker.await_told("revision-taken", revision=first)
    assert fetched() == 3, "the other one asked as well"
    workers[0].kill()
    origin.app("a1", minute=3)
    second = origin.push()[:12]
    workers[1].send(signal.SIGHUP)
    workers[1].await_told("revision-taken", revision=second)
    assert workers[1].stop() == 0
