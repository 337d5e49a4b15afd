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
from support.intake import TEMPLATE, Intake

from relayctl.core.occurrence import Occurrence
from relayctl.errors import BrokerRefused, BrokerUnavailable
from relayctl.host.clock import HeldClock
from relayctl.runners.invocation import Outcome
from relayctl.store.connect import Target, connect
from relayctl.store.keys import GROUP, ROUTED
from relayctl.store.scripts import source

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from support.broker import PrivateBroker


class FarIntake(Intake):
    """One whose broker stands behind a proxy."""

    def __init__(self, root: Path, broker: PrivateBroker, client: redis.Redis) -> None:
        def upstream() -> socket.socket:
            made = socket.socket(socket.AF_UNIX)
            made.connect(str(broker.target.path))
            return made

        self.proxy = Proxy(upstream)
        self.far = connect(Target.parse(f"redis://127.0.0.1:{self.proxy.port}"), timeout_s=0.3)
        super().__init__(root, client, near=self.far)

    def losing_the_reply_of(self, script: str, act: Callable[[], object]) -> None:
        """Run `act`, and lose the broker's answers from that script on."""
        # Known to the server, so that the lost answer is that of the deed.
        self.client.script_load(source(script))
        stores = (self.consumer._stream._scripts, self.claimer._invocations._scripts)
        names = ("run", "run_all")
        originals = {(store, name): getattr(type(store), name) for store in stores for name in names}
        kind = type(stores[0])

        def wrapped(name: str) -> Callable[..., Any]:
            def call(store: Any, asked: Any, *arguments: Any, **more: Any) -> Any:
                # Either one script's name, or runs of several.
                asked = asked if isinstance(asked, str) else list(asked)
                if asked == script or script in [run[0] for run in asked]:
                    self.proxy.eat.set()
                return originals[store, name](store, asked, *arguments, **more)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in names:
                patch.setattr(kind, name, wrapped(name))
            with pytest.raises(BrokerUnavailable):
                act()
        self.proxy.eat.clear()

    def close(self) -> None:
        self.far.close()
        self.proxy.close()


@pytest.fixture
def intake(tmp_path: Path, broker: PrivateBroker, redis_client: redis.Redis) -> Iterator[FarIntake]:
    made = FarIntake(tmp_path, broker, redis_client)
    yield made
    made.close()


def test_what_routing_granted_runs_although_its_reply_was_lost(intake: FarIntake) -> None:
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


def test_what_was_claimed_runs_although_its_reply_was_lost(intake: FarIntake) -> None:
    intake.places.free = 0
    intake.emit(2)
    intake.consumer.step()
    intake.places.free = 3
    intake.losing_the_reply_of("claim", intake.claimer.step)
    assert intake.places.started == []
    intake.claimer.step()
    assert [claim.attempt for claim in intake.places.started] == [1, 1]
    assert intake.places.free == 1


def test_a_stop_gives_back_what_was_granted_without_being_known(intake: FarIntake) -> None:
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
    assert intake.client.hget(intake.keys.invocations(message[0]), "s:app|jobs.on").startswith("ready|0|")


def test_an_entry_that_cannot_be_judged_keeps_neither_places_nor_its_batch(intake: FarIntake) -> None:
    intake.emit(2)
    firing = Occurrence(
        app="app", schedule="tick", handler="jobs.on", scheduled_at=datetime(2027, 1, 15, tzinfo=UTC), gen=1
    )
    intake.client.xadd(intake.keys.events, {"event": firing.to_envelope()})
    registry = intake.keys.schedule("app", "tick")
    intake.client.set(registry, "of another type")
    for _ in range(3):
        intake.take_in()
    assert [json.loads(claim.event)["id"] for claim in intake.places.started] == [0, 1]
    assert intake.places.free == 1
    [told] = intake.told("loop-failed")
    assert "cannot be routed" in told.reason
    intake.client.delete(registry)
    intake.consumer._aside._until.clear()
    intake.consumer._unrouted = intake.stream.take_unrouted("w1", idle_ms=0)
    intake.take_in()
    assert intake.client.xpending(intake.keys.events, GROUP)["consumers"] == [{"name": ROUTED, "pending": 2}]
    assert len(intake.told("loop-failed")) == 1


