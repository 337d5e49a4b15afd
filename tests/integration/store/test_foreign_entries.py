"""Entries that others append by hand: each dead-lettered once with its own reason, none in the way of good ones."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import APP, HANDLER, SCHEDULE, T0, T0_MS, Desk, occurrence, order_of

from relayctl.core.cron import Every
from relayctl.core.lifecycle import Kind
from relayctl.core.model import App, Contract, EventRule, Schedule
from relayctl.core.names import AppName, ScheduleName
from relayctl.core.occurrence import epoch_seconds, from_epoch
from relayctl.core.pattern import Pattern
from relayctl.core.routing import Dead, ForNewer, Owed, firing_objection, route_entry

if TYPE_CHECKING:
    from relayctl.core.occurrence import Occurrence

MAX_BYTES = 256 * 1024
TRIGGER = Every(seconds=60)
APPS = {
    APP: App(
        name=AppName(APP),
        runtime="python",
        events=(EventRule(pattern=Pattern.from_json({"kind": ["order"]}), contract=Contract(handler="orders.new")),),
        schedules=(Schedule(name=ScheduleName(SCHEDULE), trigger=TRIGGER, contract=Contract(handler=HANDLER)),),
    )
}


def check(claim: Occurrence) -> str | None:
    return firing_objection(claim, TRIGGER.is_firing_s)


def take_in(desk: Desk) -> list[tuple[Any, list[str]]]:
    """Read, classify and route everything in the stream, as a worker does."""
    entries = desk.read()
    now = from_epoch(T0)
    found = [route_entry(item.fields, APPS, now=now, max_bytes=MAX_BYTES, check=check) for item in entries]
    orders = [order_of(item, routing, desk.keys) for item, routing in zip(entries, found, strict=True)]
    return list(zip(found, desk.route(*orders), strict=True))


def envelope(**changes: Any) -> str:
    document = json.loads(occurrence(T0).to_envelope()) | changes
    return json.dumps({name: value for name, value in document.items() if value is not None})


def shifted(at: int) -> str:
    """A sound envelope of another instant."""
    return occurrence(at).to_envelope()


RAW: dict[str, tuple[dict[Any, Any], str]] = {
    "no event field": ({"evnt": '{"kind":"order"}'}, "no-event-field"),
    "empty": ({"event": ""}, "not-an-object"),
    "not JSON": ({"event": "{'kind': 'order'}"}, "not-an-object"),
    "a list": ({"event": '[{"kind":"order"}]'}, "not-an-object"),
    "a number no parser takes": ({"event": '{"n": NaN}'}, "not-an-object"),
    "too deep": ({"event": '{"a":' + "[" * 50_000 + "]" * 50_000 + "}"}, "not-an-object"),
    "five megabytes": ({"event": '{"blob":"' + "x" * 5_000_000 + '"}'}, "too-large"),
    "no id": ({"event": envelope(occurrence_id=None)}, "structure"),
    "an empty schedule": ({"event": envelope(schedule="")}, "structure"),
    "an offset for Z": ({"event": envelope(scheduled_at="2027-01-15T08:00:00+00:00")}, "structure"),
    "a fraction": ({"event": envelope(scheduled_at="2027-01-15T08:00:00.0Z")}, "structure"),
    "no generation": ({"event": envelope(gen=None)}, "structure"),
    "a truth for a version": ({"event": envelope(v=True)}, "structure"),
    "names with colons": (
        {
            "event": envelope(
                app="shop:nightly", schedule="x", occurrence_id="schedule:shop:nightly:x:2027-01-15T08:00:00Z"
            )
        },
        "structure",
    ),
    "a name beyond Unicode": ({"event": envelope(app="\ud800")}, "structure"),
    "the id of another instant": ({"event": envelope(scheduled_at="2027-01-15T08:01:00Z")}, "identity"),
    "the id of another schedule": ({"event": envelope(schedule="hourly")}, "identity"),
    "no firing": ({"event": shifted(T0 + 1)}, "not-a-firing"),
    "a manual run of nothing": ({"event": '{"source":"relay.manual","app":"shop"}'}, "structure"),
    "a manual run of what cannot be a name": (
        {"event": '{"source":"relay.manual","app":"a|b","schedule":"\\ud800","scheduled_at":"x"}'},
        "structure",
    ),
    "a replay of nothing": ({"event": "{}", "replay": "", "app": APP, "slot": f"@{SCHEDULE}"}, "structure"),
    "a manual run at no time": ({"event": '{"source":"relay.manual","app":"shop","schedule":"x"}'}, "structure"),
}


@pytest.mark.parametrize("name", RAW)
def test_a_bad_entry_is_buried_once_and_good_ones_behind_it_run(desk: Desk, name: str) -> None:
    fields, reason = RAW[name]
    bad = desk.client.xadd(desk.keys.events, fields)
    good = desk.stream.emit('{"kind":"order"}')
    (dead, answer), (owed, placed) = take_in(desk)
    assert isinstance(dead, Dead)
    assert (dead.reason, answer) == (reason, ["dead"])
    assert isinstance(owed, Owed)
    assert placed == ["ready"]
    [letter] = desk.dead_letters()
    raw = fields.get("event", json.dumps(fields))
    assert (letter["message"], letter["reason"], letter["replayable"]) == (bad, reason, "0")
    assert letter["detail"]
    assert letter["size"] == str(len(raw.encode()))
    assert letter["head"] == raw[:1024]
    assert list(desk.entries()) == [good]
    assert desk.stream.take_unrouted("w2", idle_ms=0) == []
    assert desk.claimed(good, slot="orders.new").event == '{"kind":"order"}'


def test_bytes_that_are_no_text_stop_no_reader(desk: Desk) -> None:
    desk.client.xadd(desk.keys.events, {"event": b'{"kind":"\xff\xfe"}'})
    desk.client.xadd(desk.keys.events, {b"\xff": b"\xfe"})
    desk.stream.emit('{"kind":"order"}')
    first, second, third = take_in(desk)
    assert isinstance(first[0], Dead) and isinstance(second[0], Dead)
    assert [first[0].reason, second[0].reason] == ["not-utf8", "no-event-field"]
    assert third[1] == ["ready"]
    assert desk.dead_letters()[0]["head"] == '{"kind":"\ufffd\ufffd"}'
    assert desk.stream.backlog() == 1


@pytest.mark.parametrize("field", ["replay", "app", "slot"])
def test_a_forged_replay_in_bytes_that_are_no_text_stops_no_reader(desk: Desk, field: str) -> None:
    fields: dict[Any, Any] = {"event": "{}", "replay": "1-1", "app": APP, "slot": HANDLER} | {field: b"\xff"}
    desk.client.xadd(desk.keys.events, fields)
    good = desk.stream.emit('{"kind":"order"}')
    (dead, answer), (_, placed) = take_in(desk)
    assert isinstance(dead, Dead)
    assert (answer, placed, list(desk.entries())) == (["dead"], ["ready"], [good])


def test_unmatched_events_end_at_routing(desk: Desk) -> None:
    desk.stream.emit('{"kind":"invoice"}')
    [(_, answer)] = take_in(desk)
    assert answer == ["dropped"]
    assert (desk.stream.backlog(), desk.pending(), desk.dead_letters()) == (0, {}, [])


def test_a_sound_occurrence_and_a_sound_manual_run_are_owed(desk: Desk) -> None:
    desk.register("h1")
    desk.publish(T0)
    manual = {"source": "relay.manual", "app": APP, "schedule": SCHEDULE, "scheduled_at": "2027-01-15T08:00:00Z"}
    desk.stream.emit(json.dumps(manual))
    (first, placed), (second, also) = take_in(desk)
    assert (first.kind, first.occurrence, placed) == (Kind.SCHEDULE, occurrence(T0), ["ready"])
    assert (second.kind, also) == (Kind.MANUAL, ["ready"])
    assert [slot.text for _, _, slot in desk.invocations.due([(APP, 5)], T0_MS)] == ["@nightly", "!nightly"]


def test_a_forged_handler_chooses_nothing(desk: Desk) -> None:
    desk.register("h1")
    desk.stream.emit(envelope(handler="os.system"))
    [(routing, _)] = take_in(desk)
    assert isinstance(routing, Owed)
    assert routing.invocations[0][1].text == "@nightly"


def test_what_a_newer_peer_wrote_is_left_for_it(desk: Desk) -> None:
    routing = route_entry({"event": envelope(v=2)}, APPS, now=from_epoch(T0), max_bytes=MAX_BYTES, check=check)
    assert routing == ForNewer(version=2)


def test_the_largest_event_taken_and_one_byte_more(desk: Desk) -> None:
    def of_size(size: int) -> str:
        return '{"kind":"order","x":"' + "y" * (size - 23) + '"}'

    for size in (MAX_BYTES, MAX_BYTES + 1):
        text = of_size(size)
        assert len(text) == size
        desk.stream.emit(text)
    (first, _), (second, _) = take_in(desk)
    assert isinstance(first, Owed)
    assert isinstance(second, Dead)
    assert second.reason == "too-large"


def test_no_route_of_time_makes_a_firing_of_another_generation(desk: Desk) -> None:
    late = occurrence(epoch_seconds(from_epoch(T0) + timedelta(minutes=1)))
    assert check(late) is None
    assert "does not fire" in (check(occurrence(T0 + 30)) or "")
