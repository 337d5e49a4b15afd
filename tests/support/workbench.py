"""One worker's tick loop, registrar and reconciler in process, on a real broker: stepped by the test, no threads.

The held clock moves what the worker waits for; what is due is decided by the broker's own time.
"""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from relayctl.core.cron import EVALUATOR_VERSION, Cron, Every
from relayctl.core.definition import Generation, Spec
from relayctl.core.model import Contract, Schedule
from relayctl.core.names import ScheduleName
from relayctl.host.clock import HeldClock
from relayctl.sources.directory import DirectorySource
from relayctl.sources.lastgood import LastGood
from relayctl.store.closings import Closings
from relayctl.store.controls import Controls
from relayctl.store.definitions import Definitions
from relayctl.store.fleet import Fleet, Holdings, WorkerRecord
from relayctl.store.keys import Keys
from relayctl.store.stream import Stream
from relayctl.worker.fleettime import FleetTime
from relayctl.worker.lostgaps import LostGaps
from relayctl.worker.peers import Peers
from relayctl.worker.reconciler import Changes, Reconciler
from relayctl.worker.registrar import Registrar
from relayctl.worker.rescue import Rescue
from relayctl.worker.scheduler import Scheduler, Surroundings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import redis

    from relayctl.core.facts import Fact
    from relayctl.store.fleet import Pulse
    from relayctl.worker.agenda import Name
    from relayctl.worker.snapshot import Snapshot

T0 = 1_800_000_000


def schedule(trigger: Cron | Every, name: str = "tick", **changes: Any) -> Schedule:
    """A schedule of handler jobs.run."""
    return Schedule(name=ScheduleName(name), trigger=trigger, contract=Contract(handler="jobs.run"), **changes)


def every(seconds: int, name: str = "tick", **changes: Any) -> Schedule:
    return schedule(Every(seconds=seconds), name, **changes)


def cron(expression: str, zone: str = "UTC", name: str = "tick", **changes: Any) -> Schedule:
    return schedule(Cron.parse(expression, zone), name, **changes)


def generation(item: Schedule, since: int, until: int | None = None, gen: int = 1) -> Generation:
    """That schedule's definition in force from `since` to `until`, in epoch seconds."""
    spec = Spec.of(item)
    to_ms = None if until is None else until * 1000
    return Generation(gen=gen, hash=spec.hash, spec=spec.text, from_ms=since * 1000, to_ms=to_ms)


def record(worker: str, **changes: Any) -> WorkerRecord:
    known = {
        "id": worker,
        "host": "host",
        "pid": os.getpid(),
        "version": "0",
        "started_at": "2026-01-01T00:00:00Z",
        "is_publishing": True,
        "holdings_seq": 1,
        "evaluator": EVALUATOR_VERSION,
        "tzdata": "t",
    }
    return WorkerRecord(**known | changes)


