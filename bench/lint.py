"""Linting a tree of templates beside check-jsonschema and yamllint, one file alone, and memory by the number of files.

See README.md. Peers are asked for shape and style alone; `relayctl validate` reads handlers and calendars as well.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schemas" / "template.schema.json"
ZONES = ("Europe/Rome", "America/New_York", "Asia/Tokyo", "UTC")


def template(number: int) -> str:
    """A template of 40 lines, unlike its neighbours in names and times, and with nothing wrong."""
    lines = [
        "# yaml-language-server: $schema=../../schemas/template.schema.json",
        "runtime: python",
        "concurrency: 2",
        "env:",
        f"  REGION: region-{number}",
        "  LOG_LEVEL: info",
        "secrets:",
        "  DATABASE_URL: database-url",
        "events:",
        "  - handler: jobs.receive",
        "    pattern:",
        "      event_name: [order_created]",
        "    timeout: 6s",
        "schedules:",
    ]
    for at in range(4):
        lines += [
            f"  - name: job-{at}",
            "    handler: jobs.run",
            f'    cron: "{(number * 7 + at * 13) % 60} {4 + (number + at) % 18} * * *"',
            f"    timezone: {ZONES[at]}",
            "    timeout: 20s",
        ]
    lines += ["services:", "  - name: web", "    command: [./serve]", "    port: 8080", "    replicas: 2"]
    return "\n".join([*lines, ""][:40]) + "\n"


def write_tree(root: Path, count: int) -> None:
    """As many apps, each with its handlers."""
    for number in range(count):
        app = root / "apps" / f"app-{number:05}"
        app.mkdir(parents=True)
        (app / "template.yaml").write_text(template(number))
        (app / "jobs.py").write_text("def run(event):\n    return event\n\n\ndef receive(event):\n    return event\n")


def run(arguments: Sequence[str], cwd: Path) -> tuple[float, float, float]:
    """Seconds from start to end, of a processor, and the most memory of one process in MB; it must succeed."""
    began = time.perf_counter()
    process = subprocess.Popen(arguments, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{arguments[0]} ended with {process.returncode}: {said[-400:].decode()}")
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def contenders(peers: Path | None) -> dict[str, list[str]]:
    """What is run for each, without the files."""
    found = {"relayctl": [str(Path(sys.executable).parent / "relayctl"), "validate"]}
    if peers is not None:
        own = peers.parent
        found["check-jsonschema"] = [str(own / "check-jsonschema"), "--schemafile", str(SCHEMA)]
        found["yamllint"] = [str(own / "yamllint"), "-d", "relaxed"]
    return found


def race(root: Path, files: int, rounds: int, peers: Path | None) -> dict[str, object]:
    """All of them on the same files, in turns."""
    paths = sorted(str(path.relative_to(root)) for path in root.glob("apps/*/template.yaml"))[:files]
    figures: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(rounds):
        for name, arguments in contenders(peers).items():
            given = ["apps"] if name == "relayctl" and files > 1 else paths
            figures.setdefault(name, []).append(run([*arguments, *given], root))
    ours = figures["relayctl"]
    report: dict[str, object] = {}
    for name, each in figures.items():
        wall, cpu, memory = (statistics.median(values) for values in zip(*each, strict=True))
        report[name] = {"s": round(wall, 3), "cpu_s": round(cpu, 3), "mb": round(memory, 1)}
        if name != "relayctl":
            ratios = [theirs[1] / mine[1] for theirs, mine in zip(each, ours, strict=True)]
            report[f"times_{name}"] = round(statistics.median(ratios), 2)
            walls = [theirs[0] / mine[0] for theirs, mine in zip(each, ours, strict=True)]
            report[f"times_{name}_wall"] = round(statistics.median(walls), 2)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=Path, help="an interpreter that has check-jsonschema and yamllint")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tree(root, options.files)
        report: dict[str, object] = {
            "lines_of_a_file": len(template(0).splitlines()),
            "files": options.files,
            "all": race(root, options.files, options.rounds, options.peers),
            "one": race(root, 1, options.rounds, options.peers),
        }
    memory = {}
    for count in (options.files // 4, options.files, options.files * 4):
        with tempfile.TemporaryDirectory() as folder:
            write_tree(Path(folder), count)
            memory[count] = round(run([*contenders(None)["relayctl"], "apps"], Path(folder))[2], 1)
    report["mb_by_files"] = memory
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
