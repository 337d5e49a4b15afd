"""Heartbeats and the records of the fleet."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.storedesk import T0_MS

from relayctl.core.running import BrokenApp
from relayctl.errors import ModeConflict
from relayctl.store.fleet import RECORD_LIFE_MS, Holdings, WorkerRecord

if TYPE_CHECKING:
    from support.storedesk import Desk

RECORD = WorkerRecord(
    id="w1",
    host="h1",
    pid=7,
    version="1.0",
    started_at="2027-01-15T08:00:00Z",
    is_publishing=True,
    holdings_seq=3,
    evaluator="1",
    tzdata="2026.1",
    broken=(
        BrokenApp(app="mail", place="mail/template.yaml:3:1", problem="unknown key", since="2027-01-15T08:00:00Z"),
    ),
)


def test_a_beat_tells_who_is_alive(desk: Desk) -> None:
    first = desk.fleet.beat(RECORD, T0_MS)
    assert (first.now_ms, first.definitions_seq, first.workers) == (T0_MS, 0, ("w1",))
    desk.register("h1")
    second = desk.fleet.beat(replace(RECORD, id="w2"), T0_MS + 10_000)
    assert (second.definitions_seq, second.epoch, second.workers) == (1, first.epoch, ("w1", "w2"))
    assert desk.fleet.beat(RECORD, T0_MS + 45_000).workers == ("w1",), "w2 has been silent for too long"


def test_a_beat_told_twice_changes_nothing(desk: Desk) -> None:
    first = desk.fleet.beat(RECORD, T0_MS)
    before = desk.contents()
    assert desk.fleet.beat(RECORD, T0_MS) == first
    assert desk.contents() == before


def test_a_flushed_server_has_another_epoch(desk: Desk) -> None:
    first = desk.fleet.beat(RECORD)
    assert len(first.epoch) >= 8
    desk.client.flushall()
    assert desk.fleet.beat(RECORD).epoch != first.epoch


def test_without_a_held_clock_it_is_the_servers(desk: Desk) -> None:
    seconds, micros = desk.client.time()  # type: ignore[misc]
    pulse = desk.fleet.beat(RECORD)
    assert 0 <= pulse.now_ms - (seconds * 1000 + micros // 1000) < 10_000


def test_the_long_dead_are_forgotten(desk: Desk) -> None:
    desk.fleet.beat(RECORD, T0_MS)
    desk.fleet.beat(replace(RECORD, id="w2"), T0_MS + 60_000)
    assert desk.client.zrange(desk.keys.workers, 0, -1) == ["w2"]


def test_records_come_back_as_they_were_written(desk: Desk) -> None:
    desk.fleet.beat(RECORD, T0_MS)
    desk.fleet.beat(replace(RECORD, id="a0"), T0_MS + 1)
    assert desk.fleet.records() == [replace(RECORD, id="a0", beat_ms=T0_MS + 1), replace(RECORD, beat_ms=T0_MS)]
    assert 0 < desk.client.pttl(desk.keys.worker("w1")) <= RECORD_LIFE_MS  # type: ignore[operator]
    desk.client.set(desk.keys.worker("a0"), json.dumps({"v": 99, "id": "a0"}))
    assert [record.id for record in desk.fleet.records()] == ["w1"], "a newer record is not judged"


def test_whoever_leaves_is_gone_at_once(desk: Desk) -> None:
    desk.fleet.beat(RECORD, T0_MS)
    desk.fleet.hold("w1", Holdings(apps={"shop": "r1"}))
    desk.fleet.leave("w1")
    desk.fleet.leave("w1")
    assert desk.fleet.records() == []
    assert desk.fleet.holdings(["w1"]) == {}


def test_holdings_live_as_long_as_they_are_kept(desk: Desk) -> None:
    holdings = Holdings(apps={"shop": "r1"}, schedules={"shop/nightly": "h1"})
    assert desk.fleet.keep_holdings("w1") is False
    desk.fleet.hold("w1", holdings)
    assert desk.fleet.keep_holdings("w1") is True
    assert desk.fleet.holdings(["w1", "w2"]) == {"w1": holdings}
    assert desk.fleet.holdings([]) == {}


def test_a_namespace_has_one_mode(desk: Desk) -> None:
    assert desk.fleet.mode() is None
    desk.fleet.enter_mode("pull")
    desk.fleet.enter_mode("pull")
    with pytest.raises(ModeConflict) as caught:
        desk.fleet.enter_mode("push")
    assert "pull mode" in str(caught.value)
    assert "--namespace" in (caught.value.help or "")
    assert desk.fleet.mode() == "pull"


def test_consents_and_pins(desk: Desk) -> None:
    assert not desk.fleet.has_consent("r1")
    desk.fleet.consent("r1")
    assert desk.fleet.has_consent("r1")
    assert not desk.fleet.has_consent("r2")
    assert desk.client.ttl(desk.keys.consents) > 0  # type: ignore[operator]
    desk.client.hset(desk.keys.pins, "shop", "r1")
