"""A client whose time is held: what scripts are handed, and what is asked of the server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from relayctl.core.cron import Every
from relayctl.core.definition import Spec
from relayctl.core.model import Contract, Schedule
from relayctl.core.names import ScheduleName
from relayctl.core.occurrence import Occurrence
from relayctl.host.clock import HeldClock
from relayctl.store.connect import Target, connect
from relayctl.store.definitions import Definitions, Mode, Proposal
from relayctl.store.keys import Keys
from relayctl.store.stream import PublishVerdict, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from support.broker import PrivateBroker

pytestmark = pytest.mark.one_server

LONG_AGO = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock(LONG_AGO)


@pytest.fixture
def held(broker: PrivateBroker, redis_client: redis.Redis, clock: HeldClock) -> Iterator[redis.Redis]:
    client = connect(broker.target, instant=clock.instant_ms)
    yield client
    client.close()


def test_scripts_go_by_the_instant_they_are_handed(held: redis.Redis, clock: HeldClock) -> None:
    spec = Spec.of(Schedule(name=ScheduleName("tick"), trigger=Every(seconds=60), contract=Contract(handler="a.b")))
    proposal = Proposal(app="app", schedule="tick", mode=Mode.START, hash=spec.hash, spec=spec.text)
    [(_, head)] = Definitions(held, Keys()).register([proposal])
    assert head is not None
    assert head.from_ms == 1_000_000_000_000

    item = Occurrence(
        app="app", schedule="tick", handler="a.b", scheduled_at=LONG_AGO + timedelta(seconds=20), gen=head.gen
    )
    stream = Stream(held, Keys())
    [(_, early)] = stream.publish([item], "t")
    clock.advance(timedelta(seconds=20))
    [(_, due)] = stream.publish([item], "t")
    assert [getattr(answer, "verdict", answer) for answer in (early, due)] == [
        PublishVerdict.EARLY,
        PublishVerdict.PUBLISHED,
    ]


def test_an_instant_that_a_caller_names_goes_before_the_held_one(held: redis.Redis) -> None:
    spec = Spec.of(Schedule(name=ScheduleName("tick"), trigger=Every(seconds=60), contract=Contract(handler="a.b")))
    proposal = Proposal(app="app", schedule="tick", mode=Mode.START, hash=spec.hash, spec=spec.text)
    [(_, head)] = Definitions(held, Keys()).register([proposal], 5_000)
    assert head is not None
    assert head.from_ms == 5_000


def test_the_time_that_is_asked_for_is_held_too(held: redis.Redis, clock: HeldClock) -> None:
    clock.advance(timedelta(milliseconds=1250))
    assert held.time() == (1_000_000_001, 250_000)


def test_time_is_held_on_one_server_alone() -> None:
    with pytest.raises(ValueError, match="one server"):
        connect(Target.parse("redis+cluster://localhost:7000"), instant=lambda: 0)
