"""Claims whose answer was lost: they are asked for again by their tokens, and run at once instead of by their lease."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import Proxy

from relayctl.core.lifecycle import Claim
from relayctl.core.model import App
from relayctl.core.occurrence import Occurrence
from relayctl.errors import BrokerRefused, BrokerUnavailable
from relayctl.host.clock import SystemClock
from relayctl.store.connect import Target, connect
from relayctl.store.definitions import Definitions
from relayctl.store.fleet import Fleet
from relayctl.store.invocations import Invocations
from relayctl.store.keys import Keys
from relayctl.store.scripts import source
from relayctl.store.stream import Stream
from relayctl.templates.load import load_app
from relayctl.worker.claimer import Claimer, Tokens
from relayctl.worker.consumer import Consumer
from relayctl.worker.fleettime import FleetTime
from relayctl.worker.leftovers import Leftovers
from relayctl.worker.peers import Peers
from relayctl.worker.snapshot import LiveApp, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from support.broker import PrivateBroker

TEMPLATE = """
runtime: python
concurrency: 3
events: [{handler: jobs.on, pattern: {kind: [go]}, retries: 0}]
"""


class Places:
    """Stands where the executor stands: counts places and keeps what was submitted."""

    def __init__(self) -> None:
        self.free = 3
        self.started: list[Claim] = []

    def reserve(self, _app: str, most: int) -> int:
        taken = min(most, self.free)
        self.free -= taken
        return taken

    def give_back(self, _app: str, count: int) -> None:
        self.free += count

    def submit(self, claims: list[Claim]) -> None:
        self.started += claims

    def running(self) -> list[Claim]:
        return self.started

    def take_finished(self) -> list[Any]:
        return []

    def demand(self, _app: str, _count: int) -> None:
        return

    def stop_run(self, _claim: Claim, _reason: str) -> None:
        raise AssertionError("a lease was lost")


class Intake:
    """A consumer and a claimer whose broker stands behind a proxy."""

    def __init__(self, root: Path, broker: PrivateBroker, client: redis.Redis) -> None:
        def upstream() -> socket.socket:
            made = socket.socket(socket.AF_UNIX)
            made.connect(str(broker.target.path))
            return made

        self.proxy = Proxy(upstream)
        self.client: Any = client
        self.keys = Keys()
        near = connect(Target.parse(f"redis://127.0.0.1:{self.proxy.port}"), timeout_s=0.3)
        self.near = near
        self.places = Places()
        self.facts: list[Any] = []
        snapshot = Snapshot({"app": self._live(root)}, 1)
        clock = SystemClock()
        time = FleetTime(clock)
        stream, invocations = Stream(near, self.keys), Invocations(near, self.keys)
        definitions = Definitions(near, self.keys)
        common: dict[str, Any] = {
            "invocations": invocations,
            "executor": self.places,
            "snapshot": lambda: snapshot,
            "time": time,
            "clock": clock,
            "worker": "w1",
            "emit": self.facts.append,
        }
        self.claimer = Claimer(
            **common,
            leftovers=Leftovers(
                invocations=invocations,
                definitions=definitions,
                peers=Peers(Fleet(near, self.keys), "w1"),
                worker="w1",
            ),
            tokens=Tokens("t"),
            cap=timedelta(hours=1),
        )
        self.consumer = Consumer(
            **common, reader=stream, stream=stream, definitions=definitions, claimer=self.claimer, max_bytes=10_000
        )

    def _live(self, root: Path) -> LiveApp:
        folder = root / "app"
        folder.mkdir(parents=True)
        (folder / "jobs.py").write_text("def on(event):\n    pass\n")
        (folder / "template.yaml").write_text(TEMPLATE)
        app = load_app(folder, root=root, now=datetime.now(UTC)).app
        assert isinstance(app, App)
        return LiveApp(app=app, revision="r", template="t", directory=folder)

    def losing_the_reply_of(self, script: str, act: Callable[[], object]) -> None:
        """Run `act`, and lose the broker's answers from that script on."""
        # Known to the server, so that the lost answer is that of the deed.
        self.client.script_load(source(script))
        stores = (self.consumer._stream._scripts, self.claimer._invocations._scripts)
        names = ("run", "run_many")
        originals = {(store, name): getattr(type(store), name) for store in stores for name in names}
        kind = type(stores[0])

        def wrapped(name: str) -> Callable[..., Any]:
            def call(store: Any, asked: str, *arguments: Any) -> Any:
                if asked == script:
                    self.proxy.eat.set()
                return originals[store, name](store, asked, *arguments)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in names:
                patch.setattr(kind, name, wrapped(name))
            with pytest.raises(BrokerUnavailable):
                act()
        self.proxy.eat.clear()

    def emit(self, count: int) -> None:
        for number in range(count):
            self.client.xadd(self.keys.events, {"event": json.dumps({"kind": "go", "id": number})})

    def close(self) -> None:
        self.near.close()
        self.proxy.close()


@pytest.fixture
def intake(tmp_path: Path, broker: PrivateBroker, redis_client: redis.Redis) -> Iterator[Intake]:
    made = Intake(tmp_path, broker, redis_client)
    yield made
    made.close()


def test_what_routing_granted_runs_although_its_reply_was_lost(intake: Intake) -> None:
    intake.emit(2)
    intake.losing_the_reply_of("route", intake.consumer.step)
    assert intake.places.started == []
    intake.claimer.step()
    assert [claim.attempt for claim in intake.places.started] == [1, 1]
    # The batch is routed again; nothing comes of it twice.
    intake.emit(1)
    intake.consumer.step()
    intake.consumer.step()
    intake.claimer.step()
    assert sorted(json.loads(claim.event)["id"] for claim in intake.places.started) == [0, 0, 1]
    assert intake.places.free == 0


def test_what_was_claimed_runs_although_its_reply_was_lost(intake: Intake) -> None:
    intake.places.free = 0
    intake.emit(2)
    intake.consumer.step()
    intake.places.free = 3
    intake.losing_the_reply_of("claim", intake.claimer.step)
    assert intake.places.started == []
    intake.claimer.step()
    assert [claim.attempt for claim in intake.places.started] == [1, 1]
    assert intake.places.free == 1


def test_a_stop_gives_back_what_was_granted_without_being_known(intake: Intake) -> None:
    intake.places.free = 0
    intake.emit(1)
    intake.consumer.step()
    intake.places.free = 3
    intake.losing_the_reply_of("claim", intake.claimer.step)
    intake.claimer.stop_claiming()
    assert not intake.claimer.is_settled()
    intake.claimer.step()
    assert intake.claimer.is_settled()
    assert (intake.places.started, intake.places.free) == ([], 3)
    [message] = intake.client.xrange(intake.keys.events)
    assert intake.client.hget(intake.keys.invocations(message[0]), "s:app|jobs.on") == "ready|0|"


def test_a_batch_that_cannot_be_judged_keeps_no_places(intake: Intake) -> None:
    intake.emit(2)
    firing = Occurrence(
        app="app", schedule="tick", handler="jobs.on", scheduled_at=datetime(2027, 1, 15, tzinfo=UTC), gen=1
    )
    intake.client.xadd(intake.keys.events, {"event": firing.to_envelope()})
    registry = intake.keys.schedule("app", "tick")
    intake.client.set(registry, "of another type")
    for _ in range(3):
        with pytest.raises(BrokerRefused):
            intake.consumer.step()
    assert (intake.places.free, intake.places.started) == (3, [])
    intake.client.delete(registry)
    intake.consumer.step()
    assert [json.loads(claim.event)["id"] for claim in intake.places.started] == [0, 1]
    assert intake.places.free == 1
