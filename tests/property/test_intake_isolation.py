"""Whatever breaks while an entry is classified: it alone is set aside, and in the end it is a dead letter."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.intake import Intake

from relayctl.host.clock import HeldClock
from relayctl.worker import consumer
from relayctl.worker.setaside import BROKEN_FOR_S, MOST_TRIES
from relayctl.worker.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    import redis

BREAKS: tuple[type[BaseException], ...] = (ValueError, RecursionError, KeyError, MemoryError, AssertionError)


class Trap:
    """A pattern that wants `go`, and breaks on what names one of the errors."""

    def matches(self, event: Mapping[str, Any], _now: datetime) -> bool:
        for error in BREAKS:
            if event.get("kind") == error.__name__:
                raise error(error.__name__)
        return event.get("kind") == "go"


def trapped(client: redis.Redis, root: Path) -> Intake:
    """A worker with a rule whose matcher breaks, and a broker without anything."""
    client.flushall()
    intake = Intake(root, client, clock=HeldClock(datetime.now(UTC)))
    live = intake.snapshot.live["app"]
    rules = tuple(replace(rule, pattern=Trap()) for rule in live.app.events)  # type: ignore[arg-type]
    intake.snapshot = Snapshot({"app": replace(live, app=replace(live.app, events=rules))}, 1)
    return intake


def pass_by(intake: Intake) -> None:
    intake.clock.advance(timedelta(seconds=BROKEN_FOR_S + 0.1))
    intake.take_in()


@given(
    free=st.sampled_from([0, 3]),
    kinds=st.lists(st.sampled_from(["go", "other", "no object", *(each.__name__ for each in BREAKS)]), max_size=80),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_others_go_on_and_what_breaks_is_a_dead_letter(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, free: int, kinds: list[str]
) -> None:
    monkeypatch.setattr(consumer, "UNROUTED_IDLE_MS", 0)
    with tempfile.TemporaryDirectory() as folder:
        intake = trapped(redis_client, Path(folder))
        intake.places.free = free
        intake.take_in()
        texts = ["[]" if kind == "no object" else json.dumps({"kind": kind}) for kind in kinds]
        ids = {
            intake.client.xadd(intake.keys.events, {"event": text}): kind
            for text, kind in zip(texts, kinds, strict=True)
        }
        good = {entry for entry, kind in ids.items() if kind == "go"}
        broken = {entry for entry, kind in ids.items() if kind in {each.__name__ for each in BREAKS}}
        for _ in range(2):
            intake.take_in()
        assert {entry for entry in ids if intake.state(entry)} == good, "they wait for nobody"
        for _ in range(MOST_TRIES + 2):
            pass_by(intake)
        letters = [fields for _, fields in intake.client.xrange(intake.keys.dead_letters)]
        assert {each["message"] for each in letters if each["reason"] == "not-classified"} == broken
        told = {fact.message: fact.reason for fact in intake.told("message-rejected")}
        assert all(ids[entry] in told[entry] for entry in broken), "each is told with what broke"
        assert intake.stream.is_all_routed()
        assert intake.client.xlen(intake.keys.events) == len(good)
        assert intake.places.free == max(0, free - len(good))


def test_more_broken_entries_than_a_batch_has_hold_up_nothing(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(consumer, "UNROUTED_IDLE_MS", 0)
    intake = trapped(redis_client, tmp_path)
    intake.take_in()
    for _ in range(2 * consumer.BATCH):
        intake.client.xadd(intake.keys.events, {"event": json.dumps({"kind": "ValueError"})})
    intake.emit(1)
    for _ in range(4):
        intake.take_in()
    assert len(intake.places.started) == 1
    for _ in range(3 * MOST_TRIES):
        pass_by(intake)
    assert intake.client.xlen(intake.keys.dead_letters) == 2 * consumer.BATCH
