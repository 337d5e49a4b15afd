"""How an invocation is run and how it ends: slots, the descriptor pinned at admission, claims, and verdicts.

The transitions themselves are the Lua steps of `store`; here are the values they carry and the decisions around them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from relayctl.core.model import EventRule, Schedule
from relayctl.core.timing import backoff_after

DESCRIPTOR_VERSION = 1
INVOCATION_VERSION = 1
"""Of the hash that a message's invocations live in; the steps in `store.scripts` have the same."""


class Kind(Enum):
    """What a message is."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    EVENT = "event"


class Verdict(Enum):
    """How an expected firing ended; exactly one each."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    COALESCED = "coalesced"
    OBSOLETE = "obsolete"
    PAUSED = "paused"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Slot:
    """Which invocation of a message: an event rule's handler, or a schedule, whose handler is decided at admission.

    Its text is `@<schedule>`, `!<schedule>` for a manual run, or the handler itself.
    """

    text: str

    @classmethod
    def of_schedule(cls, schedule: str) -> Slot:
        """The slot of an occurrence."""
        return cls("@" + schedule)

    @classmethod
    def of_manual(cls, schedule: str) -> Slot:
        """The slot of a manual run."""
        return cls("!" + schedule)

    @property
    def schedule(self) -> str | None:
        """The schedule meant, or None for an event rule's handler."""
        return self.text[1:] if self.text[0] in "@!" else None

    @property
    def kind(self) -> Kind:
        """What kind of message owes it."""
        return {"@": Kind.SCHEDULE, "!": Kind.MANUAL}.get(self.text[0], Kind.EVENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """The execution contract of one invocation, pinned by its first claim. Times in milliseconds.

    `timeout_from` says which of template, default and cap decided the timeout; `revision` is information only.
    """

    app: str
    schedule: str | None
    handler: str
    timeout_ms: int
    timeout_from: str
    retries: int
    backoff_ms: tuple[int, ...]
    input: str | None
    overlap: str
    revision: str

    def to_json(self) -> str:
        """The text pinned in the broker."""
        document: dict[str, Any] = {"v": DESCRIPTOR_VERSION}
        document |= {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Descriptor:
        """Read a pinned text; ValueError when it is damaged or of a higher version."""
        document = json.loads(text)
        if not isinstance(document, dict) or document.pop("v", None) != DESCRIPTOR_VERSION:
            raise ValueError("not a descriptor of this version")
        try:
            return cls(**document | {"backoff_ms": tuple(document["backoff_ms"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a whole descriptor: {error}") from error

    @property
    def attempts(self) -> int:
        """All attempts allowed."""
        return self.retries + 1

    def wait_after(self, attempt: int) -> int | None:
        """Milliseconds to wait after the failure of `attempt`, or None when none is left."""
        if attempt > self.retries:
            return None
        wait = backoff_after(attempt, [timedelta(milliseconds=ms) for ms in self.backoff_ms])
        return wait // timedelta(milliseconds=1)


def descriptor_of(app: str, item: Schedule | EventRule, *, cap: timedelta, revision: str) -> Descriptor:
    """What a claim made now would pin for this schedule or event rule; `cap` is the worker's longest timeout."""
    contract = item.contract
    millisecond = timedelta(milliseconds=1)
    own = "template" if contract.has_own_timeout else "default"
    return Descriptor(
        app=app,
        schedule=item.name if isinstance(item, Schedule) else None,
        handler=contract.handler,
        timeout_ms=min(contract.timeout, cap) // millisecond,
        timeout_from="cap" if contract.timeout > cap else own,
        retries=contract.retries,
        backoff_ms=tuple(wait // millisecond for wait in contract.backoff),
        input=item.input if isinstance(item, Schedule) else None,
        overlap=item.overlap.value if isinstance(item, Schedule) else "allow",
        revision=revision,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One admitted attempt, held by this worker under `token` for as long as its lease is renewed."""

    message: str
    app: str
    slot: Slot
    token: str
    attempt: int
    descriptor: Descriptor
    event: str

    @property
    def key(self) -> str:
        """What names it in this process; the same invocation, lost and claimed again here, is another claim."""
        return f"{self.app}|{self.message}|{self.slot.text}|{self.token}"

    @property
    def scheduled_at(self) -> str:
        """The instant of an occurrence as text; empty for anything else."""
        if self.slot.kind is not Kind.SCHEDULE:
            return ""
        return str(json.loads(self.event)["scheduled_at"])

    @property
    def occurrence(self) -> tuple[str, str] | None:
        """The id of a firing or a manual run, and when it was due or asked for; None for an event."""
        if self.slot.kind is Kind.EVENT:
            return None
        envelope = json.loads(self.event)
        return str(envelope.get("occurrence_id", "")), str(envelope["scheduled_at"])

    def payload(self) -> str:
        """The JSON text for the handler: an external event as it came, an occurrence without our envelope's fields."""
        if self.slot.kind is Kind.EVENT:
            return self.event
        envelope = json.loads(self.event)
        document: dict[str, Any] = {name: envelope[name] for name in ("source", "scheduled_at") if name in envelope}
        if self.descriptor.input is not None:
            document["input"] = json.loads(self.descriptor.input)
        return json.dumps(document, separators=(",", ":"))


def run_variables(
    *,
    app: str,
    handler: str,
    attempt: int,
    message: str,
    deadline: str,
    schedule: str | None,
    firing: tuple[str, str] | None,
) -> dict[str, str]:
    """The RELAY_* variables of one run; `deadline` is RFC 3339, `firing` the id and the instant of an occurrence."""
    found = {
        "RELAY_APP": app,
        "RELAY_HANDLER": handler,
        "RELAY_ATTEMPT": str(attempt),
        "RELAY_MESSAGE_ID": message,
        "RELAY_DEADLINE": deadline,
    }
    if schedule is not None:
        found["RELAY_SCHEDULE"] = schedule
    if firing is not None:
        found["RELAY_OCCURRENCE_ID"], found["RELAY_SCHEDULED_AT"] = firing
    return found
