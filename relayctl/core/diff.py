"""Desired and running, compared: a plan of what would change and what that means in time. Changes nothing.

Identity is the name alone: the order of files and keys never matters, and an item that means the same is unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache

from relayctl.core.cron import Cron, CronError, Every, ShiftEffect
from relayctl.core.definition import TOMBSTONE, Firing
from relayctl.core.description import HIDDEN, Description, Fields

_YEAR = timedelta(days=366)


class Action(Enum):
    """What a plan would do to one item."""

    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"
    RESTORE = "restore"  # a worker runs something else than its peers
    REFIRE = "refire"  # the same text fires at other instants
    KEEP = "keep"  # untouched, but worth a line


class Item(Enum):
    """What kind of thing a change is about."""

    APP = "app"
    SCHEDULE = "schedule"
    EVENT = "event"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field before and after; a secret or environment value is never in it, only that it changed."""

    name: str
    before: str | None
    after: str | None
    is_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One item of a plan with its consequences. Instants are None where nothing will fire."""

    action: Action
    item: Item
    app: str
    name: str
    fields: tuple[FieldChange, ...] = ()
    trigger: Cron | Every | None = None
    handler: str = ""
    next_before: datetime | None = None
    next_after: datetime | None = None
    effects: tuple[ShiftEffect, ...] = ()
    waiting: int = 0
    worker: str = ""
    paused_at: datetime | None = None
    renamed_to: str = ""


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
    """What the broker says of one schedule: its definition in force since `from_ms`, and how far it was published.

    `settled_until` is in epoch seconds, None when nothing was published yet. `waiting` counts unclaimed occurrences.
    """

    hash: str
    spec: str
    from_ms: int = 0
    settled_until: int | None = None
    paused_at: datetime | None = None
    waiting: int = 0
    last: LastRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What runs: by live worker the apps it reports, and the registry's schedules by (app, name)."""

    workers: Mapping[str, Mapping[str, Description]]
    registry: Mapping[tuple[str, str], RunningSchedule]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole comparison. `fires_before` and `fires_after` count the firings within `horizon` of `now`."""

    now: datetime
    horizon: timedelta
    changes: tuple[Change, ...]
    unchanged: int
    unchanged_paused: int
    fires_before: int
    fires_after: int
    held: tuple[str, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether anything would be done."""
        return any(change.action is not Action.KEEP for change in self.changes)

    def count(self, action: Action) -> int:
        """How many items would see this action."""
        return sum(1 for change in self.changes if change.action is action)


def make_plan(
    desired: Mapping[str, Description],
    running: Running,
    *,
    now: datetime,
    held: Sequence[str] = (),
    horizon: timedelta = timedelta(hours=24),
) -> Plan:
    """Compare. `held` are apps whose templates are broken: what runs of them stays."""
    base = _baseline(running)
    changes: list[Change] = []
    for app in sorted({*desired, *base} - set(held)):
        changes += _app_changes(app, desired.get(app), base.get(app), running, now)
    changes += _drift(desired, base, running)
    changed = {(change.app, change.name) for change in changes if change.item is Item.SCHEDULE}
    kept = _kept(desired, changed, running)
    after = {**{app: base[app] for app in held if app in base}, **desired}
    return Plan(
        now=now,
        horizon=horizon,
        changes=tuple(sorted(_with_renames(changes + kept), key=_order)),
        unchanged=sum(len(each.schedules) for each in after.values())
        - sum(1 for change in changes if change.item is Item.SCHEDULE and change.action is not Action.REMOVE),
        unchanged_paused=len(kept),
        fires_before=_firings(base, now, horizon),
        fires_after=_firings(after, now, horizon),
        held=tuple(sorted(held)),
    )


MOST_REMOVED = 5
MOST_REMOVED_SHARE = 0.2


def is_mass_removal(removed: int, total: int) -> bool:
    """Whether so many of the schedules go at once that it needs consent: more than a fifth of them and more than 5."""
    return removed > MOST_REMOVED and removed > MOST_REMOVED_SHARE * total


