"""Slots, descriptors and the payload of a claim."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from relayctl.core.cron import Every
from relayctl.core.lifecycle import Claim, Descriptor, Kind, Slot, descriptor_of
from relayctl.core.model import Contract, EventRule, Overlap, Schedule
from relayctl.core.names import ScheduleName
from relayctl.core.pattern import Pattern

HOUR = timedelta(hours=1)
RULE = EventRule(pattern=Pattern.from_json({"kind": ["order"]}), contract=Contract(handler="orders.new"))
NIGHTLY = Schedule(
    name=ScheduleName("nightly"),
    trigger=Every(seconds=60),
    contract=Contract(handler="jobs.run", timeout=timedelta(seconds=20), retries=2, has_own_timeout=True),
    overlap=Overlap.SKIP,
    input='{"a":1}',
)
PINNED = descriptor_of("shop", NIGHTLY, cap=HOUR, revision="r1")


@pytest.mark.parametrize(
    ("slot", "schedule", "kind"),
    [
        (Slot.of_schedule("nightly"), "nightly", Kind.SCHEDULE),
        (Slot.of_manual("nightly"), "nightly", Kind.MANUAL),
        (Slot("jobs.run"), None, Kind.EVENT),
        (Slot("bin/run.sh"), None, Kind.EVENT),
    ],
)
def test_a_slot_tells_what_owes_it(slot: Slot, schedule: str | None, kind: Kind) -> None:
    assert (slot.schedule, slot.kind) == (schedule, kind)
    assert Slot(slot.text) == slot


def test_a_schedules_descriptor() -> None:
    assert (
        Descriptor(
            app="shop",
            schedule="nightly",
            handler="jobs.run",
            timeout_ms=20_000,
            timeout_from="template",
            retries=2,
            backoff_ms=(60_000, 120_000, 300_000, 600_000),
            input='{"a":1}',
            overlap="skip",
            revision="r1",
        )
        == PINNED
    )
    assert PINNED.attempts == 3


def test_a_rules_descriptor_has_defaults() -> None:
    pinned = descriptor_of("shop", RULE, cap=HOUR, revision="r1")
    assert (pinned.schedule, pinned.input, pinned.overlap) == (None, None, "allow")
    assert (pinned.timeout_ms, pinned.timeout_from, pinned.attempts) == (6000, "default", 5)


@pytest.mark.parametrize(
    ("cap_s", "timeout_ms", "source"), [(19, 19_000, "cap"), (20, 20_000, "template"), (21, 20_000, "template")]
)
def test_the_cap_decides_only_below_the_template(cap_s: int, timeout_ms: int, source: str) -> None:
    pinned = descriptor_of("shop", NIGHTLY, cap=timedelta(seconds=cap_s), revision="r1")
    assert (pinned.timeout_ms, pinned.timeout_from) == (timeout_ms, source)


def test_a_descriptor_comes_back_from_its_text() -> None:
    assert Descriptor.from_json(PINNED.to_json()) == PINNED
    assert json.loads(PINNED.to_json())["v"] == 1


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"v":2}', '{"v":1}', '{"v":1,"backoff_ms":[]}', '{"v":1,"backoff_ms":null}']
)
def test_a_descriptor_that_is_damaged_or_newer(text: str) -> None:
    with pytest.raises(ValueError):
        Descriptor.from_json(text)


def test_waits_end_with_the_budget() -> None:
    pinned = replace(PINNED, retries=5, backoff_ms=(10, 20))
    assert [pinned.wait_after(attempt) for attempt in range(1, 8)] == [10, 20, 20, 20, 20, None, None]
    assert replace(PINNED, retries=0).wait_after(1) is None
    assert replace(PINNED, backoff_ms=()).wait_after(1) == 0


def claim(slot: str, event: str, descriptor: Descriptor = PINNED) -> Claim:
    return Claim(message="1-0", app="shop", slot=Slot(slot), token="t", attempt=1, descriptor=descriptor, event=event)


def test_an_invocation_that_is_claimed_again_is_another_claim() -> None:
    lost = claim("@nightly", "{}")
    assert lost.key != replace(lost, token="u", attempt=2).key


def test_an_external_event_reaches_the_handler_as_it_came() -> None:
    assert claim("jobs.run", '{ "a":1 ,"a":2}').payload() == '{ "a":1 ,"a":2}'


@pytest.mark.parametrize(("slot", "source"), [("@nightly", "relay.schedule"), ("!nightly", "relay.manual")])
def test_an_occurrence_reaches_the_handler_with_the_pinned_input(slot: str, source: str) -> None:
    event = json.dumps({"source": source, "scheduled_at": "2026-09-29T03:00:00Z", "gen": 3, "handler": "x.y"})
    expected = {"source": source, "scheduled_at": "2026-09-29T03:00:00Z"}
    assert json.loads(claim(slot, event).payload()) == expected | {"input": {"a": 1}}
    assert json.loads(claim(slot, event, replace(PINNED, input=None)).payload()) == expected


def test_the_key_of_a_claim_names_app_message_slot_and_token() -> None:
    assert claim("@nightly", "{}").key == "shop|1-0|@nightly|t"
