"""From a save to what runs: how long an edit takes to go live in a real worker. Run it by hand; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from relayctl.broker.choose import resolve_broker
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir
from relayctl.store.connect import connect
from relayctl.store.keys import Keys

HANDLER = "def run(event):\n    pass\n"
WITHIN_S = 30.0


def template(schedules: int, minute: int) -> str:
    """One app's template; every schedule fires on a leap day, `minute` is that of the last one."""
    lines = ["runtime: python", "events: [{handler: jobs.run, pattern: {kind: [never]}}]", "schedules:"]
    lines += [
        f'  - {{name: job-{number}, handler: jobs.run, cron: "{minute if number == schedules - 1 else 0} 3 29 2 *"}}'
        for number in range(schedules)
    ]
    return "\n".join(lines) + "\n"


class Worker:
    """One `relayctl serve`, and when each line of its log was read."""

    def __init__(self, apps: Path, state: Path) -> None:
        program = "from relayctl.cli.app import main; main()"
        command = [sys.executable, "-c", program, "serve", "--apps", str(apps), "--state-dir", str(state)]
        self.process = subprocess.Popen(
            [*command, "--log-format", "json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[tuple[float, dict[str, Any]]] = []
        self.news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for text in self.process.stderr:
            at = time.perf_counter()
            with self.news:
                self.lines.append((at, json.loads(text) if text.startswith("{") else {"event": "", "text": text}))
                self.news.notify_all()

    def count(self, event: str) -> int:
        return sum(1 for _, line in self.lines if line["event"] == event)

    def wait(self, event: str, count: int = 1, within_s: float = WITHIN_S) -> float:
        """When that was read for the `count`th time."""
        with self.news:
            assert self.news.wait_for(lambda: self.count(event) >= count, within_s), self.lines[-5:]
        return [at for at, line in self.lines if line["event"] == event][count - 1]


def replace(file: Path, text: str) -> None:
    fresh = file.with_name(f"{file.name}~")
    fresh.write_text(text)
    fresh.replace(file)


def registered(client: Any, key: str, generation: int) -> float:
    """When the registry has that generation."""
    until = time.perf_counter() + WITHIN_S
    while int(client.hget(key, "gen") or 0) < generation:
        assert time.perf_counter() < until, "it is not registered"
    return time.perf_counter()


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def summary(values: list[float]) -> dict[str, float]:
    return {
        "p50_ms": round(statistics.median(values), 1),
        "p99_ms": round(percentile(values, 0.99), 1),
        "max_ms": round(max(values), 1),
    }


def measure(base: Path, apps: int, schedules: int, saves: int, pause_s: float) -> dict[str, Any]:
    root, state = base / "apps", base / "state"
    for number in range(apps):
        folder = root / f"app-{number}"
        folder.mkdir(parents=True)
        (folder / "jobs.py").write_text(HANDLER)
        (folder / "template.yaml").write_text(template(schedules, 0))
    begun = time.perf_counter()
    worker = Worker(root, state)
    try:
        return observe(worker, root, state, begun, apps, schedules, saves, pause_s)
    finally:
        worker.process.terminate()
        worker.process.wait(60)


def observe(
    worker: Worker, root: Path, state: Path, begun: float, apps: int, schedules: int, saves: int, pause_s: float
) -> dict[str, Any]:
    start_s = worker.wait("worker-started", within_s=120) - begun
    choice = resolve_broker(explicit_url=None, state=StateDir(state), may_start=False, clock=SystemClock())
    client, keys = connect(choice.target), Keys()
    last = f"job-{schedules - 1}"
    generations = dict.fromkeys(range(apps), 1)
    loaded = worker.count("app-loaded")
    live, held = [], []
    # After the first look that the watch itself brings about.
    threading.Event().wait(2.0)
    for _ in range(saves):
        number = random.randrange(apps)
        generations[number] += 1
        text = template(schedules, generations[number] % 60)
        key = keys.schedule(f"app-{number}", last)
        at = time.perf_counter()
        replace(root / f"app-{number}" / "template.yaml", text)
        held.append((registered(client, key, generations[number]) - at) * 1000)
        loaded += 1
        live.append((worker.wait("app-loaded", loaded) - at) * 1000)
        threading.Event().wait(random.uniform(0, 2 * pause_s))
    heads = {number: int(client.hget(keys.schedule(f"app-{number}", last), "gen")) for number in range(apps)}
    assert heads == generations, "an edit was lost, or was taken twice"
    assert worker.count("app-broken") + worker.count("loop-failed") == 0
    client.close()
    choice.close()
    return {
        "schedules": apps * schedules,
        "saves": saves,
        "start_s": round(start_s, 2),
        "live": summary(live),
        "registered": summary(held),
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", type=int, default=50)
    parser.add_argument("--schedules", type=int, default=20, help="of each app")
    parser.add_argument("--saves", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between saves, on average")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relayctl-swap-") as base:
        print(json.dumps(measure(Path(base), given.apps, given.schedules, given.saves, given.pause), indent=2))


if __name__ == "__main__":
    main()
