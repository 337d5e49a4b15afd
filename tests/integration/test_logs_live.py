"""Kept output of a live fleet: the command that a failure ends in, runs that go on, a broker that restarts meanwhile."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.console import Answer, command, inside, plain
from support.fleet import Fleet
from support.workbench import every, generation

from relayctl.core.account import Closing, Span
from relayctl.core.lifecycle import Verdict
from relayctl.core.occurrence import from_epoch, instant_text
from relayctl.store.closings import Closings, Wish
from relayctl.store.definitions import Definitions, Mode, Proposal

if TYPE_CHECKING:
    import redis
    from support.broker import BrokerFactory, PrivateBroker

Ask = Callable[..., Answer]
SECRET = "s3cr3t-of-the-test"
HANDLERS = """
import os
import sys
import time


def leaky(event):
    print("attempt", os.environ["RELAY_ATTEMPT"], "with", os.environ["TOKEN"])
    print("\\x1b[31mred\\x07", file=sys.stderr)
    raise SystemExit(3)


def quiet(event):
    return None


def slow(event):
    for number in range(1000):
        if os.path.exists(os.environ["STOP"]):
            break
        print("step", number, flush=True)
        time.sleep(0.05)
    print("done without a line end", end="")
"""


@pytest.fixture
def fleet(broker: PrivateBroker, redis_client: redis.Redis, short_dir: Path) -> Iterator[Fleet]:
    made = fleet_on(broker, short_dir)
    yield made
    made.close()


def fleet_on(broker: PrivateBroker, root: Path) -> Fleet:
    made = Fleet(root, broker.target, broker.url)
    folder = made.tree.root / "app"
    folder.mkdir()
    (folder / "jobs.py").write_text(HANDLERS)
    (root / "secrets").mkdir()
    (root / "secrets" / "token").write_text(SECRET)
    return made


def template(
    fleet: Fleet, schedules: str, events: str = "- {handler: jobs.leaky, pattern: {kind: [go]}, retries: 0}"
) -> None:
    head = f"secrets: {{TOKEN: token}}\nenv: {{STOP: {json.dumps(str(fleet.root / 'stop'))}}}"
    lines = ["runtime: python", head, "events:", f"  {events}", "schedules:", f"  {schedules}"]
    (fleet.tree.root / "app" / "template.yaml").write_text("\n".join(lines) + "\n")


def asker(fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> Answer:
        answer = inside(capsys, *arguments, "--redis", fleet.url)
        assert "Traceback" not in answer.err
        assert SECRET not in answer.out + answer.err
        return answer

    return run


@pytest.fixture
def ask(fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    return asker(fleet, capsys, monkeypatch)


def start(fleet: Fleet) -> Any:
    return fleet.start("--secrets-dir", str(fleet.root / "secrets"))


class Watcher:
    """A `relayctl logs --follow` as a process, and what it has printed so far."""

    def __init__(self, fleet: Fleet, *arguments: str) -> None:
        self.process = subprocess.Popen(
            command("logs", *arguments, "--follow", "--redis", fleet.url),
            env=plain(),
            cwd=fleet.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.out)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.err)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, source: Any, lines: list[str]) -> None:
        lines.extend(source)

    def ends(self) -> int:
        code = self.process.wait(20)
        for reader in self._readers:
            reader.join(5)
        return code

    def steps(self) -> list[int]:
        return [int(line.split()[1]) for line in self.out if line.startswith("  step ")]

    def close(self) -> None:
        self.process.kill()
        self.ends()
        for source in (self.process.stdout, self.process.stderr):
            assert source is not None
            source.close()


@pytest.fixture
def watch() -> Iterator[Callable[..., Watcher]]:
    made: list[Watcher] = []

    def follow(fleet: Fleet, *arguments: str) -> Watcher:
        made.append(Watcher(fleet, *arguments))
        return made[-1]

    yield follow
    for watcher in made:
        watcher.close()


def test_the_command_of_a_failure_shows_its_output(fleet: Fleet, ask: Ask) -> None:
    template(fleet, "- {name: bad, handler: jobs.leaky, every: 1s, retries: 1, backoff: [100ms]}")
    worker = start(fleet)
    failed = worker.await_told("run-failed", attempt=2)
    program, *arguments = shlex.split(failed["look"])
    assert (program, arguments[0]) == ("relayctl", "logs")
    answer = ask(*arguments)
    assert answer.code == 0, answer.err
    assert answer.out.count("  attempt 1 with ***\n  red\\x07\n") == 1
    assert answer.out.count("  attempt 2 with ***\n  red\\x07\n") == 1
    assert "failed in attempt 2 of 2" in answer.out
    assert f"app/bad@{failed['scheduled_at']}" in answer.out
    only = ask(*arguments, "--attempt", "2").out
    assert "attempt 2 with" in only and "attempt 1 with" not in only
    [run] = json.loads(ask(*arguments, "--format", "json").out)["runs"]
    assert [(each["attempt"], each["outcome"], each["exit"]) for each in run["attempts"]] == [
        (1, "failed", "3"),
        (2, "failed", "3"),
    ]
    assert ask(*arguments, "--attempt", "7").code == 2
    assert failed["look"] in ask("why", arguments[1]).out
    [letter, *_] = json.loads(ask("dlq", "ls", "--format", "json").out)["letters"]
    shown = ask("dlq", "show", letter["id"]).out
    assert "attempt 2 with ***" in shown and f"relayctl logs app/bad@{letter['scheduled_at']}" in shown


def test_names_that_mean_a_run(fleet: Fleet, ask: Ask) -> None:
    template(fleet, "- {name: calm, handler: jobs.quiet, every: 1h}")
    worker = start(fleet)
    assert "has not run yet" in ask("logs", "app/calm").out
    ask("trigger", "app/calm", "--wait")
    silent = ask("logs", "app/calm").out
    assert "manual run" in silent and "it printed nothing" in silent
    assert "it printed nothing" in ask("logs", "app/jobs.quiet").out, "a handler stands for the schedules that run it"
    message = fleet.emit(kind="go")
    failed = worker.await_told("run-failed", message=message)
    assert failed["look"] == f"relayctl logs app/jobs.leaky@{message}"
    for target in ("app/jobs.leaky", f"app/jobs.leaky@{message}"):
        assert "attempt 1 with ***" in ask("logs", target).out
    unknown = ask("logs", "app/jobs.leeky")
    assert (unknown.code, unknown.out) == (2, "") and 'did you mean "app/jobs.leaky"?' in unknown.err
    assert ask("logs", "app/jobs.leaky@latest").code == 2
    assert ask("logs", f"app/calm@{message}").code == 2
    assert "not expected" in ask("logs", "app/calm@2026-01-01T00:00:01Z").out


def test_a_run_is_followed_to_its_end(fleet: Fleet, ask: Ask, watch: Callable[..., Watcher]) -> None:
    template(fleet, "- {name: long, handler: jobs.slow, every: 1h, timeout: 5m}")
    worker = start(fleet)
    ask("trigger", "app/long")
    worker.await_told("run-started")
    reader, other, impatient = (
        watch(fleet, "app/long"),
        watch(fleet, "app/long", "--format", "jsonl"),
        watch(fleet, "app/long"),
    )
    await_fact(lambda: reader.steps() and other.out and impatient.steps(), "nothing is shown of a run that goes on", 15)
    impatient.process.send_signal(signal.SIGINT)
    assert impatient.ends() == 130
    assert impatient.err == ["interrupted\n"]
    (fleet.root / "stop").touch()
    assert (reader.ends(), other.ends()) == (0, 0), reader.err
    assert reader.steps() == list(range(len(reader.steps()))), "every line once, in order"
    assert "  done without a line end\n" in reader.out
    assert reader.out[-1].startswith("succeeded in attempt 1")
    objects = [json.loads(line) for line in other.out]
    assert [each["type"] for each in objects if each["type"] != "line"] == ["run", "attempt", "attempt_end", "run_end"]
    assert [each["number"] for each in objects if each["type"] == "line"] == list(range(len(reader.steps()) + 1))
    assert "step 0" in ask("logs", "app/long").out


def test_a_follower_outlives_the_broker(
    broker_factory: BrokerFactory, short_dir: Path, watch: Callable[..., Watcher]
) -> None:
    broker = broker_factory()
    fleet = fleet_on(broker, short_dir / "fleet")
    try:
        template(fleet, "- {name: tick, handler: jobs.slow, every: 1s, overlap: skip, timeout: 5m}")
        start(fleet).await_told("run-started")
        reader = watch(fleet, "app/tick")
        await_fact(lambda: len(reader.steps()) > 2, "nothing is shown", 15)
        broker.kill()
        await_fact(lambda: reader.err, "the loss is not told", 15)
        broker.restart()
        seen = len(reader.steps())
        await_fact(lambda: len(reader.steps()) > seen, "nothing more is shown", 20)
        (fleet.root / "stop").touch()
        assert reader.ends() == 0
        # On a slow machine the broker may be away for longer than a lease, and the next attempt begins anew.
        begun = [place for place, number in enumerate(reader.steps()) if number == 0]
        for first, last in pairwise([*begun, len(reader.steps())]):
            assert reader.steps()[first:last] == list(range(last - first)), "every line once, in order"
    finally:
        fleet.close()


def test_a_firing_is_waited_for_until_it_runs_or_is_closed(fleet: Fleet, watch: Callable[..., Watcher]) -> None:
    template(fleet, "- {name: tick, handler: jobs.slow, every: 1s}")
    (fleet.root / "stop").touch()
    made = generation(every(1), 0)
    proposal = Proposal(app="app", schedule="tick", mode=Mode.START, hash=made.hash, spec=made.spec)
    Definitions(fleet.client, fleet.keys).register([proposal])
    at = fleet.now() + 1
    published, closed = (f"app/tick@{instant_text(from_epoch(at + after))}" for after in (0, 1))
    reader, idle = watch(fleet, published), watch(fleet, closed, "--format", "jsonl")
    await_fact(lambda: reader.err and idle.err, "nobody says that it waits", 15)
    assert [reader.out, idle.out] == [[], []]
    closing = Closing(span=Span(first=at + 1, last=at + 1, count=1), verdict=Verdict.MISSED, reason="no worker")
    wish = Wish(app="app", schedule="tick", closing=closing, narrow=lambda *_: None)
    assert Closings(fleet.client, fleet.keys, "w").close([wish], now_ms=fleet.now() * 1000) == [1]
    assert idle.ends() == 0
    objects = [json.loads(line) for line in idle.out]
    assert [(each["type"], each["state"], each["verdict"]) for each in objects] == [
        (kind, "never published", "missed") for kind in ("run", "run_end")
    ]
    start(fleet)
    assert reader.ends() == 0
    assert reader.out[0] == f"{published}\n"
    assert "  done without a line end\n" in reader.out
    assert "succeeded" in reader.out[-1]
    [told] = reader.err
    assert told.startswith(f"{published}: ")
    assert told.endswith("; waiting for it\n")
