"""What a stream entry is: an occurrence, a manual run, an event with the rules it matches, or nothing that can run.

Decides from the entry and a snapshot of the apps; the worker acts on it. A schedule claim never meets a pattern.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from relayctl.core.jsontext import parse_json
from relayctl.core.lifecycle import Kind, Slot
from relayctl.core.model import App
from relayctl.core.names import is_name
from relayctl.core.occurrence import (
    ENVELOPE_VERSION,
    MANUAL_SOURCE,
    VERDICT_SOURCE,
    InvalidClaim,
    NewerEnvelope,
    Occurrence,
    epoch_seconds,
    is_schedule_claim,
    judge_claim,
)

KEPT_OF_A_DEAD_EVENT = 1024
"""How much of an entry that cannot be used is kept with its dead letter, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """Nothing that can run: a dead letter that cannot be replayed."""

    reason: str
    detail: str
    size: int
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """An external event that no rule wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForNewer:
    """Written by a newer relayctl; left for a newer peer."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """Invocations owed for a message, as (app, slot); `replay` is the dead letter that the message stands for."""

    kind: Kind
    event: str
    invocations: tuple[tuple[str, Slot], ...]
    occurrence: Occurrence | None = None
    replay: str = ""


Routing = Dead | Unmatched | ForNewer | Owed

FiringCheck = Callable[[Occurrence], str | None]
"""Says why an occurrence is no firing of its generation, or None when it is one or cannot be judged here."""


def route_entry(
    fields: Mapping[str, str], apps: Mapping[str, App], *, now: datetime, max_bytes: int, check: FiringCheck
) -> Routing:
    """Classify one entry of the stream."""
    text = fields.get("event")
    if text is None:
        shown = json.dumps(dict(fields), ensure_ascii=False)
        return _dead("no-event-field", "the entry has no field named event", shown)
    size = len(text.encode(errors="surrogateescape"))
    if not _is_unicode(text):
        return _dead("not-utf8", "event holds bytes that are not UTF-8", text)
    if size > max_bytes:
        return _dead("too-large", f"{size} bytes, at most {max_bytes} are taken", text)
    event = _object(text)
    if event is None:
        return _dead("not-an-object", "event is not a JSON object", text)
    if "replay" in fields:
        return _replayed(fields, text)
    if is_schedule_claim(event):
        return _occurrence(event, text, check)
    if event.get("source") == MANUAL_SOURCE:
        return _manual(event, text)
    owed = tuple(
        (app.name, Slot(rule.contract.handler))
        for app in apps.values()
        for rule in app.events
        if rule.pattern.matches(event, now)
    )
    return Owed(kind=Kind.EVENT, event=text, invocations=owed) if owed else Unmatched()


def unclassified(fields: Mapping[str, str], detail: str) -> Dead:
    """What becomes of an entry that nobody could classify: no rule is known to be for it, and it holds up nobody."""
    return _dead("not-classified", detail, fields.get("event", ""))


def _replayed(fields: Mapping[str, str], text: str) -> Routing:
    """One invocation again. Its message was judged when it came first, and the broker knows which replays are real."""
    app, slot, letter = fields.get("app", ""), fields.get("slot", ""), fields["replay"]
    # Without a letter there is nothing to ask the broker for, and whoever writes the entry would choose what runs.
    if not (is_name(app) and slot and letter):
        return _dead("structure", "a replay names its app, slot and dead letter", text)
    if not (_is_unicode(slot) and _is_unicode(letter)):
        return _dead("not-utf8", "a replay names its slot and dead letter in bytes that are not UTF-8", text)
    found = Slot(slot)
    return Owed(kind=found.kind, event=text, invocations=((app, found),), replay=letter)


def _occurrence(event: Mapping[str, Any], text: str, check: FiringCheck) -> Routing:
    claim = judge_claim(event)
    if isinstance(claim, NewerEnvelope):
        return ForNewer(version=claim.version)
    if isinstance(claim, InvalidClaim):
        return _dead(claim.reason, claim.detail, text)
    objection = check(claim)
    if objection is not None:
        return _dead("not-a-firing", objection, text)
    slot = Slot.of_schedule(claim.schedule)
    return Owed(kind=Kind.SCHEDULE, event=text, invocations=((claim.app, slot),), occurrence=claim)


def _manual(event: Mapping[str, Any], text: str) -> Routing:
    version = event.get("v")
    if isinstance(version, int) and version > ENVELOPE_VERSION:
        return ForNewer(version=version)
    app, schedule = event.get("app"), event.get("schedule")
    if not (isinstance(app, str) and is_name(app) and isinstance(schedule, str) and is_name(schedule)):
        return _dead("structure", "a manual run names its app and schedule", text)
    if not isinstance(event.get("scheduled_at"), str):
        return _dead("structure", "a manual run says in scheduled_at when it was asked for", text)
    return Owed(kind=Kind.MANUAL, event=text, invocations=((app, Slot.of_manual(schedule)),))


def wants_verdicts(apps: Iterable[App]) -> bool:
    """Whether an event rule names `relay.verdict` among its sources; others do not have verdicts offered."""
    return any(_names_verdicts(rule.pattern.canonical) for app in apps for rule in app.events)


@lru_cache(maxsize=4096)
def _names_verdicts(pattern: str) -> bool:
    condition = json.loads(pattern).get("source")
    return isinstance(condition, list) and VERDICT_SOURCE in condition


def firing_objection(claim: Occurrence, is_firing: Callable[[int], bool]) -> str | None:
    """Why the claim's instant is no firing, in words."""
    at = epoch_seconds(claim.scheduled_at)
    if is_firing(at):
        return None
    return f"{claim.schedule} does not fire at that instant under generation {claim.gen}"


def _object(text: str) -> dict[str, Any] | None:
    try:
        document = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_unicode(text: str) -> bool:
    # The store keeps undecodable bytes as lone surrogates.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dead(reason: str, detail: str, text: str) -> Dead:
    raw = text.encode(errors="surrogateescape")
    head = raw[:KEPT_OF_A_DEAD_EVENT].decode(errors="replace")
    return Dead(reason=reason, detail=detail, size=len(raw), head=head)
