"""What a stream entry turns out to be."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from relayctl.core.cron import Every
from relayctl.core.lifecycle import Kind, Slot
from relayctl.core.model import App, Contract, EventRule, Schedule
from relayctl.core.names import AppName, ScheduleName
from relayctl.core.occurrence import Occurrence
from relayctl.core.pattern import Pattern
from relayctl.core.routing import (
    KEPT_OF_A_DEAD_EVENT,
    Dead,
    ForNewer,
    Owed,
    Routing,
    Unmatched,
    firing_objection,
    route_entry,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 9, 29, 3, 0, tzinfo=UTC)
FIRING = Occurrence(app="shop", schedule="nightly", handler="jobs.run", scheduled_at=NOW, gen=3)
LIMIT = 4096


def app(name: str, *rules: tuple[str, dict[str, Any]]) -> App:
    return App(
        name=AppName(name),
        events=tuple(EventRule(pattern=Pattern.from_json(p), contract=Contract(handler=h)) for h, p in rules),
        schedules=(
            Schedule(name=ScheduleName("nightly"), trigger=Every(seconds=60), contract=Contract(handler="jobs.run")),
        ),
    )


APPS = {
    "shop": app("shop", ("orders.new", {"kind": ["order"]}), ("orders.any", {"kind": [{"exists": True}]})),
    "mail": app("mail", ("orders.new", {"kind": ["order"]}), ("greedy.all", {"source": [{"exists": True}]})),
}


def route(
    event: object, *, check: Callable[[Occurrence], str | None] = lambda _: None, max_bytes: int = LIMIT
) -> Routing:
    text = event if isinstance(event, str) else json.dumps(event)
    return route_entry({"event": text}, APPS, now=NOW, max_bytes=max_bytes, check=check)


def test_every_rule_that_matches_owes_an_invocation() -> None:
    found = route({"kind": "order"})
    assert isinstance(found, Owed)
    assert found.kind is Kind.EVENT
    assert found.invocations == (
        ("shop", Slot("orders.new")),
        ("shop", Slot("orders.any")),
        ("mail", Slot("orders.new")),
    )
    assert found.event == '{"kind": "order"}'


def test_no_rule_no_work() -> None:
    assert route({"what": 1}) == Unmatched()
    assert route({}) == Unmatched()


def test_a_sound_claim_is_owed_by_its_schedule_and_meets_no_pattern() -> None:
    found = route(FIRING.to_envelope())
    assert isinstance(found, Owed)
    assert found.kind is Kind.SCHEDULE
    assert found.invocations == (("shop", Slot("@nightly")),)
    assert found.occurrence == FIRING


def test_an_app_nobody_has_here_is_still_owed() -> None:
    claim = Occurrence(app="other", schedule="x", handler="a.b", scheduled_at=NOW, gen=1)
    found = route(claim.to_envelope())
    assert isinstance(found, Owed)
    assert found.invocations == (("other", Slot("@x")),)


def test_an_instant_that_is_no_firing() -> None:
    asked: list[int] = []

    def is_firing(at: int) -> bool:
        asked.append(at)
        return False

    found = route(FIRING.to_envelope(), check=lambda claim: firing_objection(claim, is_firing))
    assert isinstance(found, Dead)
    assert found.reason == "not-a-firing"
    assert "nightly" in found.detail and "3" in found.detail
    assert asked == [1_790_650_800]
    assert firing_objection(FIRING, lambda _: True) is None


def test_the_generation_is_asked_only_of_sound_claims() -> None:
    def check(_: Occurrence) -> str:
        raise AssertionError("asked")

    event = json.loads(FIRING.to_envelope()) | {"occurrence_id": "x"}
    found = route(event, check=check)
    assert isinstance(found, Dead)
    assert found.reason == "identity"


def test_a_newer_peers_envelope_is_left_alone() -> None:
    assert route({"source": "relay.schedule", "v": 7}) == ForNewer(version=7)


def test_a_manual_run() -> None:
    event = {"source": "relay.manual", "app": "shop", "schedule": "nightly", "scheduled_at": "2026-09-29T03:00:00Z"}
    found = route(event)
    assert isinstance(found, Owed)
    assert found.kind is Kind.MANUAL
    assert found.invocations == (("shop", Slot("!nightly")),)


@pytest.mark.parametrize(
    "changes",
    [{"app": None}, {"app": ""}, {"schedule": 5}, {"app": "a|b"}, {"schedule": "\ud800"}, {"scheduled_at": None}],
)
def test_a_manual_run_that_names_nothing(changes: dict[str, Any]) -> None:
    sound = {"source": "relay.manual", "app": "shop", "schedule": "nightly", "scheduled_at": "2026-09-29T03:00:00Z"}
    found = route(sound | changes)
    assert isinstance(found, Dead)
    assert found.reason == "structure"


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "null", "[]", '"x"', "1", "{} {}", '{"a": NaN}', '{"a": -Infinity}', '{"n":' + "9" * 5000 + "}"],
)
def test_what_is_not_a_json_object(text: str) -> None:
    found = route(text, max_bytes=10_000)
    assert isinstance(found, Dead)
    assert (found.reason, found.size, found.head) == ("not-an-object", len(text), text[:1024])


def test_an_entry_without_the_event_field() -> None:
    found = route_entry({"evnt": "ü", "b": "2"}, APPS, now=NOW, max_bytes=LIMIT, check=lambda _: None)
    assert isinstance(found, Dead)
    assert found.reason == "no-event-field"
    assert json.loads(found.head) == {"evnt": "ü", "b": "2"}
    empty = route_entry({}, APPS, now=NOW, max_bytes=LIMIT, check=lambda _: None)
    assert isinstance(empty, Dead)


def test_size_is_counted_in_bytes_and_the_head_is_kept() -> None:
    text = '{"kind":"order","x":"' + "ü" * 2037 + '"}'
    assert len(text.encode()) == LIMIT + 1
    found = route(text)
    assert isinstance(found, Dead)
    assert (found.reason, found.size) == ("too-large", LIMIT + 1)
    assert len(found.head.encode()) <= KEPT_OF_A_DEAD_EVENT + 2, "a cut letter is replaced"
    assert isinstance(route(text[:-3] + '"}'), Owed)


@pytest.mark.parametrize("size", [0, LIMIT])
def test_bytes_that_are_no_utf8_are_told_apart_and_shown_harmlessly(size: int) -> None:
    text = b'{"kind":"\xff\xfe"}'.decode(errors="surrogateescape") + " " * size
    found = route(text)
    assert isinstance(found, Dead)
    assert found.reason == "not-utf8"
    assert found.head.startswith('{"kind":"\ufffd\ufffd"}')
    assert found.size == 13 + size
    found.head.encode()


def test_a_lone_surrogate_written_as_an_escape_is_an_ordinary_event() -> None:
    assert isinstance(route('{"kind":"\\ud800"}'), Owed)
