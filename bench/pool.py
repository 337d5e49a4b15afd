"""No-op invocations through the whole path, from the stream to their recorded ends, beside peers. See README.md."""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relayctl.broker.supervise import EmbeddedBroker
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir
from relayctl.store.connect import connect
from relayctl.store.keys import Keys

TICKS = os.sysconf("SC_CLK_TCK")
PEERS = Path(__file__).parent / "peers"
TEMPLATE = """\
runtime: python
concurrency: {children}
isolation: {isolation}
events:
  - {{handler: jobs.noop, pattern: {{event_name: [{isolation}-noop]}}}}
  - {{handler: jobs.stamp, pattern: {{event_name: [{isolation}-stamp]}}}}
"""
JOBS = """\
import time

def noop():
    pass

def stamp(event):
    late = time.time() - event["at"]
    with open(event["file"], "a") as out:
        out.write(f"{late}\\n")
"""


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return [pid, *(below for child in children for below in tree(child))]


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, ended children that it has waited for included."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def pss_mb(pid: int) -> float:
    """What a process takes of memory, its share of shared pages counted."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Pss:"))


def wait_until(is_true: Any, within_s: float, otherwise: str) -> None:
    until = time.monotonic() + within_s
    while not is_true():
        if time.monotonic() > until:
            raise SystemExit(f"after {within_s:.0f} s: {otherwise}")
        time.sleep(0.005)


class Contender(ABC):
    """Started processes that work off what is filled in. `fill`, `left` and `pace` are the subclasses'."""

    name: str

    def __init__(self, commands: list[list[str]], folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.log = (folder / f"{self.name}.log").open("ab")
        self.programs = [
            subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environ, cwd=folder) for command in commands
        ]

    @abstractmethod
    def fill(self, count: int) -> None: ...

    @abstractmethod
    def left(self) -> int: ...

    @abstractmethod
    def pace(self, count: int, rate: float, file: Path) -> None: ...

    def check(self, count: int) -> None:
        """Raise unless each of the last `count` ran exactly once. A peer keeps no record that could say so."""
        return

    def cpu(self) -> dict[str, float]:
        own = {program.pid for program in self.programs}
        spent: dict[str, float] = defaultdict(float)
        for top in own:
            for pid in tree(top):
                spent["worker" if pid in own else "children"] += cpu_s(pid)
        return spent

    def signal(self, number: int) -> None:
        for program in self.programs:
            for pid in tree(program.pid):
                os.kill(pid, number)

    def stop(self) -> None:
        for program in self.programs:
            program.terminate()
        for program in self.programs:
            program.wait(30)


