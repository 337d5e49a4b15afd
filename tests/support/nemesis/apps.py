"""The apps that a run serves: handlers that succeed, fail, hang, crash and take their time, and their templates.

Every save is noted with the instants between which it happened: that is all the judge knows of definitions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.fleet import replace_file
from support.nemesis.story import Edit, Line, Name

if TYPE_CHECKING:
    from pathlib import Path

HANDLERS = """
import json, os, signal, time


def note(event, what):
    schedule = os.environ.get("RELAY_SCHEDULE")
    mark = "!" if event.get("source") == "relay.manual" else "@"
    line = {
        "what": what, "at": time.time(), "app": os.environ["RELAY_APP"], "message": os.environ["RELAY_MESSAGE_ID"],
        "slot": mark + schedule if schedule else os.environ["RELAY_HANDLER"],
        "attempt": int(os.environ["RELAY_ATTEMPT"]), "worker": os.getppid(),
    }
    # One write each, so that lines of many processes never mix.
    with open(os.environ["RUNS"], "ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\\n")


def run(event):
    note(event, "begin")
    note(event, "end")


def slow(event):
    note(event, "begin")
    time.sleep(float(os.environ["TAKES"]))
    note(event, "end")


def fail(event):
    note(event, "begin")
    raise SystemExit(3)


def sometimes(event):
    note(event, "begin")
    if os.environ["RELAY_ATTEMPT"] == "1":
        raise RuntimeError("not at the first time")
    note(event, "end")


def hang(event):
    note(event, "begin")
    time.sleep(600)


def crash(event):
    note(event, "begin")
    os.kill(os.getpid(), signal.SIGKILL)


def on_event(event):
    run(event)
"""
RETRIES = {"run": 4, "slow": 4, "sometimes": 5, "fail": 1, "crash": 1, "hang": 0}
"""Retries by handler, a second after each other."""
TIMEOUTS = {"hang": "1s", "slow": "60s"}
FAULTY = frozenset({"fail", "crash", "hang"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A schedule of a run."""

    app: str
    schedule: str
    every: int
    handler: str = "run"
    catch_up: str = "latest"
    overlap: str = "allow"

    @property
    def name(self) -> Name:
        return self.app, self.schedule

    def line(self, every: int) -> str:
        """Its line in the template."""
        timeout = f", timeout: {TIMEOUTS[self.handler]}" if self.handler in TIMEOUTS else ""
        return (
            f"- {{name: {self.schedule}, handler: jobs.{self.handler}, every: {every}s, retries: {RETRIES[self.handler]}, "
            f"backoff: [1s]{timeout}, catch_up: {self.catch_up}, overlap: {self.overlap}}}"
        )


def forty() -> tuple[Wanted, ...]:
    """Forty schedules in four apps, with every kind of handler; those that cost most fire least."""
    policies, overlaps = {1: "none", 4: "oldest", 7: "all"}, {2: "queue", 9: "skip"}
    handlers = ("run", "run", "slow", "fail", "run", "sometimes", "hang", "run", "crash", "slow")
    return tuple(
        Wanted(
            app=f"a{place // 10}",
            schedule=f"s{place % 10}",
            every=4 + place // 10 if handlers[place % 10] in FAULTY else 1 + place % 7,
            handler=handlers[place % 10],
            catch_up=policies.get(place % 10, "latest"),
            overlap=overlaps.get(place % 10, "allow"),
        )
        for place in range(40)
    )


class Apps:
    """An apps directory: what it is to say, what it says, and the history of that."""

    def __init__(self, root: Path, runs_file: Path, wanted: Sequence[Wanted], *, takes_s: float = 1.5) -> None:
        self.root = root
        self.wanted = {item.name: item for item in wanted}
        self.names = sorted({item.app for item in wanted})
        self.runs_file = runs_file
        self.edits: list[Edit] = []
        self.saves: list[float] = []
        self._takes_s = takes_s
        self._meant: dict[Name, int | None] = {item.name: item.every for item in wanted}
        self._said: dict[Name, int | None] = {}
        self._broken: set[str] = set()
        for app in self.names:
            (root / app).mkdir(parents=True)
            (root / app / "jobs.py").write_text(HANDLERS)
            self._save(app)

    def every(self, name: Name) -> int | None:
        """What a schedule is meant to be."""
        return self._meant[name]

    def edit(self, name: Name, every: int | None) -> None:
        """Say something else of a schedule; a template that is broken says it once it is mended."""
        self._meant[name] = every
        self._save(name[0])

    def break_template(self, app: str) -> None:
        """Make a template unreadable: what it said last goes on."""
        self._broken.add(app)
        self._save(app)

    def mend(self, app: str) -> None:
        """Make it readable again."""
        self._broken.discard(app)
        self._save(app)

    def attempts(self) -> dict[tuple[str, str], int]:
        """How often each invocation may be tried, by app and slot."""
        scheduled = {(it.app, f"@{it.schedule}"): RETRIES[it.handler] + 1 for it in self.wanted.values()}
        return scheduled | {(app, "jobs.on_event"): 5 for app in self.names}

    def policies(self) -> dict[Name, str]:
        """What is caught up, by schedule."""
        return {item.name: item.catch_up for item in self.wanted.values()}

    def overlaps(self) -> dict[Name, str]:
        """What becomes of a firing that finds another one running, by schedule."""
        return {item.name: item.overlap for item in self.wanted.values()}

    def faulty(self) -> frozenset[tuple[str, str]]:
        """The slots whose handlers fail by themselves."""
        return frozenset((it.app, f"@{it.schedule}") for it in self.wanted.values() if it.handler in FAULTY)

    def lines(self) -> list[Line]:
        """The handlers' log."""
        if not self.runs_file.exists():
            return []
        return [Line(**json.loads(line)) for line in self.runs_file.read_text().splitlines()]

    def rules_for(self, kind: str) -> tuple[tuple[str, str], ...]:
        """The event rules that match this kind."""
        return tuple((app, "jobs.on_event") for app in self.names if kind in {f"go-{app}", "go-all"})

    def _template(self, app: str, schedules: Iterable[Wanted]) -> str:
        lines = [
            "runtime: python",
            "concurrency: 6",
            f"env: {{RUNS: {json.dumps(str(self.runs_file))}, TAKES: '{self._takes_s}'}}",
            "events:",
            f"  - {{handler: jobs.on_event, pattern: {{kind: [go-{app}, go-all]}}, backoff: [1s]}}",
            "schedules:" if schedules else "",
        ]
        for item in schedules:
            every = self._meant[item.name]
            assert every is not None
            lines.append(f"  {item.line(every)}")
        return "\n".join(lines) + "\n"

    def _save(self, app: str) -> None:
        mine = [item for item in self.wanted.values() if item.app == app]
        text = self._template(app, [item for item in mine if self._meant[item.name] is not None])
        begun = time.time()
        replace_file(self.root / app / "template.yaml", text + "schedules: {" if app in self._broken else text)
        saved = time.time()
        self.saves.append(saved)
        if app in self._broken:
            return
        for item in mine:
            every = self._meant[item.name]
            if self._said.get(item.name, 0) != every:
                self._said[item.name] = every
                self.edits.append(Edit(name=item.name, every=every, begun=begun, saved=saved))
