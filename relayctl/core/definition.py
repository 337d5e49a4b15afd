"""What decides *when* a schedule fires, as the registry stores it: the spec, its hash, and generations in force.

Handler, timeout, retries, input, overlap, catch-up and jitter are not part of it: editing them moves no interval.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from relayctl.core.cron import EVALUATOR_VERSION, Cron, CronError, Every
from relayctl.core.model import Schedule
from relayctl.core.zones import zone_digest

SPEC_VERSION = 1
TOMBSTONE = "tombstone"
"""The hash of a removed schedule."""
_FOREVER = 1 << 62
_ENCODE = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What decides when a schedule fires; `text` is canonical JSON. Equal firings by equal rules have equal hashes."""

    text: str
    hash: str

    @classmethod
    def of(cls, schedule: Schedule) -> Spec:
        """The spec of a schedule as this worker's evaluator and zone data understand it."""
        document: dict[str, Any] = {"v": SPEC_VERSION, "enabled": schedule.enabled, "evaluator": EVALUATOR_VERSION}
        trigger = schedule.trigger
        if isinstance(trigger, Every):
            document["every"] = trigger.seconds
        else:
            document |= {
                "cron": trigger.canonical,
                "timezone": trigger.timezone,
                # Spelled out, so that it does not matter whether the canonical text still looks fixed.
                "dst": {
                    "gap": "run" if trigger.runs_in_gap else "skip",
                    "fold": "first" if trigger.fires_once_in_fold else "both",
                },
                "zone": zone_digest(trigger.timezone),
            }
        text = _ENCODE(document)
        return cls(text=text, hash=hashlib.blake2b(text.encode(), digest_size=8).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """What a stored spec means here. `is_comparable` is False where this worker's evaluator or zone data are others:
    it may then check identity, and must not publish.
    """

    trigger: Cron | Every | None
    is_comparable: bool

    @classmethod
    def from_spec(cls, text: str) -> Firing:
        """Read a spec; a tombstone, a disabled schedule and a newer version have no trigger. Equal texts share one."""
        return _firing(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One definition with the interval [`from_ms`, `to_ms`) in which it is in force; `to_ms` is None for the head."""

    gen: int
    hash: str
    spec: str
    from_ms: int
    to_ms: int | None = None

    def owes(self, after: int, until: int | None, firing: Firing) -> Iterator[int]:
        """The instants of this generation in (`after`, `until`], in epoch seconds, oldest first; None is no limit."""
        if firing.trigger is None:
            return
        first, last = self._bounds(after, until)
        at = firing.trigger.next_after_s(first)
        while at is not None and at <= last:
            yield at
            at = firing.trigger.next_after_s(at)

    def next_owed(self, after: int, until: int | None, firing: Firing) -> int | None:
        """The first instant of this generation in (`after`, `until`], in epoch seconds."""
        if firing.trigger is None:
            return None
        first, last = self._bounds(after, until)
        at = firing.trigger.next_after_s(first)
        return at if at is not None and at <= last else None

    def latest_owed(self, after: int, until: int, firing: Firing) -> int | None:
        """The last instant of this generation in (`after`, `until`], in epoch seconds."""
        if firing.trigger is None:
            return None
        first, last = self._bounds(after, until)
        at = firing.trigger.latest_at_or_before_s(last)
        return at if at is not None and at > first else None

    def clipped(self, after: int, until: int) -> tuple[int, int]:
        """(`after`, `until`] as far as it lies in this generation's interval, in epoch seconds."""
        return self._bounds(after, until)

    def _bounds(self, after: int, until: int | None) -> tuple[int, int]:
        # An instant belongs to the generation that is in force at its millisecond.
        first = max(after, -(-self.from_ms // 1000) - 1)
        last = _FOREVER if self.to_ms is None else -(-self.to_ms // 1000) - 1
        return first, last if until is None else min(last, until)


def is_newer_spec(text: str) -> bool:
    """Whether a newer relayctl wrote this spec, so that it says nothing here."""
    return bool(text) and json.loads(text)["v"] > SPEC_VERSION


@lru_cache(maxsize=16_384)
def _firing(text: str) -> Firing:
    if not text:
        return Firing(trigger=None, is_comparable=True)
    document = json.loads(text)
    if document["v"] > SPEC_VERSION:
        return Firing(trigger=None, is_comparable=False)
    is_comparable = document["evaluator"] == EVALUATOR_VERSION
    try:
        trigger = _trigger(document)
    except CronError:
        # A peer's zone data know a zone, or its evaluator a form, that these do not.
        return Firing(trigger=None, is_comparable=False)
    if isinstance(trigger, Cron):
        is_comparable = is_comparable and document["zone"] == zone_digest(document["timezone"])
    return Firing(trigger=trigger if document["enabled"] else None, is_comparable=is_comparable)


def _trigger(document: dict[str, Any]) -> Cron | Every:
    if "every" in document:
        return Every(seconds=document["every"])
    return Cron.parse(document["cron"], document["timezone"], document["dst"])