def removal_guard(plan: Plan) -> str:
    """What a reconciler would hold back of this plan, in words; empty when nothing."""
    removed = sum(1 for change in plan.changes if change.action is Action.REMOVE and change.item is Item.SCHEDULE)
    total = plan.unchanged + removed + plan.count(Action.CHANGE)
    if not is_mass_removal(removed, total):
        return ""
    return (
        f"removing {removed} of {total} schedules at once is held back until it is agreed to; "
        "workers say how: relayctl reconcile --accept-removals REVISION"
    )


def _baseline(running: Running) -> dict[str, Description]:
    """One description per app: what most live workers run; without any, what the registry knows of its schedules."""
    base: dict[str, Description] = {}
    reports: dict[str, list[Description]] = {}
    for worker in sorted(running.workers):
        for app, description in running.workers[worker].items():
            reports.setdefault(app, []).append(description)
    for app, found in reports.items():
        base[app] = max(found, key=lambda item: (sum(1 for other in found if other == item), item.revision))
    for (app, name), entry in running.registry.items():
        if app not in reports and entry.hash != TOMBSTONE and not running.workers:
            known = base.setdefault(app, Description(revision="", settings={}, schedules={}, events={}, services={}))
            base[app] = Description(
                revision="",
                settings={},
                schedules={**known.schedules, name: _fields_of(entry)},
                events={},
                services={},
            )
    return base


def _fields_of(entry: RunningSchedule) -> dict[str, str]:
    """What the registry knows of a schedule: when it fires, not what it runs."""
    document = json.loads(entry.spec)
    when = (
        {"every": f"{document['every']}s"}
        if "every" in document
        else {"cron": document["cron"], "timezone": document["timezone"]}
    )
    return {**when, "enabled": "true" if document["enabled"] else "false", "hash": entry.hash, "spec": entry.spec}


def _app_changes(
    app: str, after: Description | None, before: Description | None, running: Running, now: datetime
) -> Iterator[Change]:
    empty = Description(revision="", settings={}, schedules={}, events={}, services={})
    old, new = before or empty, after or empty
    if before is not None and after is not None and old.settings:
        fields = tuple(_field_changes(old.settings, new.settings))
        if fields:
            yield Change(action=Action.CHANGE, item=Item.APP, app=app, name="", fields=fields)
    for name in sorted({*old.schedules, *new.schedules}):
        change = _schedule_change(app, name, old.schedules.get(name), new.schedules.get(name), running, now)
        if change is not None:
            yield change
    # What the registry alone knows says nothing of event rules and services.
    knows_all = before is None or bool(old.settings)
    for item, olds, news in ((Item.EVENT, old.events, new.events), (Item.SERVICE, old.services, new.services)):
        for name in sorted({*olds, *news}) if knows_all else ():
            change = _plain_change(item, app, name, olds.get(name), news.get(name))
            if change is not None:
                yield change


def _schedule_change(
    app: str, name: str, before: Fields | None, after: Fields | None, running: Running, now: datetime
) -> Change | None:
    entry = running.registry.get((app, name))
    fields: tuple[FieldChange, ...] = ()
    if before is None:
        action = Action.CREATE
    elif after is None:
        action = Action.REMOVE
    else:
        fields = tuple(_field_changes(before, after))
        if fields:
            action = Action.CHANGE
        elif before["hash"] != after["hash"]:
            action = Action.REFIRE
        else:
            return None
    shown = after if after is not None else before
    assert shown is not None
    trigger = _trigger_of(shown)
    old_trigger = None if before is None else _trigger_of(before)
    return Change(
        action=action,
        item=Item.SCHEDULE,
        app=app,
        name=name,
        fields=fields,
        trigger=trigger,
        handler=shown.get("handler", ""),
        next_before=None if old_trigger is None else old_trigger.next_after(now),
        next_after=None if after is None or trigger is None else trigger.next_after(now),
        effects=()
        if after is None or trigger is None or not _moves(action, fields)
        else tuple(trigger.transitions_affecting(now, now + _YEAR)),
        waiting=0 if entry is None else entry.waiting,
        paused_at=None if entry is None else entry.paused_at,
    )


def _moves(action: Action, fields: Sequence[FieldChange]) -> bool:
    """Whether the firing times are new to the reader."""
    return action is not Action.CHANGE or any(
        field.name in {"cron", "every", "timezone", "dst", "enabled"} for field in fields
    )


