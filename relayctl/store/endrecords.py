"""What is written of an end, as flat fields: history records and dead letters.

It writes nothing: the scripts do, in the step that ends the invocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from relayctl.core.deadletter import DEAD_LETTER_VERSION
from relayctl.core.record import RECORD_VERSION

if TYPE_CHECKING:
    from relayctl.core.lifecycle import Claim, Slot
    from relayctl.store.invocations import Attempt


def end_record(claim: Claim, attempt: Attempt) -> tuple[str, ...]:
    """The history record of an attempt with which an invocation ended."""
    return (
        *("v", str(RECORD_VERSION), "message", claim.message, "kind", claim.slot.kind.value),
        *("handler", claim.descriptor.handler, "scheduled_at", claim.scheduled_at),
        *("attempts", str(claim.attempt), "of", str(claim.descriptor.attempts)),
        *("started", str(attempt.started_ms), "finished", str(attempt.finished_ms)),
        *("verdict", attempt.outcome, "reason", attempt.reason, "exit", attempt.exit, "worker", attempt.worker),
    )


def exhausted_letter(claim: Claim, attempt: Attempt) -> tuple[str, ...]:
    """The dead letter of an invocation whose attempts are used up; the step adds the event."""
    return (
        *("v", str(DEAD_LETTER_VERSION), "app", claim.app, "slot", claim.slot.text, "message", claim.message),
        *("handler", claim.descriptor.handler, "scheduled_at", claim.scheduled_at),
        *("reason", "exhausted", "detail", attempt.reason, "attempts", str(claim.attempt)),
        *("descriptor", claim.descriptor.to_json(), "worker", attempt.worker, "replayable", "1"),
    )


def obsolete_record(message: str) -> tuple[str, ...]:
    """The history record of an occurrence whose schedule was removed before anybody admitted it."""
    return (
        *("v", str(RECORD_VERSION), "message", message, "verdict", "obsolete"),
        *("reason", "the schedule was removed before the occurrence was admitted"),
    )


def dead_entry(reason: str, detail: str, size: int, head: str, message: str) -> tuple[str, ...]:
    """The dead letter of an entry that can never run: a summary, not replayable."""
    return (
        *("v", str(DEAD_LETTER_VERSION), "message", message, "reason", reason, "detail", detail),
        *("size", str(size), "head", head, "replayable", "0"),
    )


def surrendered_letter(app: str, message: str, slot: Slot, reason: str, detail: str) -> tuple[str, ...]:
    """The dead letter of an invocation that ended without a worker; the step adds contract and event."""
    return (
        *("v", str(DEAD_LETTER_VERSION), "app", app, "slot", slot.text, "message", message),
        *("reason", reason, "detail", detail, "replayable", "1"),
    )


def surrendered_record(message: str, slot: Slot, reason: str, by: str) -> tuple[str, ...]:
    """The history record of the same."""
    return (
        *("v", str(RECORD_VERSION), "message", message, "kind", slot.kind.value),
        *("verdict", "failed", "reason", reason, "worker", by),
    )
