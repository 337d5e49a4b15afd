"""Desired and running, compared: a plan of what would change and what that means in time. Changes nothing.

Identity is the name alone: the order of files and keys never matters, and an item that means the same is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from relayctl.core.comparison import NOTHING, compared, trigger_of, trigger_text
from relayctl.core.description import Description, Fields
from relayctl.core.drift import drift
from relayctl.core.fieldchange import MOVING, FieldChange, field_changes
from relayctl.core.firecount import Counter
from relayctl.core.herd import new_herds
from relayctl.core.plan import Action, Change, Held, Item, Plan
from relayctl.core.renames import Renames
from relayctl.core.running import BrokenApp, Name, Running, baseline
from relayctl.core.successors import with_likely_names, with_moves

_YEAR = timedelta(days=366)
_FELT = {"runtime", "memory", "cpus", "pids"}
"""Settings of an app that its services are started from."""
_MOVES = {Action.CREATE, Action.REFIRE}


def make_plan(
    desired: Mapping[str, Description],
    running: Running,
    *,
    now: datetime,
    broken: Sequence[BrokenApp] = (),
    horizon: timedelta = timedelta(hours=24),
    counted: Mapping[str, int] = MappingProxyType({}),
) -> Plan:
    """Compare. `broken` are apps whose templates cannot be read: what runs of them stays.

    `counted` are the firings of specs within the horizon, as far as somebody has counted them before.
    """
    base = baseline(running)
    held = {each.app for each in broken}
    changes: list[Change] = []
    for app in sorted({*desired, *base} - held):
        changes += _app_changes(app, desired.get(app), base.get(app), running, now)
    changes += drift(desired, base, running)
    changed = {(change.item, change.app, change.name) for change in changes}
    unchanged = tuple(item for item in _items(desired) if item not in changed)
    changes += _kept(unchanged, running)
    after = {**{app: base[app] for app in held if app in base}, **desired}
    return Plan(
        now=now,
        horizon=horizon,
        changes=tuple(
            sorted(with_likely_names(with_moves(changes, Renames(desired, running, held), running)), key=_order)
        ),
        unchanged=unchanged,
        fires=_fires(base, after, running, Counter(now, horizon, counted)),
        running=sum(len(each.schedules) for each in base.values()),
        held=tuple(
            Held(broken=each, schedules=len(base.get(each.app, NOTHING).schedules))
            for each in sorted(broken, key=lambda each: each.app)
        ),
        herds=new_herds(base, after, _moved(changes, running), now, is_silent=running.is_paused),
    )


def _moved(changes: Sequence[Change], running: Running) -> Iterator[Name]:
    """Schedules whose firings will be others than now."""
    for change in changes:
        is_moved = change.action in _MOVES or any(field.name in MOVING for field in change.fields)
        if change.item is Item.SCHEDULE and is_moved and not running.is_paused(change.app, change.name):
            yield change.app, change.name


def _app_changes(
    app: str, after: Description | None, before: Description | None, running: Running, now: datetime
) -> Iterator[Change]:
    old, new = before or NOTHING, after or NOTHING
    # What the registry alone knows says nothing of settings, event rules and services.
    knows_all = before is None or running.is_reported
    if before is not None and after is not None and knows_all:
        fields = field_changes(old.settings, new.settings)
        if fields:
            restarts = _restarted(fields, old, new)
            yield Change(action=Action.CHANGE, item=Item.APP, app=app, name="", fields=fields, restarts=restarts)
    for name in sorted({*old.schedules, *new.schedules}):
        change = _schedule_change(app, name, old.schedules.get(name), new.schedules.get(name), running, now)
        if change is not None:
            yield change
    for item, olds, news in ((Item.EVENT, old.events, new.events), (Item.SERVICE, old.services, new.services)):
        for name in sorted({*olds, *news}) if knows_all else ():
            plain = _plain_change(item, app, name, olds.get(name), news.get(name), running)
            if plain is not None:
                yield plain


def _restarted(fields: Sequence[FieldChange], old: Description, new: Description) -> int:
    is_felt = any(it.name in _FELT or it.name.startswith(("env.", "secrets.")) for it in fields)
    return len(old.services.keys() & new.services.keys()) if is_felt else 0


def _schedule_change(
    app: str, name: str, before: Fields | None, after: Fields | None, running: Running, now: datetime
) -> Change | None:
    action, fields = compared(before, after)
    if action is None:
        return None
    entry = running.registry.get((app, name))
    new_trigger, old_trigger = trigger_of(after), trigger_of(before)
    shown = after or before or {}
    moves = action is not Action.CHANGE or any(field.name in MOVING for field in fields)
    return Change(
        action=action,
        item=Item.SCHEDULE,
        app=app,
        name=name,
        fields=fields,
        trigger=new_trigger or old_trigger,
        when=trigger_text(shown),
        handler=shown.get("handler", ""),
        is_enabled=shown.get("enabled") != "false",
        # What fires by other rules than this machine's cannot be reckoned here.
        next_before=None if old_trigger is None or action is Action.REFIRE else old_trigger.next_after(now),
        next_after=None if new_trigger is None else new_trigger.next_after(now),
        effects=tuple(new_trigger.transitions_affecting(now, now + _YEAR)) if new_trigger and moves else (),
        waiting=0 if entry is None else entry.waiting,
        in_flight=0 if entry is None else entry.in_flight,
        paused_at=None if entry is None else entry.paused_at,
        pause_note="" if entry is None else entry.pause_note,
        capped_to=_capped(action, fields, after, running),
    )


def _capped(action: Action, fields: Sequence[FieldChange], after: Fields | None, running: Running) -> timedelta | None:
    is_new = action is Action.CREATE or any(field.name == "timeout" for field in fields)
    return running.capped(after.get("timeout")) if is_new and after is not None else None


def _plain_change(
    item: Item, app: str, name: str, before: Fields | None, after: Fields | None, running: Running
) -> Change | None:
    action, fields = compared(before, after)
    if action is None:
        return None
    return Change(
        action=action,
        item=item,
        app=app,
        name=name,
        fields=fields,
        handler=name if item is Item.EVENT else "",
        in_flight=running.handlers_in_flight.get((app, name), 0) if item is Item.EVENT else 0,
        capped_to=_capped(action, fields, after, running),
        service=(after or before) if item is Item.SERVICE else None,
    )


def _kept(unchanged: Sequence[tuple[Item, str, str]], running: Running) -> list[Change]:
    """Pauses that stay."""
    return [
        Change(
            action=Action.KEEP,
            item=item,
            app=app,
            name=name,
            paused_at=running.registry[app, name].paused_at,
            pause_note=running.registry[app, name].pause_note,
        )
        for item, app, name in unchanged
        if item is Item.SCHEDULE and running.is_paused(app, name)
    ]


def _items(apps: Mapping[str, Description]) -> Iterator[tuple[Item, str, str]]:
    for app in sorted(apps):
        description = apps[app]
        for item, names in (
            (Item.SCHEDULE, description.schedules),
            (Item.EVENT, description.events),
            (Item.SERVICE, description.services),
        ):
            yield from ((item, app, name) for name in sorted(names))


def _order(change: Change) -> tuple[str, int, str, str]:
    return (change.app, list(Item).index(change.item), change.name, change.worker)


def _fires(
    before: Mapping[str, Description], after: Mapping[str, Description], running: Running, count: Counter
) -> dict[Name, tuple[int, int]]:
    found = {}
    for app in {*before, *after}:
        old, new = before.get(app, NOTHING).schedules, after.get(app, NOTHING).schedules
        for name in {*old, *new}:
            if not running.is_paused(app, name):
                found[app, name] = (count(old.get(name)), count(new.get(name)))
    return found
