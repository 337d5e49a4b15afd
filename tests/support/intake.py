"""A consumer and a claimer in process on a real broker, stepped by the test; where the executor stands, counted places."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayctl.core.lifecycle import Claim
from relayctl.core.model import App
from relayctl.host.clock import SystemClock
from relayctl.runners.invocation import Ended, Outcome, Run
from relayctl.store.definitions import Definitions
from relayctl.store.fleet import Fleet
from relayctl.store.invocations import Invocations
from relayctl.store.keys import Keys
from relayctl.store.outputs import Outputs
from relayctl.store.readmission import Readmission
from relayctl.store.stranded import Strandings
from relayctl.store.stream import Stream
from relayctl.templates.load import load_app
from relayctl.worker.claimer import Claimer
from relayctl.worker.consumer import Consumer
from relayctl.worker.fleettime import FleetTime
from relayctl.worker.ledger import Finished
from relayctl.worker.leftovers import Leftovers
from relayctl.worker.peers import Peers
from relayctl.worker.snapshot import LiveApp, Snapshot
from relayctl.worker.stranded import Lookout
from relayctl.worker.tokens import Tokens

if TYPE_CHECKING:
    import redis

TEMPLATE = """
runtime: python
concurrency: 3
events: [{handler: jobs.on, pattern: {kind: [go]}, retries: 0}]
"""


class Places:
    """Stands where the executor stands: counts places and keeps what was submitted."""

    def __init__(self) -> None:
        self.free = 3
        self.room = 0
        self.held: list[Claim] = []
        self.started: list[Claim] = []
        self.finished: list[Finished] = []
        self.stopped: list[Claim] = []

    def reserve(self, _app: str, most: int) -> int:
        taken = min(most, self.free)
        self.free -= taken
        return taken

    def give_back(self, _app: str, count: int) -> None:
        self.free += count

    def submit(self, claims: list[Claim]) -> None:
        self.started += claims

    def is_grown(self, _app: str) -> bool:
        return True

    def room_in_hand(self, _app: str) -> int:
        return self.room

    def hold(self, claims: list[Claim]) -> None:
        self.room -= len(claims)
        self.held += claims

    def let_go(self) -> None:
        self.room = 0

    def running(self) -> list[Claim]:
        return [*self.started, *self.held]

    def take_finished(self) -> list[Finished]:
        finished, self.finished = self.finished, []
        return finished

    def end(self, claim: Claim, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        """The handler of a claim has ended."""
        run = Run(
            key=claim.key,
            app=claim.app,
            handler=claim.descriptor.handler,
            stdin=b"",
            variables={},
            timeout_s=6.0,
            label="label",
        )
        ended = Ended(run=run, outcome=outcome, reason="", started_at=0.0, finished_at=0.1, exit_code=0)
        self.finished.append(Finished(claim=claim, ended=ended, started_ms=1, finished_ms=100))

    def forget(self, claims: list[Claim]) -> None:
        for claim in claims:
            self.started.remove(claim)
            self.free += 1

    def gather_output(self) -> None:
        return

    def take_printed(self, _most: int) -> list[Any]:
        return []

    def demand(self, _app: str, _count: int) -> None:
        return

    def stop_run(self, claim: Claim, _reason: str) -> None:
        self.stopped.append(claim)

    def starve(self, _apps: object) -> None:
        return

    def revision_of(self, live: LiveApp) -> str:
        return live.revision


class Intake:
    """The loops from stream to end of one worker, on `near`; `client` is the test's own way to the broker."""

    def __init__(
        self,
        root: Path,
        client: redis.Redis,
        *,
        near: redis.Redis | None = None,
        clock: Any = None,
        worker: str = "w1",
        templates: dict[str, str] | None = None,
    ) -> None:
        self.client: Any = client
        self.keys = Keys()
        self.clock: Any = clock or SystemClock()
        self.time = FleetTime(self.clock)
        near = client if near is None else near
        self.places = Places()
        self.facts: list[Any] = []
        apps = {"app": TEMPLATE} if templates is None else templates
        self.snapshot = Snapshot({name: live_app(root, name, text) for name, text in apps.items()}, 1)
        self.stream, self.invocations = Stream(near, self.keys), Invocations(near, self.keys)
        self.fleet = Fleet(near, self.keys)
        self.peers = Peers(self.fleet, worker)
        self.strandings = Strandings(near, self.keys)
        definitions = Definitions(near, self.keys)
        common: dict[str, Any] = {
            "invocations": self.invocations,
            "executor": self.places,
            "snapshot": lambda: self.snapshot,
            "time": self.time,
            "clock": self.clock,
            "worker": worker,
            "emit": self.facts.append,
        }
        self.claimer = Claimer(
            **common,
            readmission=Readmission(near, self.keys),
            outputs=Outputs(near, self.keys),
            leftovers=Leftovers(invocations=self.invocations, definitions=definitions, peers=self.peers, worker=worker),
            lookout=Lookout(
                invocations=self.invocations,
                strandings=self.strandings,
                peers=self.peers,
                clock=self.clock,
                worker=worker,
                emit=self.facts.append,
            ),
            tokens=Tokens(f"t-{worker}"),
            cap=timedelta(hours=1),
        )
        self.consumer = Consumer(
            **common,
            reader=self.stream,
            stream=self.stream,
            definitions=definitions,
            claimer=self.claimer,
            max_bytes=10_000,
        )

    def emit(self, count: int) -> None:
        for number in range(count):
            self.client.xadd(self.keys.events, {"event": json.dumps({"kind": "go", "id": number})})

    def take_in(self) -> None:
        """One pass of the consumer that does not wait for what is new."""
        self.consumer.step(block_ms=1)

    def told(self, event: str) -> list[Any]:
        return [fact for fact in self.facts if fact.event == event]

    def state(self, message: str, name: str = "app|jobs.on") -> str | None:
        text: str | None = self.client.hget(self.keys.invocations(message), f"s:{name}")
        return text


def live_app(root: Path, name: str = "app", template: str = TEMPLATE) -> LiveApp:
    """An app of that template whose code is in `jobs.py`, as a worker has it live."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "jobs.py").write_text("def on(event):\n    pass\n\n\ndef run(event):\n    pass\n")
    (folder / "template.yaml").write_text(template)
    app = load_app(folder, root=root, now=datetime.now(UTC)).app
    assert isinstance(app, App)
    return LiveApp(app=app, revision="r", template="t", directory=folder)
