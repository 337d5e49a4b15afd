"""Real workers as processes on one tree and one broker: start, hurt and stop them, and wait for what they tell.

A worker's log lines are kept as facts. Nothing here waits for time to pass: it waits for a fact, with a bound.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.broker import await_fact, is_running
from support.forker import forker

from relayctl.core.occurrence import epoch_seconds, instant_from_text
from relayctl.store.connect import Target, connect
from relayctl.store.keys import Keys
from relayctl.store.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from support.forker import Forked

PROGRAM = Path(__file__).with_name("worker_process.py")

RECORDER = """
import json, os, time


def note(event, **more):
    line = {"at": event.get("scheduled_at"), "id": event.get("id"), "pid": os.getpid(), "worker": os.getppid()}
    line |= {"attempt": int(os.environ["RELAY_ATTEMPT"]), "message": os.environ["RELAY_MESSAGE_ID"]} | more
    with open(os.environ["RUNS"], "a") as file:
        file.write(json.dumps(line) + "\\n")


def run(event):
    note(event, what="run")


def slow(event):
    note(event, what="begin")
    time.sleep(float(os.environ.get("TAKES", "2")))
    note(event, what="end")


def fail(event):
    note(event, what="fail")
    raise SystemExit(3)


def on_event(event):
    note(event, what="event")


def on_slow_event(event):
    slow(event)


def on_bad_event(event):
    fail(event)
