"""A live worker with a secret whose handlers do their worst with it: the value is looked for wherever anything is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.console import Answer, relayctl

if TYPE_CHECKING:
    from support.fleet import Fleet, ServeProcess

OLD, NEW = "hunter2-of-old-times", "correct-horse-new"
HANDLERS = """
import hashlib, json, os, resource, subprocess, sys, time


def note(**more):
    token = os.environ["TOKEN"]
    line = {"digest": hashlib.sha256(token.encode()).hexdigest(), "core": resource.getrlimit(resource.RLIMIT_CORE)}
    with open(os.environ["RUNS"], "a") as file:
        file.write(json.dumps({"at": None, "what": "run", **line, **more}) + "\\n")
    return token


def leaks(event):
    token = note(kind="leaks")
    print("out", token, flush=True)
    print("err", token, file=sys.stderr, flush=True)
    for letter in token:
        os.write(1, letter.encode())
        time.sleep(0.001)
    subprocess.run(["sh", "-c", 'echo "from a child $TOKEN"'], check=True)
    raise RuntimeError(f"cannot log in with {token}")


def leaves(event):
    sys.exit("the token is " + note(kind="leaves"))


def dies(event):
    print("before the end", note(kind="dies"), flush=True)
    os.abort()


def waits(event):
    print("waiting with", note(kind="waits"), flush=True)
    while not os.path.exists(os.environ["RUNS"] + ".go"):
        time.sleep(0.02)
"""
PROGRAM = '#!/bin/sh\necho "program $TOKEN"\necho "$TOKEN" >&2\nexit 7\n'
KINDS = ("leaks", "leaves", "dies")


@pytest.fixture
def serving(fleet: Fleet) -> Iterator[ServeProcess]:
    rules = "".join(f"\n  - {{handler: jobs.{kind}, retries: 0, pattern: {{kind: [{kind}]}}}}" for kind in KINDS)
    head = f"secrets: {{TOKEN: token}}\nenv: {{RUNS: {json.dumps(str(fleet.tree.runs_file))}}}"
    waits = "\n  - {handler: jobs.waits, retries: 0, timeout: 60s, pattern: {kind: [waits]}}"
    schedule = "schedules:\n  - {name: tick, handler: jobs.leaves, every: 1h}"
    folder = fleet.tree.root / "app"
    folder.mkdir()
    (folder / "jobs.py").write_text(HANDLERS)
    (folder / "template.yaml").write_text(f"runtime: python\n{head}\nevents:{rules}{waits}\n{schedule}\n")
    other = fleet.tree.root / "program"
    other.mkdir()
    (other / "go.sh").write_text(PROGRAM)
    (other / "go.sh").chmod(0o755)
    rule = "{handler: go.sh, retries: 0, pattern: {kind: [program]}}"
    (other / "template.yaml").write_text(f"runtime: exec\nsecrets: {{TOKEN: token}}\nevents:\n  - {rule}\n")
    keep(fleet, OLD)
    yield fleet.start(state=fleet.root / "state")


def keep(fleet: Fleet, value: str) -> None:
    kept = relayctl(
        "secret", "set", "token", "--state-dir", str(fleet.root / "state"), cwd=fleet.root, stdin=value.encode()
    )
    assert kept.code == 0, kept.err


def everything_in(client: Any) -> str:
    """Every key of the database with all that it holds, as text."""
    readers: dict[str, Callable[[str], object]] = {
        "string": client.get,
        "hash": client.hgetall,
        "set": client.smembers,
        "list": lambda key: client.lrange(key, 0, -1),
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "stream": client.xrange,
    }
    return "\n".join(f"{key} {readers[client.type(key)](key)!r}" for key in client.scan_iter("*"))


def processes_of(worker: ServeProcess) -> list[Path]:
    """The worker and all below it, as directories of /proc."""
    found, left = [], [worker.pid]
    while left:
        pid = left.pop()
        found.append(Path(f"/proc/{pid}"))
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            left += map(int, task.read_text().split())
    return found


def test_it_is_seen_nowhere(fleet: Fleet, serving: ServeProcess, ask: Callable[..., Answer]) -> None:
    for kind in (*KINDS, "program"):
        fleet.emit(kind=kind)
    await_fact(lambda: len(fleet.dead_letters()) == 4, "four dead letters", 60)
    fleet.emit(kind="waits")
    await_fact(lambda: any(run["kind"] == "waits" for run in fleet.tree.runs()), "a run that waits")
    seen = {"command lines": "\n".join((place / "cmdline").read_text() for place in processes_of(serving))}
    letters = [letter["id"] for letter in json.loads(ask("dlq", "ls", "--format", "json").out)["letters"]]
    for arguments in (
        ("status", "--format", "json"),
        ("plan", "--format", "json"),
        ("inspect", "app", "--format", "json"),
        ("history", "app/tick", "--format", "json"),
        ("why", "app/tick", "--format", "json"),
        ("dlq", "ls", "--format", "json"),
        *(("dlq", "show", letter, "--format", "json") for letter in letters),
        *(("logs", f"app/jobs.{kind}") for kind in KINDS),
        ("logs", "program/go.sh"),
    ):
        answer = ask(*arguments)
        seen[" ".join(arguments)] = answer.out + answer.err
    Path(f"{fleet.tree.runs_file}.go").touch()
    fleet.await_idle()
    serving.stop()
    seen["log"] = json.dumps(serving.facts) + "".join(serving.noise)
    seen["broker"] = everything_in(fleet.client)
    kept = (place for place in (fleet.root / "state").rglob("*") if place.is_file() and place.parent.name != "secrets")
    seen["state directory"] = "".join(place.read_bytes().decode("latin-1") for place in kept)
    assert [place for place, text in seen.items() if OLD in text] == []
    assert "out ***" in seen["logs app/jobs.leaks"] and "from a child ***" in seen["logs app/jobs.leaks"]
    assert "cannot log in with ***" in seen["broker"] and "the token is ***" in seen["log"]
    assert "program ***" in seen["logs program/go.sh"]
    assert len(letters) == 4
    # A core file would hold it, whatever program the kernel hands it to.
    assert all(max(run["core"]) <= 1 for run in fleet.tree.runs())
    assert not list(fleet.root.rglob("core*"))


def test_a_new_value_is_there_for_the_next_run(fleet: Fleet, serving: ServeProcess) -> None:
    fleet.emit(kind="waits")
    await_fact(fleet.tree.runs, "the first run")
    keep(fleet, NEW)
    fleet.emit(kind="leaves")
    await_fact(lambda: len(fleet.tree.runs()) == 2, "the second run")
    Path(f"{fleet.tree.runs_file}.go").touch()
    fleet.await_idle()
    digests = [run["digest"] for run in fleet.tree.runs()]
    assert digests == [hashlib.sha256(value.encode()).hexdigest() for value in (OLD, NEW)]
    serving.stop()
    log = json.dumps(serving.facts) + "".join(serving.noise)
    assert OLD not in log and NEW not in log
