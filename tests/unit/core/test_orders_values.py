"""Values of operators' orders: the envelope of a manual run, dead letters as they are read, and their filters."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relayctl.core.deadletter import LetterFilter, letter_of
from relayctl.core.lifecycle import Kind, Slot
from relayctl.core.manual import ManualRun, is_manual_key
from relayctl.core.occurrence import instant_from_text
from relayctl.core.routing import Dead, Owed, route_entry
from relayctl.core.running import RunningSchedule

AT = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
RUN = ManualRun(app="billing", schedule="nightly", key="k1", asked_at=AT, by="ann@desk")


def route(**fields: str) -> object:
    return route_entry(fields, {}, now=AT, max_bytes=1000, check=lambda _claim: "never a firing")


def test_a_manual_run_is_routed_as_one_and_asked_for_no_firing() -> None:
    routing = route(event=RUN.to_envelope())
    assert isinstance(routing, Owed)
    assert (routing.kind, routing.invocations) == (Kind.MANUAL, (("billing", Slot("!nightly")),))
    envelope = json.loads(RUN.to_envelope())
    assert envelope["occurrence_id"] == RUN.id == "manual:billing:nightly:k1"
    assert instant_from_text(envelope["scheduled_at"]) == AT


@pytest.mark.parametrize("key", ["a", "A.b_c-9", "x" * 64])
def test_keys_that_are_taken(key: str) -> None:
    assert is_manual_key(key)


@pytest.mark.parametrize("key", ["", "a:b", "a b", "-a", "x" * 65, "ä", "a\n"])
def test_keys_that_are_refused(key: str) -> None:
    assert not is_manual_key(key)


def test_a_replay_goes_to_its_one_invocation_whatever_the_patterns_say() -> None:
    routing = route(event='{"a":1}', replay="1-1", app="crm", slot="h.one")
    assert isinstance(routing, Owed)
    assert (routing.replay, routing.kind, routing.invocations) == ("1-1", Kind.EVENT, (("crm", Slot("h.one")),))
    assert isinstance(route(event='{"a":1}', replay="1-1", app="no/name", slot="h"), Dead)
    assert isinstance(route(event='{"a":1}', replay="1-1", app="crm"), Dead)
    assert isinstance(route(event="[]", replay="1-1", app="crm", slot="h"), Dead)


def test_a_damaged_letter_can_still_be_looked_at() -> None:
    letter = letter_of("rubbish", {"attempts": "many", "v": "x", "size": "-1"})
    assert (letter.attempts, letter.version, letter.target, letter.is_replayable) == (0, 0, "", False)


def test_filters() -> None:
    fields = {"v": "1", "app": "crm", "slot": "@sync", "handler": "jobs.sync", "reason": "lost"}
    letter = letter_of(f"{int(AT.timestamp() * 1000)}-0", fields)
    assert letter.target == "crm/sync"
    fitting = LetterFilter(app="crm", schedule="sync", handler="jobs.sync", reason="lost", since=AT)
    assert fitting.accepts(letter)
    later = AT + timedelta(seconds=1)
    for change in ({"app": "x"}, {"schedule": "x"}, {"handler": "x"}, {"reason": "x"}, {"since": later}):
        assert not replace(fitting, **change).accepts(letter)  # type: ignore[arg-type]


def test_what_is_said_of_a_pause() -> None:
    plain = RunningSchedule(hash="h", spec="{}")
    assert plain.pause_note == ""
    paused = replace(plain, paused_at=AT)
    assert paused.pause_note == ""
    named = replace(paused, paused_by="ann@desk", pause_reason="INC-1", paused_until=AT)
    assert named.pause_note == "by ann@desk: INC-1, until 2026-09-29 10:15:00Z"
    assert replace(named, pause_reason="", paused_until=None).pause_note == "by ann@desk"
    assert replace(named, paused_by="").pause_note == "INC-1, until 2026-09-29 10:15:00Z"