def test_an_entry_that_the_step_refuses_for_good_is_left_alone(tmp_path: Path, redis_client: redis.Redis) -> None:
    intake = Intake(tmp_path, redis_client, clock=HeldClock(datetime.now(UTC)))
    intake.emit(2)
    bad, good = [entry for entry, _ in redis_client.xrange(intake.keys.events)]
    redis_client.set(intake.keys.invocations(bad), "of another type")
    intake.take_in()
    intake.claimer.step()
    assert [claim.message for claim in intake.places.started] == [good]
    assert intake.places.free == 2
    alone = redis_client.xadd(intake.keys.events, {"event": '{"kind": "go"}'})
    redis_client.set(intake.keys.invocations(alone), "of another type")
    intake.take_in()
    intake.emit(1)
    intake.take_in()
    assert len(intake.places.started) == 2, "one that came by itself holds up nothing either"
    assert [fact.loop for fact in intake.told("loop-failed")].count("consumer") == 2
    redis_client.delete(intake.keys.invocations(bad), intake.keys.invocations(alone))
    intake.places.free = 3
    intake.clock.advance(timedelta(minutes=1))
    intake.consumer._unrouted = intake.stream.take_unrouted("w1", idle_ms=0)
    intake.take_in()
    intake.claimer.step()
    assert {claim.message for claim in intake.places.started} >= {bad, alone}


def test_a_broker_that_refuses_everything_keeps_the_batch(
    tmp_path: Path, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = Intake(tmp_path, redis_client)
    intake.emit(2)

    def refused(*_: Any, **__: Any) -> None:
        raise BrokerRefused("the broker forbids this user a command")

    with monkeypatch.context() as patch:
        patch.setattr(intake.stream, "route", refused)
        with pytest.raises(BrokerRefused):
            intake.take_in()
    intake.claimer.step()
    assert intake.places.free == 3
    intake.take_in()
    assert len(intake.places.started) == 2


def test_a_failure_whose_reply_was_lost_is_told_with_its_next_attempt(
    tmp_path: Path, redis_client: redis.Redis
) -> None:
    template = {"app": TEMPLATE.replace("retries: 0", "retries: 1")}
    intake = Intake(tmp_path, redis_client, templates=template)
    intake.emit(1)
    intake.take_in()
    [claim] = intake.places.started
    intake.places.end(claim, Outcome.FAILED)
    record = intake.invocations.turn

    def losing_its_answer(*asked: Any, **more: Any) -> Any:
        record(*asked, **more)
        raise BrokerUnavailable("the connection broke")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake.invocations, "turn", losing_its_answer)
        with pytest.raises(BrokerUnavailable):
            intake.claimer.step()
    intake.claimer.step()
    [told] = intake.told("run-failed")
    assert told.retry_in is not None, "it is not its last"


def test_a_batch_that_is_routed_again_is_told_of_once(tmp_path: Path, redis_client: redis.Redis) -> None:
    intake = Intake(tmp_path, redis_client)
    for event in ('{"kind": "other"}', "no object"):
        intake.client.xadd(intake.keys.events, {"event": event})

    def away(*_: Any, **__: Any) -> None:
        raise BrokerUnavailable("the connection broke")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake.stream, "route", away)
        for _ in range(3):
            with pytest.raises(BrokerUnavailable):
                intake.take_in()
    assert intake.facts == []
    intake.take_in()
    assert [fact.event for fact in intake.facts] == ["event-unmatched", "message-rejected"]


def test_an_end_whose_reply_was_lost_is_recorded_once_and_its_place_comes_back(intake: FarIntake) -> None:
    intake.emit(2)
    intake.take_in()
    first, second = intake.places.started
    intake.places.end(first)
    intake.losing_the_reply_of("finish", intake.claimer.step)
    assert intake.client.xlen(intake.keys.events) == 1, "it was done all the same"
    assert intake.places.started == [first, second], "and nobody here knows it"
    intake.claimer.step()
    assert (intake.places.started, intake.places.free) == ([second], 2)
    history = intake.client.xrange(intake.keys.history_of_handler("app", "jobs.on"))
    assert [fields["message"] for _, fields in history] == [first.message]
    assert intake.told("end-refused") == []
