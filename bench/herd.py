"""Ten thousand schedules due at once, and what they cost when nothing is due. Run it by hand; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from relayctl.broker.supervise import EmbeddedBroker
from relayctl.core.cron import EVALUATOR_VERSION, Cron
from relayctl.core.model import CatchUp, Contract, Schedule
from relayctl.core.names import ScheduleName
from relayctl.host.clock import SystemClock
from relayctl.host.outbox import Outbox
from relayctl.host.state import StateDir
from relayctl.store.closings import Closings
from relayctl.store.connect import connect
from relayctl.store.definitions import Definitions, Mode
from relayctl.store.fleet import Fleet, WorkerRecord
from relayctl.store.keys import Keys
from relayctl.store.stream import Stream
from relayctl.worker.fleettime import FleetTime
from relayctl.worker.peers import Peers
from relayctl.worker.recovery import Recovery
from relayctl.worker.registrar import Registrar
from relayctl.worker.scheduler import Scheduler, Surroundings


class Rig:
    """The tick loop and the registrar of one worker, with nothing around them."""

    def __init__(self, client: Any, token: str) -> None:
        self.clock = SystemClock()
        self.keys = Keys("bench")
        self.published: list[tuple[str, float]] = []
        fleet, stream = Fleet(client, self.keys), Stream(client, self.keys)
        peers = Peers(fleet, token)
        self.scheduler = Scheduler(
            stream=stream,
            closings=Closings(client, self.keys, token),
            fleet=fleet,
            peers=peers,
            time=FleetTime(self.clock),
            clock=self.clock,
            token=token,
            surroundings=Surroundings(
                record=lambda is_publishing: WorkerRecord(
                    id=token,
                    host="bench",
                    pid=os.getpid(),
                    version="0",
                    started_at="",
                    is_publishing=is_publishing,
                    holdings_seq=1,
                    evaluator=EVALUATOR_VERSION,
                    tzdata="",
                ),
                on_pulse=lambda _pulse: None,
                on_superseded=lambda _names: None,
            ),
            recovery=self._recovery(token),
            emit=self._hear,
        )
        self.registrar = Registrar(
            definitions=Definitions(client, self.keys),
            scheduler=self.scheduler,
            peers=peers,
            clock=self.clock,
            worker=token,
            emit=self._hear,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.scheduler.run, args=(self._stop,))

    def _recovery(self, token: str) -> Recovery:
        # Nothing fails here, so no file is ever made of it.
        outbox = Outbox(Path(tempfile.gettempdir()) / f"{token}.db", self.clock, lambda *_: None)
        return Recovery(outbox=outbox, token=token, clock=self.clock, emit=self._hear)

    def _hear(self, fact: Any) -> None:
        if fact.event == "published":
            self.published.append((fact.schedule, time.time()))
        elif fact.event not in {"published-late", "duplicate"}:
            print(fact, file=sys.stderr)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.scheduler.wake()
        self._thread.join()


def schedule(name: str, cron: str) -> Schedule:
    trigger = Cron.parse(cron, "UTC")
    return Schedule(
        name=ScheduleName(name), trigger=trigger, contract=Contract(handler="jobs.run"), catch_up=CatchUp.LATEST
    )


def wait_until(is_true: Any, within_s: float) -> None:
    until = time.monotonic() + within_s
    while not is_true():
        if time.monotonic() > until:
            raise SystemExit("that took too long")
        time.sleep(0.01)


def next_minute(margin_s: float = 8.0) -> float:
    """The first whole minute at least `margin_s` away."""
    return ((time.time() + margin_s) // 60 + 1) * 60


def memory_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ping_ms(client: Any) -> float:
    """The median of a bare round trip: how fast this machine is today."""
    times = []
    for _ in range(200):
        began = time.perf_counter()
        client.ping()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def cpu_s(client: Any) -> tuple[float, float]:
    """What this process and the broker have used of the processor so far."""
    broker = client.info("cpu")
    return time.process_time(), broker["used_cpu_user"] + broker["used_cpu_sys"]


def cpu_us(client: Any, before: tuple[float, float], count: int) -> dict[str, int]:
    """Processor time per schedule since `before`, steadier than the clock where others use the machine too."""
    worker, broker = (round((now - then) / count * 1e6) for now, then in zip(cpu_s(client), before, strict=True))
    return {"worker": worker, "broker": broker}


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def run(count: int, client: Any, idle_s: float) -> dict[str, Any]:
    client.flushall()
    result: dict[str, Any] = {"schedules": count, "ping_ms": round(ping_ms(client), 3)}
    before_mb = memory_mb()
    rig = Rig(client, "w1")
    at = next_minute(margin_s=8 + count / 2_000 + idle_s)
    moment = time.gmtime(at)
    herd = {
        ("app", f"s{number}"): schedule(f"s{number}", f"{moment.tm_min} {moment.tm_hour} * * *")
        for number in range(count)
    }
    began, used = time.perf_counter(), cpu_s(client)
    rig.registrar.propose(herd, Mode.START)
    result["load_s"] = round(time.perf_counter() - began, 2)
    result["load_cpu_us"] = cpu_us(client, used, count)
    result["memory_mb"] = round(memory_mb() - before_mb, 1)
    rig.start()
    cpu, wall = time.process_time(), time.monotonic()
    threading.Event().wait(idle_s)
    result["idle_cpu_percent"] = round((time.process_time() - cpu) / (time.monotonic() - wall) * 100, 2)
    used = cpu_s(client)
    wait_until(lambda: len(rig.published) >= count, at - time.time() + 60)
    result["herd_cpu_us"] = cpu_us(client, used, count)
    times = [moment for _, moment in rig.published]
    late = [moment - at for moment in times]
    result["herd_s"] = round(max(late), 3)
    result["published_per_s"] = round(count / max(*late, 0.001))
    result["p99_late_s"] = round(percentile(late, 0.99), 3)
    assert len({name for name, _ in rig.published}) == count == client.xlen(rig.keys.events)
    result["lone_late_ms"] = lone(rig)
    rig.stop()
    return result


def lone(rig: Rig) -> dict[str, float]:
    """How late one schedule is that fires every second while all the others are loaded."""
    from relayctl.core.cron import Every

    ticking = Schedule(
        name=ScheduleName("lone"), trigger=Every(seconds=1), contract=Contract(handler="jobs.run"), jitter=timedelta(0)
    )
    seen = len(rig.published)
    own = {name: item.schedule for name, item in rig.registrar._own.items()}
    rig.registrar.propose({**own, ("app", "lone"): ticking}, Mode.EDIT)
    wait_until(lambda: len(rig.published) >= seen + 15, 30)
    late = [(moment % 1) * 1000 for name, moment in rig.published[seen:] if name == "lone"]
    return {"p50": round(statistics.median(late), 1), "max": round(max(late), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=10.0, metavar="SECONDS")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as folder:
        broker = EmbeddedBroker(StateDir(Path(folder)), SystemClock())
        broker.start_or_attach()
        client = connect(broker.target)
        try:
            print(json.dumps(run(options.schedules, client, options.idle), indent=2))
        finally:
            client.close()
            broker.stop()


if __name__ == "__main__":
    main()
