"""How each schedule of the fleet stands: is what runs what should run, and does it do its work. Judges, asks nothing.

Two separate questions: `sync` compares definitions, `health` looks at firings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from relayctl.core.cron import Cron, Every
from relayctl.core.definition import TOMBSTONE, Firing
from relayctl.core.description import Fields
from relayctl.core.duration import DurationError, parse_duration
from relayctl.core.occurrence import epoch_seconds
from relayctl.core.running import BrokenApp, Running, RunningSchedule

GRACE = timedelta(seconds=60)
"""How long after its instant a firing may be unaccounted for before it counts as overdue."""


class Sync(Enum):
    """Whether what runs is what should run."""

    SYNCED = "Synced"
    OUT_OF_SYNC = "Out of sync"
    HELD = "Held"  # the template is broken, so the last good one runs
    UNKNOWN = "Unknown"  # no live worker has it


class Health(Enum):
    """Whether a schedule does its work."""

    HEALTHY = "Healthy"
    FAILING = "Failing"  # its last run failed for good, no firing can be published, or no worker has its secrets
    OVERDUE = "Overdue"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One schedule of the fleet. `detail` says what is odd, in a few words."""

    app: str
    schedule: str
    sync: Sync
    health: Health
    next_at: datetime | None
    waiting: int
    detail: str = ""

    @property
    def name(self) -> str:
        """`app/schedule`."""
        return f"{self.app}/{self.schedule}"


def standings(
    running: Running,
    broken: Mapping[str, Collection[BrokenApp]],
    now: datetime,
    *,
    unresolved: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> tuple[Standing, ...]:
    """How all schedules of the registry stand; `broken` are the apps with broken templates, by worker.

    `unresolved` are the apps that lack secrets, by worker, with the reasons.
    """
    held = {each.app: each for worker in sorted(broken) for each in broken[worker]}
    return tuple(
        _standing(app, name, entry, running, held.get(app), _lost(app, running, unresolved or {}), now)
        for (app, name), entry in sorted(running.registry.items())
        if entry.hash != TOMBSTONE
    )


def _standing(
    app: str,
    name: str,
    entry: RunningSchedule,
    running: Running,
    broken: BrokenApp | None,
    lost: str,
    now: datetime,
) -> Standing:
    trigger = Firing.from_spec(entry.spec).trigger
    holders = dict(_holders(app, name, running))
    sync, odd = _sync(entry, holders, broken, _lacking(app, name, running))
    health, ill = _health(entry, trigger, now, _spread(holders.values()))
    if lost and health in {Health.HEALTHY, Health.FAILING}:
        health, ill = Health.FAILING, lost
    is_live = trigger is not None and health is not Health.PAUSED
    return Standing(
        app=app,
        schedule=name,
        sync=sync,
        health=health,
        next_at=trigger.next_after(now) if trigger is not None and is_live else None,
        waiting=entry.waiting,
        detail="; ".join(part for part in (odd, ill) if part),
    )


def _lost(app: str, running: Running, unresolved: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Why every run of the app must fail: none of the workers that have it has its secrets. Empty where one has."""
    reasons = [unresolved.get(worker, {}).get(app, ()) for worker, apps in running.workers.items() if app in apps]
    return reasons[0][0] if reasons and all(reasons) else ""


def _sync(
    entry: RunningSchedule, holders: Mapping[str, Fields], broken: BrokenApp | None, lacking: Sequence[str]
) -> tuple[Sync, str]:
    if broken is not None:
        runs = "the last good one runs" if holders else "no live worker has a good one"
        return Sync.HELD, f"{broken.place} {broken.problem}; {runs}"
    if not holders:
        return Sync.UNKNOWN, "no live worker has it"
    others = [worker for worker, fields in holders.items() if fields["hash"] != entry.hash]
    if others:
        return Sync.OUT_OF_SYNC, f"other definition on {', '.join(others)}"
    if lacking:
        return Sync.OUT_OF_SYNC, f"not on {', '.join(lacking)}"
    if len({tuple(sorted(fields.items())) for fields in holders.values()}) > 1:
        return Sync.OUT_OF_SYNC, "workers disagree on more than its firings; relayctl plan shows it"
    return Sync.SYNCED, ""


def _holders(app: str, name: str, running: Running) -> Iterator[tuple[str, Fields]]:
    for worker, apps in sorted(running.workers.items()):
        if app in apps and name in apps[app].schedules:
            yield worker, apps[app].schedules[name]


def _lacking(app: str, name: str, running: Running) -> list[str]:
    """The workers that should have it and do not: one that has just started has reported nothing yet, and one for
    some apps only need not have the others."""
    return [
        worker
        for worker, apps in sorted(running.workers.items())
        if apps and (app in apps or worker not in running.partial)
        if app not in apps or name not in apps[app].schedules
    ]


def _spread(reports: Iterable[Fields]) -> timedelta:
    """How much later than its instant a firing may be due: the longest jitter that a worker reports."""
    longest = timedelta(0)
    for fields in reports:
        try:
            longest = max(longest, parse_duration(fields.get("jitter", "0s")))
        except DurationError:
            continue
    return longest


def _health(
    entry: RunningSchedule, trigger: Cron | Every | None, now: datetime, spread: timedelta
) -> tuple[Health, str]:
    if entry.paused_at is not None:
        return Health.PAUSED, entry.pause_note
    due = None if trigger is None else trigger.latest_at_or_before(now - GRACE - spread)
    is_owed = due is not None and due.timestamp() * 1000 >= entry.from_ms
    if due is not None and is_owed and (entry.settled_until is None or entry.settled_until < epoch_seconds(due)):
        return Health.OVERDUE, f"due at {due:%Y-%m-%d %H:%M:%S}Z and not published"
    if entry.refusals:
        times = "once" if entry.refusals == 1 else f"{entry.refusals} times in a row"
        return Health.FAILING, f"publication refused {times}: {entry.last_error}"
    if entry.last is not None and entry.last.verdict == "failed":
        return Health.FAILING, entry.last.reason
    return Health.HEALTHY, ""
