"""Identity of firings, their envelopes, and the judgement of claims."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from relayctl.core.occurrence import (
    InvalidClaim,
    NewerEnvelope,
    Occurrence,
    epoch_seconds,
    from_epoch,
    instant_from_text,
    instant_text,
    is_schedule_claim,
    judge_claim,
    occurrence_id,
)

AT = datetime(2026, 9, 29, 3, 0, tzinfo=UTC)
FIRING = Occurrence(app="shop", schedule="nightly", handler="jobs.run", scheduled_at=AT, gen=3)


def event(**changes: Any) -> dict[str, Any]:
    """The firing's envelope with changes; None takes a field out."""
    document = json.loads(FIRING.to_envelope()) | changes
    return {name: value for name, value in document.items() if value is not None}


def test_the_id_is_app_schedule_and_instant() -> None:
    assert FIRING.id == "schedule:shop:nightly:2026-09-29T03:00:00Z"
    assert FIRING.id == occurrence_id("shop", "nightly", AT)


def test_the_id_knows_no_zone_no_handler_and_no_generation() -> None:
    rome = AT.astimezone(timezone(timedelta(hours=2)))
    other = Occurrence(app="shop", schedule="nightly", handler="x.y", scheduled_at=rome, gen=9)
    assert other.id == FIRING.id


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (AT, "2026-09-29T03:00:00Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), "9999-12-31T23:59:59Z"),
        (datetime(2026, 9, 29, 5, 0, 7, tzinfo=timezone(timedelta(hours=2))), "2026-09-29T03:00:07Z"),
    ],
)
def test_an_instant_has_one_text(at: datetime, text: str) -> None:
    assert instant_text(at) == text
    assert instant_from_text(text) == at
    assert from_epoch(epoch_seconds(at)) == at


def test_a_fraction_of_a_second_is_no_occurrence() -> None:
    with pytest.raises(ValueError, match="fraction"):
        instant_text(AT + timedelta(microseconds=1))
    assert epoch_seconds(AT + timedelta(microseconds=999_999)) == epoch_seconds(AT)
    assert epoch_seconds(datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)) == -1


@pytest.mark.parametrize(
    "text",
    [
        "2026-09-29T03:00:00+00:00",
        "2026-09-29T03:00:00.000Z",
        "2026-09-29T03:00:00z",
        "2026-09-29t03:00:00Z",
        "2026-09-29 03:00:00Z",
        "2026-09-29T03:00Z",
        "2026-02-30T03:00:00Z",
        "2026-09-29T24:00:00Z",
        "2026-09-29T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "2026-09-29T03:00:00Z\n",
        " 2026-09-29T03:00:00Z",
        "٢٠٢٦-09-29T03:00:00Z",
        "",
    ],
)
def test_other_forms_of_an_instant_are_refused(text: str) -> None:
    assert instant_from_text(text) is None


def test_a_claim_that_is_sound_is_the_firing() -> None:
    assert is_schedule_claim(event())
    assert judge_claim(event()) == FIRING
    assert judge_claim(event(note="unknown fields are none of our business")) == FIRING


@pytest.mark.parametrize(
    "changes",
    [
        {name: value}
        for name in ("app", "schedule", "handler", "scheduled_at", "occurrence_id")
        for value in (None, "", 5, ["x"])
    ]
    + [{"gen": value} for value in (None, 0, -1, True, "1", 1.0)]
    + [{"v": value} for value in (None, 0, True, "1", 1.0)]
    + [{"scheduled_at": "2026-09-29T05:00:00+02:00"}]
    + [{"app": "Shop"}, {"app": "a|b"}, {"schedule": "\ud800"}, {"schedule": "x" * 64}],
)
def test_structure_comes_first(changes: dict[str, Any]) -> None:
    judged = judge_claim(event(**changes))
    assert isinstance(judged, InvalidClaim)
    assert judged.reason == "structure"
    assert next(iter(changes)) in judged.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"app": "mail"},
        {"schedule": "hourly"},
        {"scheduled_at": "2026-09-29T03:01:00Z"},
        {"occurrence_id": "schedule:shop:nightly:2026-09-29T03:00:00"},
    ],
)
def test_the_id_is_derived_again(changes: dict[str, Any]) -> None:
    judged = judge_claim(event(**changes))
    assert isinstance(judged, InvalidClaim)
    assert judged.reason == "identity"


def test_two_names_cannot_share_an_id_by_a_colon() -> None:
    judged = judge_claim(event(app="shop:nightly", schedule="x", occurrence_id="schedule:shop:nightly:x:" + "z"))
    assert isinstance(judged, InvalidClaim)
    assert "not a name" in judged.detail


def test_a_newer_envelope_is_not_judged() -> None:
    assert judge_claim({"v": 2, "source": "relay.schedule"}) == NewerEnvelope(version=2)


@pytest.mark.parametrize("source", ["relay.manual", "Relay.schedule", "relay.schedule ", None, 1])
def test_only_the_marker_makes_a_claim(source: object) -> None:
    assert not is_schedule_claim(event(source=source))


def test_the_payload_carries_the_input_and_nothing_of_ours() -> None:
    assert json.loads(FIRING.to_payload(None)) == {"source": "relay.schedule", "scheduled_at": "2026-09-29T03:00:00Z"}
    assert json.loads(FIRING.to_payload('{"deep":[1]}'))["input"] == {"deep": [1]}
