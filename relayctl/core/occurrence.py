"""One firing of a schedule: its id, the envelope that travels through the stream, and the judgement of a claim.

The id depends on the instant alone, never on the zone or the handler. A claim is never trusted: the id is derived
again, the instant must be a firing, and the envelope's handler never chooses what runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NewType

from relayctl.core.names import is_name, why_not_a_name

OccurrenceId = NewType("OccurrenceId", str)

SCHEDULE_SOURCE = "relay.schedule"
MANUAL_SOURCE = "relay.manual"
VERDICT_SOURCE = "relay.verdict"
"""The source of the events that tell of verdicts, where an event rule names it."""
ENVELOPE_VERSION = 1
_INSTANT = re.compile(r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})Z", re.ASCII)
_COMPACT = json.JSONEncoder(separators=(",", ":")).encode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def instant_text(at: datetime) -> str:
    """RFC 3339 in UTC at whole seconds, the only form an instant has in ids and envelopes."""
    at = at.astimezone(UTC)
    if at.microsecond:
        raise ValueError(f"an occurrence has no fraction of a second: {at.isoformat()}")
    return f"{at.year:04}-{at.month:02}-{at.day:02}T{at.hour:02}:{at.minute:02}:{at.second:02}Z"


def second_text(at: datetime) -> str:
    """The same of the second that an instant falls in, which need not be whole."""
    return instant_text(at.replace(microsecond=0))


def instant_from_text(text: str) -> datetime | None:
    """The instant of exactly that form, or None: offsets, fractions and lower case are refused."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    try:
        return datetime(*(int(part) for part in found.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]  # six ints
    except ValueError:
        return None


def epoch_seconds(at: datetime) -> int:
    """Whole seconds since 1970 of an instant, rounded down."""
    since = at - _EPOCH  # its microseconds are never negative, also before 1970
    return since.days * 86_400 + since.seconds


def from_epoch(seconds: int) -> datetime:
    """The instant of whole seconds since 1970; also before 1970 and far ahead, where the C library may refuse."""
    return _EPOCH + timedelta(seconds=seconds)


def occurrence_id(app: str, schedule: str, at: datetime) -> OccurrenceId:
    """`schedule:<app>:<schedule>:<instant>`."""
    return OccurrenceId(f"schedule:{app}:{schedule}:{instant_text(at)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A firing as it is published. `gen` is the generation of the definition that was in force at that instant.

    `by` and `marks` say who published it and how: they travel in the envelope, where whoever ends the firing has them
    at hand without asking for anything; the published set may have dropped the instant by then.
    """

    app: str
    schedule: str
    handler: str
    scheduled_at: datetime
    gen: int
    by: str = field(default="", compare=False)
    marks: tuple[str, ...] = field(default=(), compare=False)

    @property
    def id(self) -> OccurrenceId:
        """Its identity across the fleet."""
        return occurrence_id(self.app, self.schedule, self.scheduled_at)

    def to_envelope(self) -> str:
        """The JSON text of the stream entry's `event` field."""
        return _COMPACT(
            {
                "v": ENVELOPE_VERSION,
                "source": SCHEDULE_SOURCE,
                "app": self.app,
                "schedule": self.schedule,
                "handler": self.handler,
                "scheduled_at": instant_text(self.scheduled_at),
                "occurrence_id": self.id,
                "gen": self.gen,
                **({"by": self.by} if self.by else {}),
                **({"marks": list(self.marks)} if self.marks else {}),
            }
        )

    def to_payload(self, schedule_input: str | None) -> str:
        """The JSON text that the handler gets, with the schedule's `input` (JSON text) where it declares one."""
        payload: dict[str, Any] = {
            "source": SCHEDULE_SOURCE,
            "scheduled_at": instant_text(self.scheduled_at),
        }
        if schedule_input is not None:
            payload["input"] = json.loads(schedule_input)
        return _COMPACT(payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidClaim:
    """Why a message that claims to be an occurrence is none; `reason` is a stable word, `detail` is for people."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerEnvelope:
    """The envelope has a higher version: it is left for a newer peer."""

    version: int


def is_schedule_claim(event: Mapping[str, Any]) -> bool:
    """Whether the event carries the marker of the schedule path; such an event never meets a pattern."""
    return event.get("source") == SCHEDULE_SOURCE


def judge_claim(event: Mapping[str, Any]) -> Occurrence | InvalidClaim | NewerEnvelope:
    """Structure and identity of a schedule envelope. Whether the instant is a firing is asked of its generation."""
    version = event.get("v")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        return InvalidClaim(reason="structure", detail="v is not a whole number from 1 up")
    if version > ENVELOPE_VERSION:
        return NewerEnvelope(version=version)
    for name in ("app", "schedule", "handler", "scheduled_at", "occurrence_id"):
        value = event.get(name)
        if not isinstance(value, str) or not value:
            return InvalidClaim(reason="structure", detail=f"{name} is missing or not a text")
    for name in ("app", "schedule"):
        # Ids and keys join names by colons: two claims must not share one.
        if not is_name(event[name]):
            return InvalidClaim(reason="structure", detail=f"{name} is not a name: {why_not_a_name(event[name])}")
    gen = event.get("gen")
    if isinstance(gen, bool) or not isinstance(gen, int) or gen < 1:
        return InvalidClaim(reason="structure", detail="gen is not a whole number from 1 up")
    at = instant_from_text(event["scheduled_at"])
    if at is None:
        return InvalidClaim(reason="structure", detail="scheduled_at is not of the form 2026-09-29T03:00:00Z")
    claim = Occurrence(app=event["app"], schedule=event["schedule"], handler=event["handler"], scheduled_at=at, gen=gen)
    if claim.id != event["occurrence_id"]:
        return InvalidClaim(reason="identity", detail=f"occurrence_id is not the one of its fields, {claim.id}")
    return claim