class Workbench:
    """A worker named `worker` on the tree `root`. `facts` is what it told."""

    def __init__(self, client: redis.Redis, root: Path, worker: str = "w1", clock: Any = None, acks: int = 0) -> None:
        self.client: Any = client
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.keys = Keys()
        self.worker = worker
        self.facts: list[Fact] = []
        self.swaps: list[Changes] = []
        self.clock: Any = clock or HeldClock(datetime.now(UTC))
        self.time = FleetTime(self.clock)
        self.fleet = Fleet(client, self.keys)
        self.stream = Stream(client, self.keys)
        self.closings = Closings(client, self.keys, worker)
        self.definitions = Definitions(client, self.keys)
        self.peers = Peers(self.fleet, worker)
        self.rescue = Rescue(
            self, path=root.parent / f"{worker}.db", token=worker, acks=acks, clock=self.clock, emit=self.facts.append
        )
        self.scheduler = Scheduler(
            stream=self.stream,
            closings=self.closings,
            fleet=self.fleet,
            peers=self.peers,
            time=self.time,
            clock=self.clock,
            token=worker,
            surroundings=Surroundings(
                record=lambda is_publishing: record(
                    worker, is_publishing=is_publishing, holdings_seq=self.reconciler.holdings_seq
                ),
                on_pulse=self._on_pulse,
                on_superseded=self._on_superseded,
                drain=self.rescue.drain,
                is_abreast=lambda: self.reconciler.is_abreast,
            ),
            recovery=self.rescue.recovery,
            emit=self.facts.append,
        )
        self.registrar = Registrar(
            definitions=self.definitions,
            scheduler=self.scheduler,
            peers=self.peers,
            clock=self.clock,
            worker=worker,
            emit=self.facts.append,
            controls=Controls(client, self.keys),
            gaps=LostGaps(self.closings, self.time.now_ms, self.facts.append),
        )
        self.reconciler = Reconciler(
            source=DirectorySource(root, self.clock),
            registrar=self.registrar,
            fleet=self.fleet,
            worker=worker,
            swap=self._swap,
            announce=self.scheduler.beat_now,
            clock=self.clock,
            resync=timedelta(seconds=30),
            emit=self.facts.append,
            keeper=self.rescue.keeper,
            last_good=LastGood(root.parent / "last-good", root, self.facts.append),
        )

    def _on_pulse(self, pulse: Pulse) -> None:
        self.reconciler.on_pulse(pulse)

    def _on_superseded(self, names: Iterable[Name]) -> None:
        self.reconciler.refresh(list(names))

    def _swap(self, _snapshot: Snapshot, changes: Changes) -> None:
        self.swaps.append(changes)

    # --- the tree ---

    def app(self, name: str, *schedules: str) -> None:
        """Write an app with these schedules, each the inside of a YAML flow mapping."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        (folder / "jobs.py").write_text("def run(event):\n    pass\n\n\ndef on(event):\n    pass\n")
        lines = ["runtime: python", "events: [{handler: jobs.on, pattern: {kind: [never]}}]"]
        lines += ["schedules:", *(f"  - {{handler: jobs.run, {item}}}" for item in schedules)] if schedules else []
        (folder / "template.yaml").write_text("\n".join(lines) + "\n")

    def remove(self, name: str) -> None:
        shutil.rmtree(self.root / name)

    # --- passes ---

    def tick(self) -> None:
        """One pass of the tick loop, with a heartbeat."""
        self.scheduler.beat_now()
        self.scheduler.step()

    def look(self, after_s: float = 0.0) -> None:
        """Let time pass, then a heartbeat and one pass over the whole tree."""
        self.clock.advance(timedelta(seconds=after_s))
        self.tick()
        self.reconciler.hint(None)
        self.reconciler.step()

    def settle(self) -> None:
        """Look often enough for removals and reports to come."""
        self.look()
        self.look(after_s=2.5)

    # --- what others do and see ---

    def peer(self, worker: str, schedules: dict[str, str], apps: Iterable[str] = ("app",), **changes: Any) -> None:
        """Another live worker that holds these definitions."""
        self.fleet.hold(worker, Holdings(apps=dict.fromkeys(apps, "r"), schedules=schedules))
        self.fleet.beat(record(worker, **changes))

    def head(self, app: str = "app", name: str = "tick") -> dict[str, str]:
        found: dict[str, str] = self.client.hgetall(self.keys.schedule(app, name))
        return found

    def gen(self, app: str = "app", name: str = "tick") -> int:
        return int(self.head(app, name).get("gen", 0))

    def published(self, app: str = "app", name: str = "tick") -> list[int]:
        record: dict[str, str] = self.client.hgetall(self.keys.published(app, name))
        return sorted(int(at) for at, state in record.items() if state.startswith("p|"))

    def envelopes(self) -> list[dict[str, Any]]:
        return [json.loads(fields["event"]) for _, fields in self.client.xrange(self.keys.events)]

    def told(self, event: str) -> list[Any]:
        return [fact for fact in self.facts if fact.event == event]

    def now(self) -> int:
        return int(self.client.time()[0])
