"""What `relayctl plan` takes, whole process, for many schedules against a fleet that runs them. See README.md."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from relayctl.broker.supervise import EmbeddedBroker
from relayctl.core.description import describe_app
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir
from relayctl.store.connect import connect
from relayctl.store.definitions import Definitions, Mode, Proposal
from relayctl.store.fleet import Fleet, WorkerRecord
from relayctl.store.keys import Keys
from relayctl.templates.load import load_tree

LIMIT_S = 3.0
"""What is promised for 10,000 schedules in 10 apps on two cores."""
ZONES = ("UTC", "Europe/Rome", "America/New_York", "Asia/Tokyo", "Australia/Sydney")
_BATCH = 500


def write_tree(root: Path, apps: int, schedules: int) -> None:
    """Apps whose schedules are written as people write them: daily, hourly, on weekdays, monthly, by interval."""
    for number in range(apps):
        folder = root / f"app-{number:03}"
        (folder / "jobs").mkdir(parents=True)
        (folder / "jobs" / "__init__.py").touch()
        (folder / "jobs" / "work.py").write_text("def run(event):\n    return None\n")
        rows = [_row(at) for at in range(number, schedules, apps)]
        text = "runtime: python\nevents:\n  - {handler: jobs.work.run, pattern: {kind: [never]}}\nschedules:\n"
        (folder / "template.yaml").write_text(text + "".join(rows))


def _row(at: int) -> str:
    minute, hour, zone = at % 60, (at // 60) % 24, ZONES[at % len(ZONES)]
    when = (
        f'cron: "{minute} {hour} * * *"',
        f'cron: "{minute} * * * *"',
        f'cron: "{minute} {hour} * * 1-5"',
        f'cron: "{minute} {hour} {at % 28 + 1} * *"',
        f"every: {at % 50 + 10}m",
    )[at % 5]
    place = "" if when.startswith("every") else f"    timezone: {zone}\n"
    return f"  - name: job-{at:05}\n    handler: jobs.work.run\n    {when}\n{place}    timeout: {at % 90 + 5}s\n"


def run_everything(client: Any, root: Path, workers: int) -> None:
    """Put into the broker what a fleet of workers that runs the whole tree has put there."""
    keys = Keys("bench")
    tree = load_tree(root)
    described = {app.name: describe_app(app.app, app.digest) for app in tree.apps if app.app is not None}
    proposals = [
        Proposal(app=app, schedule=name, hash=fields["hash"], spec=fields["spec"], mode=Mode.START)
        for app, each in described.items()
        for name, fields in each.schedules.items()
    ]
    definitions, fleet = Definitions(client, keys), Fleet(client, keys)
    for at in range(0, len(proposals), _BATCH):
        definitions.register(proposals[at : at + _BATCH])
    fleet.begin_epoch()
    fleet.enter_mode("pull")
    for number in range(workers):
        fleet.report(f"w{number}", {app: each.to_json() for app, each in described.items()}, [])


def beat(client: Any, workers: int) -> None:
    """Keep them alive."""
    fleet = Fleet(client, Keys("bench"))
    for number in range(workers):
        fleet.beat(
            WorkerRecord(
                id=f"w{number}",
                host="bench",
                pid=os.getpid(),
                version="0",
                started_at="2026-01-01T00:00:00Z",
                is_publishing=True,
                holdings_seq=0,
                evaluator="1",
                tzdata="0",
            )
        )


def timed(command: list[str]) -> tuple[float, float, dict[str, Any]]:
    """The seconds of one run, those of its processors, and what it said."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, Any] = json.loads(done.stdout)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, found


def main() -> None:
    """Make a tree, a fleet that runs it, and time plans: nothing changed, a tenth edited, nothing running."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--apps", type=int, default=10)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rl-plan-") as home:
        root = Path(home) / "apps"
        write_tree(root, options.apps, options.schedules)
        broker = EmbeddedBroker(StateDir(Path(home) / "state"), SystemClock())
        broker.start_or_attach()
        client = connect(broker.target)
        try:
            run_everything(client, root, options.workers)
            print(json.dumps(measure(client, f"unix://{broker.target.path}", root, options), indent=2))
        finally:
            client.close()
            broker.stop()


def measure(client: Any, url: str, root: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All figures; asserts that each plan is what the edit makes it."""
    program = str(Path(sys.executable).with_name("relayctl"))
    plan = [program, "plan", "--apps", str(root), "--namespace", "bench", "--format", "json"]
    figures: dict[str, Any] = {"schedules": options.schedules, "apps": options.apps, "limit_s": LIMIT_S}
    pings = []
    for _ in range(200):
        began = time.perf_counter()
        client.ping()
        pings.append(time.perf_counter() - began)
    figures["ping_ms"] = round(statistics.median(pings) * 1000, 3)

    def take(name: str, command: list[str], changes: int) -> None:
        taken = []
        for _ in range(options.rounds):
            beat(client, options.workers)
            seconds, cpu, found = timed(command)
            assert len(found["changes"]) == changes, (name, len(found["changes"]))
            taken.append((seconds, cpu))
        figures[f"{name}_s"] = round(statistics.median(seconds for seconds, _ in taken), 2)
        figures[f"{name}_cpu_s"] = round(statistics.median(cpu for _, cpu in taken), 2)

    # What the same tree takes to be looked at for findings, which a plan leaves out.
    validate = [program, "validate", "--apps", str(root), "--format", "json"]
    began = time.perf_counter()
    subprocess.run(validate, capture_output=True, check=False)
    figures["validate_s"] = round(time.perf_counter() - began, 2)
    take("nothing_changed", [*plan, "--redis", url], 0)
    take("nothing_runs", plan, options.schedules + options.apps)
    edited = min(root.iterdir()) / "template.yaml"
    edited.write_text(edited.read_text().replace("timezone: UTC", "timezone: Europe/Madrid"))
    moved = edited.read_text().count("Europe/Madrid")
    take("one_app_edited", [*plan, "--redis", url], moved)
    return figures


if __name__ == "__main__":
    main()
