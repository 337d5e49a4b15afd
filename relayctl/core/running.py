"""What a fleet runs, as its workers report it and its registry has it, and the one description that stands for it.

Values only: asking the fleet is the business of `api`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from relayctl.core.definition import TOMBSTONE
from relayctl.core.description import Description, Fields
from relayctl.core.duration import DurationError, format_duration, parse_duration

Name = tuple[str, str]
"""App and schedule."""
WHEN = frozenset({"cron", "every", "timezone", "dst", "enabled", "hash", "spec"})
"""The fields of a schedule that say when it fires; the registry knows these and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenApp:
    """An app whose newest template has errors: the first of them, and since when (RFC 3339, empty if not known)."""

    app: str
    place: str
    problem: str
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """How the last ended firing went; `scheduled_at` is its instant as text, `took_ms` that of its last attempt."""

    verdict: str
    reason: str
    scheduled_at: str
    attempts: int
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSchedule:
    """What the broker says of one schedule: its definition in force since `from_ms`, and the last instant
    that was published or closed.

    `refusals` counts publications in a row that no retry can cure, `last_error` says what became of the last of them.
    `settled_until` is in epoch seconds, None before the first. `waiting` counts unclaimed occurrences, `in_flight`
    claimed runs, those by hand too.
    """

    hash: str
    spec: str
    from_ms: int = 0
    settled_until: int | None = None
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    paused_by: str = ""
    pause_reason: str = ""
    waiting: int = 0
    in_flight: int = 0
    last: LastRun | None = None
    refusals: int = 0
    last_error: str = ""
    moved_to: str = ""
    """The name, as app/schedule, under which a removed one goes on."""

    @property
    def pause_note(self) -> str:
        """Who paused it, why, and until when, as far as that is known; empty where it is not paused."""
        if self.paused_at is None:
            return ""
        by = f"by {self.paused_by}" if self.paused_by else ""
        because = ": ".join(part for part in (by, self.pause_reason) if part)
        until = f"until {self.paused_until:%Y-%m-%d %H:%M:%S}Z" if self.paused_until else ""
        return ", ".join(part for part in (because, until) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What runs: by live worker the apps it reports, and the registry's schedules by (app, name).

    `partial` are the workers that are for some apps only: what they do not report means nothing. `cap` is the longest
    timeout that all of them grant, None where none is known. `handlers_in_flight` counts the claimed runs of event
    rules by (app, handler).
    """

    workers: Mapping[str, Mapping[str, Description]]
    registry: Mapping[Name, RunningSchedule]
    partial: frozenset[str] = frozenset()
    cap: timedelta | None = None
    handlers_in_flight: Mapping[Name, int] = field(default_factory=dict)

    @property
    def is_reported(self) -> bool:
        """Whether any live worker has said what it runs; one that has just started has not."""
        return any(self.workers.values())

    def capped(self, timeout: str | None) -> timedelta | None:
        """What a handler is granted of this timeout where it is less, else None."""
        if self.cap is None or timeout is None:
            return None
        try:
            return self.cap if parse_duration(timeout) > self.cap else None
        except DurationError:
            return None

    def is_paused(self, app: str, schedule: str) -> bool:
        """Whether an operator paused it."""
        entry = self.registry.get((app, schedule))
        return entry is not None and entry.paused_at is not None


def baseline(running: Running) -> dict[str, Description]:
    """One description per app: what most live workers report; without any report, what the registry knows.

    Where workers and registry differ on when a schedule fires, the registry's head is what fires.
    """
    if not running.is_reported:
        return _registered(running)
    reports: dict[str, list[Description]] = {}
    for worker in sorted(running.workers):
        for app, description in running.workers[worker].items():
            reports.setdefault(app, []).append(description)
    return {app: _in_force(app, _agreed(app, found, running), running) for app, found in reports.items()}


def _agreed(app: str, found: list[Description], running: Running) -> Description:
    """The most frequent; among equals the one that the registry agrees with most."""
    if len(found) == 1:
        return found[0]

    def weight(item: Description) -> tuple[int, int, str]:
        held = sum(1 for name, fields in item.schedules.items() if _is_head(app, name, fields, running))
        return sum(1 for other in found if other == item), held, item.revision

    return max(found, key=weight)


def _is_head(app: str, name: str, fields: Fields, running: Running) -> bool:
    entry = running.registry.get((app, name))
    return entry is not None and entry.hash == fields["hash"]


def _in_force(app: str, reported: Description, running: Running) -> Description:
    schedules = dict(reported.schedules)
    for name, fields in reported.schedules.items():
        entry = running.registry.get((app, name))
        if entry is not None and entry.hash not in {fields["hash"], TOMBSTONE}:
            kept = {key: value for key, value in fields.items() if key not in WHEN}
            schedules[name] = {**_when(entry), **kept}
    return Description(
        revision=reported.revision,
        settings=reported.settings,
        schedules=schedules,
        events=reported.events,
        services=reported.services,
    )


def _registered(running: Running) -> dict[str, Description]:
    apps: dict[str, dict[str, Fields]] = {}
    for (app, name), entry in running.registry.items():
        if entry.hash != TOMBSTONE:
            apps.setdefault(app, {})[name] = _when(entry)
    return {
        app: Description(revision="", settings={}, schedules=schedules, events={}, services={})
        for app, schedules in apps.items()
    }


def _when(entry: RunningSchedule) -> dict[str, str]:
    """What the registry knows of a schedule: when it fires, not what it runs."""
    document = json.loads(entry.spec)
    fields = {name: str(document[name]) for name in ("cron", "timezone") if name in document}
    if "every" in document:
        fields["every"] = format_duration(timedelta(seconds=document["every"]))
    enabled = "true" if document.get("enabled", True) else "false"
    return {**fields, "enabled": enabled, "hash": entry.hash, "spec": entry.spec}