class Relay(Contender):
    """Workers of this checkout, with one app of the isolation."""

    def __init__(self, folder: Path, url: str, client: Any, *, isolation: str, workers: int, children: int) -> None:
        self.name = f"relayctl {isolation}"
        self.isolation, self.client, self.keys = isolation, client, Keys(isolation)
        app = folder / isolation / "apps" / "bench"
        app.mkdir(parents=True)
        (app / "template.yaml").write_text(TEMPLATE.format(isolation=isolation, children=children))
        (app / "jobs.py").write_text(JOBS)
        common = ["serve", "--redis", url, "--namespace", isolation, "--apps", str(app.parent)]
        program, state = str(Path(sys.executable).parent / "relayctl"), folder / isolation / "state"
        commands = [[program, *common, "--state-dir", f"{state}{number}"] for number in range(workers)]
        super().__init__(commands, folder, dict(os.environ))
        idle = workers * (children if isolation == "warm" else 1)
        wait_until(lambda: client.exists(self.keys.events), 60, f"{self.name} has made no stream")
        for _ in range(50):
            # One worker may work all of it off before the other one has a child.
            self.fill(200)
            wait_until(lambda: self.left() == 0, 60, f"{self.name} has not finished")
            self.check(200)
            if len(self.idle_children()) >= idle:
                return
        raise SystemExit(f"{self.name} is not ready")

    def fill(self, count: int) -> None:
        event = json.dumps({"event_name": f"{self.isolation}-noop"})
        with self.client.pipeline(transaction=False) as pipeline:
            for _ in range(count):
                pipeline.xadd(self.keys.events, {"event": event})
            pipeline.execute()

    def left(self) -> int:
        return int(self.client.xlen(self.keys.events))

    def pace(self, count: int, rate: float, file: Path) -> None:
        start = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, start + number / rate - time.monotonic()))
            event = {"event_name": f"{self.isolation}-stamp", "at": time.time(), "file": str(file)}
            self.client.xadd(self.keys.events, {"event": json.dumps(event)})
        wait_until(lambda: self.left() == 0, 60, f"{self.name} has not finished")
        self.check(count)

    def check(self, count: int) -> None:
        invocations = list(self.client.scan_iter(self.keys.invocations("*"), count=1000))
        states = [self.client.hgetall(key) for key in invocations]
        ends = [value for state in states for name, value in state.items() if name.startswith("s:")]
        assert len(ends) == count, (len(ends), count)
        assert all(end.startswith("succeeded|1|") for end in ends), ends
        assert not self.client.exists(self.keys.leases, self.keys.dead_letters)
        self.client.unlink(*invocations)

    def idle_children(self) -> list[int]:
        below = [pid for program in self.programs for pid in tree(program.pid)[1:]]
        return [pid for pid in below if b"python_child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


class Peer(Contender):
    """dramatiq or rq, of the interpreter `python`."""

    def __init__(self, kind: str, folder: Path, url: str, client: Any, python: str, workers: int) -> None:
        self.name, self.client, self.python = kind, client, python
        self.environ = {**os.environ, "BENCH_URL": url, "PYTHONPATH": str(PEERS)}
        programs = str(Path(python).parent)
        commands = {
            "dramatiq": [[f"{programs}/dramatiq", "--processes", str(workers), "noop"]],
            "rq": [[f"{programs}/rq", "worker", "--quiet", "--url", url, "bench"]] * workers,
        }[kind]
        super().__init__(commands, folder, self.environ)
        self.fill(20)
        wait_until(lambda: self.left() == 0, 60, f"{self.name} has not finished")

    def fill(self, count: int) -> None:
        self._produce("fill", count, 0.0, Path())

    def left(self) -> int:
        if self.name == "dramatiq":
            return int(self.client.hlen("dramatiq:default.msgs"))
        return int(self.client.llen("rq:queue:bench")) + int(self.client.zcard("rq:wip:bench"))

    def pace(self, count: int, rate: float, file: Path) -> None:
        self._produce("pace", count, rate, file)
        wait_until(lambda: self.left() == 0, 60, f"{self.name} has not finished")

    def _produce(self, verb: str, count: int, rate: float, file: Path) -> None:
        command = [self.python, str(PEERS / "noop.py"), verb, self.name, str(count), str(rate), str(file)]
        subprocess.run(command, env=self.environ, check=True)


def throughput(contender: Contender, count: int, broker_pid: int) -> dict[str, float]:
    """All of `count` are there before anybody may look at them; from then until the last end is recorded."""
    contender.signal(signal.SIGSTOP)
    contender.fill(count)
    before = {**contender.cpu(), "broker": cpu_s(broker_pid)}
    began = time.perf_counter()
    contender.signal(signal.SIGCONT)
    wait_until(lambda: contender.left() == 0, 120, f"{contender.name} has not finished")
    took = time.perf_counter() - began
    after = {**contender.cpu(), "broker": cpu_s(broker_pid)}
    contender.check(count)
    spent = {f"{part}_us": (after[part] - before.get(part, 0.0)) / count * 1e6 for part in after}
    return {"per_s": count / took, **spent}


def latency(contender: Contender, rate: float, seconds: float) -> dict[str, float]:
    """From the moment before an event is sent to the first line of its handler, in milliseconds."""
    file, count = contender.folder / f"{contender.name}-{rate:.0f}.txt", round(rate * seconds)
    file.unlink(missing_ok=True)
    contender.pace(count, rate, file)
    late = sorted(float(line) * 1000 for line in file.read_text().split())
    assert len(late) == count, (contender.name, len(late), count)
    return {"p50_ms": late[count // 2], "p99_ms": late[int(count * 0.99)]}


@contextmanager
def contenders(asked: argparse.Namespace, folder: Path, url: str, client: Any) -> Iterator[dict[str, Contender]]:
    made: dict[str, Contender] = {}
    try:
        for isolation in ("warm", "fresh"):
            relay = Relay(folder, url, client, isolation=isolation, workers=asked.workers, children=asked.children)
            made[relay.name] = relay
        if asked.peers:
            for kind in ("dramatiq", "rq"):
                made[kind] = Peer(kind, folder, url, client, asked.peers, asked.workers)
        yield made
    finally:
        for contender in made.values():
            contender.stop()


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}


def measure(asked: argparse.Namespace, running: dict[str, Contender], broker_pid: int) -> dict[str, Any]:
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for _ in range(asked.rounds):
        for name, contender in running.items():
            is_slow = name in {"relayctl fresh", "rq"}
            rows[name].append(throughput(contender, asked.fresh if is_slow else asked.warm, broker_pid))
            print(name, {part: round(value) for part, value in rows[name][-1].items()}, file=sys.stderr)
    result: dict[str, Any] = {name: medians(found) for name, found in rows.items()}
    for name, contender in running.items():
        is_slow = name in {"relayctl fresh", "rq"}
        loads = {"low": 10.0 if is_slow else 100.0, "high": 20.0 if is_slow else 1000.0}
        for load, rate in loads.items():
            found = latency(contender, rate, asked.seconds)
            result[name] |= {f"{load}_{part}": round(value, 2) for part, value in found.items()}
        if isinstance(contender, Relay):
            idle = contender.idle_children()
            result[name]["mb_per_idle_child"] = round(statistics.mean(map(pss_mb, idle)), 1)
    for name, yardstick in (("relayctl warm", "dramatiq"), ("relayctl fresh", "rq")):
        if yardstick in rows:
            pairs = zip(rows[name], rows[yardstick], strict=True)
            result[name][f"times_{yardstick}"] = round(statistics.median(a["per_s"] / b["per_s"] for a, b in pairs), 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has dramatiq[redis] and rq")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=4000, help="no-ops of a round in reused processes")
    parser.add_argument("--fresh", type=int, default=200, help="no-ops of a round in a process each")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--children", type=int, default=2, help="of each worker")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each latency is measured")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as name:
        folder = Path(name)
        broker = EmbeddedBroker(StateDir(folder / "broker"), SystemClock())
        endpoint = broker.start_or_attach()
        client = connect(broker.target)
        try:
            with contenders(asked, folder, endpoint.url, client) as running:
                print(json.dumps(measure(asked, running, endpoint.pid), indent=2))
        finally:
            client.close()
            broker.stop()


if __name__ == "__main__":
    main()