"""
"""The handlers of the test apps. Each writes a line to the file that RUNS names: who ran what."""


class Tree:
    """An apps directory with apps whose handlers record their runs in `runs_file`."""

    def __init__(self, root: Path, runs_file: Path) -> None:
        self.root = root
        self.runs_file = runs_file
        root.mkdir(parents=True, exist_ok=True)

    def template(self, schedules: str = "", *, events: str = "", head: str = "", env: str = "") -> str:
        """A template's text; `schedules` and `events` are YAML lists, one item per line."""
        rules = events or "- {handler: jobs.on_event, pattern: {kind: [never]}}"
        lines = [
            "runtime: python",
            head,
            f"env: {{RUNS: {json.dumps(str(self.runs_file))}{', ' + env if env else ''}}}",
        ]
        lines += ["events:", *(f"  {line}" for line in rules.strip().splitlines())]
        if schedules:
            lines += ["schedules:", *(f"  {line}" for line in schedules.strip().splitlines())]
        return "\n".join(line for line in lines if line) + "\n"

    def app(self, name: str, schedules: str = "", **more: str) -> Path:
        """Write an app, or write its template anew; its directory."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        if not (folder / "jobs.py").exists():
            (folder / "jobs.py").write_text(RECORDER)
        replace_file(folder / "template.yaml", self.template(schedules, **more))
        return folder

    def nightly(self, name: str, minute: int = 0) -> Path:
        """Write an app with one schedule that does not fire during a test."""
        return self.app(name, f'- {{name: tick, handler: jobs.run, cron: "{minute} 3 29 2 *"}}')

    def runs(self, what: str | None = None) -> list[dict[str, Any]]:
        """What handlers recorded, in order."""
        if not self.runs_file.exists():
            return []
        lines = [json.loads(line) for line in self.runs_file.read_text().splitlines()]
        return [line for line in lines if what is None or line["what"] == what]

    def run_count(self, what: str | None = "run") -> dict[int, int]:
        """Instant (epoch seconds) to how often its handler ran."""
        counts: dict[int, int] = {}
        for line in self.runs(what):
            if line["at"]:
                at = epoch_seconds(instant_from_text(line["at"]))
                counts[at] = counts.get(at, 0) + 1
        return counts


def replace_file(path: Path, text: str) -> None:
    """Save as editors do: a new file renamed over the old one."""
    fresh = path.with_name(f".{path.name}.new~")
    fresh.write_text(text)
    fresh.replace(path)


class ServeProcess:
    """One `relayctl serve`. `facts` grows while it runs; every line it logs must be one."""

    def __init__(self, arguments: list[str], environ: Mapping[str, str], cwd: Path) -> None:
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | dict(environ)
        self.process: subprocess.Popen[str] | Forked
        if any(name.startswith("TEST_") for name in environ):
            # Changed parts are changed before others import them, so that is a program of its own.
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                cwd=cwd,
                env=environ,
                start_new_session=True,
            )
        else:
            self.process = forker().start(arguments, environ, cwd)
        self.facts: list[dict[str, Any]] = []
        self.noise: list[str] = []
        self._news = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                fact = json.loads(line)
            except ValueError:
                fact = None
            with self._news:
                if isinstance(fact, dict):
                    self.facts.append(fact)
                else:
                    self.noise.append(line)
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def told(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The facts of this kind so far whose fields are these."""
        return [
            fact
            for fact in list(self.facts)
            if fact["event"] == event and all(fact.get(name) == value for name, value in fields.items())
        ]

    def await_told(self, event: str, *, within_s: float = 40.0, count: int = 1, **fields: Any) -> dict[str, Any]:
        """Wait until that has been told `count` times since the start; the last of them."""
        with self._news:
            is_told = self._news.wait_for(
                lambda: len(self.told(event, **fields)) >= count or self._is_over, timeout=within_s
            )
            found = self.told(event, **fields)
        assert is_told and len(found) >= count, f"no {event} {fields} within {within_s} s\n{self.story()}"
        return found[count - 1]

    def await_up(self) -> ServeProcess:
        self.await_told("worker-started")
        return self

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def send_group(self, number: signal.Signals) -> None:
        """What a terminal does with Ctrl-C."""
        os.killpg(self.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._reader.join(10)

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 40.0) -> int:
        """Ask it to stop and wait; its exit code."""
        with suppress(ProcessLookupError):
            self.send(signal.SIGCONT)
        self.send(number)
        return self.await_exit(within_s)

    def await_exit(self, within_s: float = 40.0) -> int:
        code = self.process.wait(within_s)
        self._reader.join(10)
        return code

    def children(self) -> list[int]:
        """Pids of its direct children."""
        with suppress(OSError):
            return [
                int(pid)
                for task in Path(f"/proc/{self.pid}/task").iterdir()
                for pid in (task / "children").read_text().split()
            ]
        return []

    def story(self) -> str:
        """The last of what it said, for a failed assertion."""
        lines = [json.dumps(fact) for fact in self.facts if fact["event"] not in {"published", "duplicate"}]
        return "\n".join([*lines[-40:], *self.noise[-40:]])

    def close(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.send(signal.SIGCONT)
                self.process.kill()
            self.process.wait(10)
        self._reader.join(10)
        if self.process.stderr is not None:
            self.process.stderr.close()


class Fleet:
    """Workers on one broker, and what the broker holds. Every worker has a state directory of its own."""

    def __init__(self, root: Path, target: Target, url: str) -> None:
        self.root = root
        self.url = url
        self.target = target
        self.keys = Keys("relay")
        self.client: Any = connect(target)
        self.workers: list[ServeProcess] = []
        self.tree = Tree(root / "apps", root / "runs.jsonl")

    def start(
        self,
        *flags: str,
        apps: Path | None = None,
        adopt_after_s: float | None = None,
        grace_s: float | None = None,
        is_watch_silent: bool = False,
        state: Path | None = None,
        wait: bool = True,
        redis: str | None = None,
    ) -> ServeProcess:
        """Start a worker on `apps` (the fleet's tree by default); with `wait`, return when it is up."""
        state = state or self.root / f"state-{len(self.workers)}"
        source = [] if {"--git", "--follow"} & set(flags) else ["--apps", str(apps or self.tree.root)]
        arguments = ["serve", "-v", *source, "--log-format", "json"]
        arguments += ["--state-dir", str(state), *flags]
        if redis is None:
            redis = self.url
        if redis:
            arguments += ["--redis", redis]
        environ = {} if adopt_after_s is None else {"TEST_ADOPT_AFTER_S": str(adopt_after_s)}
        if grace_s is not None:
            environ["TEST_GRACE_S"] = str(grace_s)
        if is_watch_silent:
            environ["TEST_SILENT_WATCH"] = "1"
        worker = ServeProcess(arguments, environ, self.root)
        self.workers.append(worker)
        return worker.await_up() if wait else worker

    # --- what the broker holds ---

    def published(self, app: str = "app", schedule: str = "tick") -> dict[int, str]:
        """Instant to entry id."""
        record = self.client.hgetall(self.keys.published(app, schedule))
        return {int(at): text.split("|")[2] for at, text in record.items() if text.startswith("p|")}

    def registry(self, app: str = "app", schedule: str = "tick") -> dict[str, str]:
        record: dict[str, str] = self.client.hgetall(self.keys.schedule(app, schedule))
        return record

    def generation(self, app: str = "app", schedule: str = "tick") -> int:
        return int(self.client.hget(self.keys.schedule(app, schedule), "gen") or 0)

    def entries_added(self) -> int:
        facts = self.client.xinfo_stream(self.keys.events)
        return int(facts["entries-added"])

    def backlog(self) -> int:
        return int(self.client.xlen(self.keys.events))

    def dead_letters(self) -> list[dict[str, str]]:
        return [fields for _, fields in self.client.xrange(self.keys.dead_letters)]

    def emit(self, **event: Any) -> str:
        return Stream(self.client, self.keys).emit(json.dumps(event))

    def now(self) -> int:
        """The broker's time in whole seconds."""
        return int(self.client.time()[0])

    # --- waiting ---

    def await_instant(self, at: int, *, app: str = "app", schedule: str = "tick", within_s: float = 40.0) -> None:
        """Wait until the highest published instant is `at` or later."""
        key = self.keys.schedule(app, schedule)
        await_fact(
            lambda: int(self.client.hget(key, "hw") or 0) >= at, f"{app}/{schedule} does not come to {at}", within_s
        )

    def await_idle(self, within_s: float = 40.0) -> None:
        """Wait until the stream is empty: everything that was published has ended."""
        await_fact(lambda: self.backlog() == 0, "unfinished work stays behind", within_s)

    def pass_time(self, seconds: float, app: str = "app", schedule: str = "tick") -> int:
        """Wait until that many more seconds of a schedule with `every: 1s` are published; the last instant."""
        at = self.now() + int(seconds)
        self.await_instant(at, app=app, schedule=schedule, within_s=seconds + 40)
        return at

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.client.close()


def each_second_once(fleet: Fleet, first: int, last: int, app: str = "app", schedule: str = "tick") -> None:
    """Fail unless every second from `first` to `last` was published once and its handler ran once."""
    published = fleet.published(app, schedule)
    assert [at for at in range(first, last + 1) if at not in published] == [], "instants are missing"
    counts = fleet.tree.run_count()
    odd = {at: counts.get(at, 0) for at in range(first, last + 1) if counts.get(at, 0) != 1}
    assert odd == {}, "handlers did not run exactly once"


def await_true(is_true: Callable[[], object], otherwise: str, within_s: float = 30.0) -> float:
    """`await_fact` under a name of its own for tests that import only this module."""
    return await_fact(is_true, otherwise, within_s)


__all__ = ["Fleet", "ServeProcess", "Tree", "await_true", "each_second_once", "is_running", "replace_file"]