def _plain_change(item: Item, app: str, name: str, before: Fields | None, after: Fields | None) -> Change | None:
    if before is None or after is None:
        action = Action.CREATE if before is None else Action.REMOVE
        return Change(action=action, item=item, app=app, name=name, handler=name if item is Item.EVENT else "")
    fields = tuple(_field_changes(before, after))
    return Change(action=Action.CHANGE, item=item, app=app, name=name, fields=fields) if fields else None


def _field_changes(before: Fields, after: Fields) -> Iterator[FieldChange]:
    for name in dict.fromkeys([*after, *before]):
        old, new = before.get(name), after.get(name)
        if name in HIDDEN or old == new:
            continue
        if old is None and "hash" in before and "handler" not in before and name not in {"cron", "every", "timezone"}:
            # The registry alone does not know what a schedule runs.
            continue
        if name == "cron" and old is not None and new is not None and _means_the_same(old, new):
            continue
        is_secret = name.startswith("env.")
        yield FieldChange(
            name=name,
            before=None if old is None or is_secret else old,
            after=None if new is None or is_secret else new,
            is_secret=is_secret,
        )


def _means_the_same(old: str, new: str) -> bool:
    try:
        return Cron.parse(old).canonical == Cron.parse(new).canonical
    except CronError:
        return False


def _drift(desired: Mapping[str, Description], base: Mapping[str, Description], running: Running) -> Iterator[Change]:
    """Where a worker runs something else than what most run, and that is what the files want too."""
    for worker in sorted(running.workers):
        for app, reported in sorted(running.workers[worker].items()):
            wanted = desired.get(app)
            if wanted is None or reported == base.get(app):
                continue
            for name, fields in sorted(wanted.schedules.items()):
                theirs = reported.schedules.get(name)
                if theirs is None or base[app].schedules.get(name) != fields or theirs["hash"] == fields["hash"]:
                    continue
                yield Change(
                    action=Action.RESTORE,
                    item=Item.SCHEDULE,
                    app=app,
                    name=name,
                    fields=tuple(_field_changes(theirs, fields)),
                    worker=worker,
                    trigger=_trigger_of(fields),
                )


def _kept(desired: Mapping[str, Description], changed: set[tuple[str, str]], running: Running) -> list[Change]:
    """Pauses that stay."""
    return [
        Change(action=Action.KEEP, item=Item.SCHEDULE, app=app, name=name, paused_at=entry.paused_at)
        for (app, name), entry in sorted(running.registry.items())
        if entry.paused_at is not None
        and (app, name) not in changed
        and app in desired
        and name in desired[app].schedules
    ]


def _with_renames(changes: Sequence[Change]) -> list[Change]:
    """Removals that look like one half of a rename say so: identity is the name, so the history starts anew."""
    created = {
        (change.app, change.handler, _moment(change)): change.name
        for change in changes
        if change.action is Action.CREATE and change.item is Item.SCHEDULE
    }
    return [
        replace(change, renamed_to=created.get((change.app, change.handler, _moment(change)), ""))
        if change.action is Action.REMOVE and change.item is Item.SCHEDULE
        else change
        for change in changes
    ]


def _moment(change: Change) -> str:
    trigger = change.trigger
    if trigger is None:
        return ""
    return trigger.canonical if isinstance(trigger, Every) else f"{trigger.canonical} {trigger.timezone}"


def _order(change: Change) -> tuple[str, int, str, str]:
    return (change.app, list(Item).index(change.item), change.name, change.worker)


def _trigger_of(fields: Fields) -> Cron | Every | None:
    return Firing.from_spec(fields["spec"]).trigger


def _firings(apps: Mapping[str, Description], now: datetime, horizon: timedelta) -> int:
    start = int((now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1))
    end = start + int(horizon.total_seconds())
    return sum(
        _count(fields["spec"], start, end) for description in apps.values() for fields in description.schedules.values()
    )


@lru_cache(maxsize=16_384)
def _count(spec: str, after: int, until: int) -> int:
    trigger = Firing.from_spec(spec).trigger
    if trigger is None:
        return 0
    if isinstance(trigger, Every):
        return until // trigger.seconds - after // trigger.seconds
    count, at = 0, trigger.next_after_s(after)
    while at is not None and at <= until:
        count += 1
        at = trigger.next_after_s(at)
    return count
