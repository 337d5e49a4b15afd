"""Desired and running, compared: a plan of what would change and what that means in time. Changes nothing.

Identity is the name alone: the order of files and keys never matters, and an item that means the same is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from types import MappingProxyType

from relayctl.core.cron import Cron, Every, ShiftEffect
from relayctl.core.definition import Firing
from relayctl.core.description import Description, Fields
from relayctl.core.fieldchange import MOVING, RULES, FieldChange, field_changes
from relayctl.core.firecount import Counter
from relayctl.core.herd import Herd, new_herds
from relayctl.core.renames import Renames
from relayctl.core.running import BrokenApp, Name, Running, baseline

_YEAR = timedelta(days=366)
_FELT = {"runtime", "memory", "cpus", "pids"}
"""Settings of an app that its services are started from."""
_EMPTY = Description(revision="", settings={}, schedules={}, events={}, services={})


class Action(Enum):
    """What a plan would do to one item."""

    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"
    RESTORE = "restore"  # a worker runs something else than its peers
    REFIRE = "refire"  # the same text fires at other instants
    KEEP = "keep"  # untouched, but worth a line


_MOVES = {Action.CREATE, Action.REFIRE}
_IT_IS, _THERE, _NOT_THERE = "it is", "there", "not there"


class Item(Enum):
    """What kind of thing a change is about."""

    APP = "app"
    SCHEDULE = "schedule"
    EVENT = "event"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One item of a plan with its consequences. Instants are None where nothing will fire.

    `when` is its trigger as it is written. `worker` is the one that has to be restored. `capped_to` is what workers
    grant of a new timeout that is longer, `pause_note` says who paused it, why and until when. `service` has the fields
    of a service, as they will be or, where it goes, as they were; `restarts` counts services that are replaced because
    the settings of their app change. A creation that is `moved_from` another name takes over what that one owes, and
    the removal of that one is `moved_to` this; `not_moved_from` names one that is not moved. `waiting` counts
    occurrences that nobody has claimed, `in_flight` runs that go on under the contract they began with.
    """

    action: Action
    item: Item
    app: str
    name: str
    fields: tuple[FieldChange, ...] = ()
    trigger: Cron | Every | None = None
    when: str = ""
    handler: str = ""
    is_enabled: bool = True
    next_before: datetime | None = None
    next_after: datetime | None = None
    effects: tuple[ShiftEffect, ...] = ()
    waiting: int = 0
    in_flight: int = 0
    worker: str = ""
    paused_at: datetime | None = None
    pause_note: str = ""
    renamed_to: str = ""
    moved_from: str = ""
    moved_to: str = ""
    not_moved_from: str = ""
    capped_to: timedelta | None = None
    service: Fields | None = None
    restarts: int = 0

    @property
    def presence(self) -> str:
        """Of something to be restored: `missing` or `extra` on its worker; empty where it is there and differs."""
        first = next(iter(self.fields), None)
        if self.action is not Action.RESTORE or first is None or first.name != _IT_IS:
            return ""
        return "extra" if first.before == _THERE else "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An app whose template is broken, and how many schedules of it go on as they are."""

    broken: BrokenApp
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole comparison.

    `unchanged` are items as (kind, app, name). `fires` counts each schedule's firings within `horizon` of `now`, before
    and after; a paused one has none. `running` is how many schedules run now. `herds` are minutes that it crowds.
    """

    now: datetime
    horizon: timedelta
    changes: tuple[Change, ...]
    unchanged: tuple[tuple[Item, str, str], ...]
    fires: Mapping[Name, tuple[int, int]]
    running: int
    held: tuple[Held, ...] = ()
    herds: tuple[Herd, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether anything would be done."""
        return any(change.action is not Action.KEEP for change in self.changes)

    @property
    def unchanged_schedules(self) -> int:
        """How many schedules stay as they are."""
        return sum(1 for item, _, _ in self.unchanged if item is Item.SCHEDULE)

    @property
    def fires_before(self) -> int:
        """The firings of all that runs."""
        return sum(before for before, _ in self.fires.values())

    @property
    def fires_after(self) -> int:
        """The firings of all that would run."""
        return sum(after for _, after in self.fires.values())

    def count(self, action: Action) -> int:
        """How many items would see this action."""
        return sum(1 for change in self.changes if change.action is action)

    def names(self) -> list[str]:
        """Every app, and every item as `app/name`, on either side."""
        items = [(change.app, change.name) for change in self.changes if change.name]
        items += [(app, name) for _, app, name in self.unchanged]
        apps = {app for app, _ in items} | {each.broken.app for each in self.held}
        return sorted(apps | {f"{app}/{name}" for app, name in items})

    def narrowed(self, targets: Sequence[str]) -> Plan:
        """The part of it that is about these apps and items (`app` or `app/name`); all of it without any."""
        if not targets:
            return self
        wanted = [target.partition("/")[::2] for target in targets]

        def is_wanted(app: str, name: str) -> bool:
            return any(app == each and about in {"", name} for each, about in wanted)

        return replace(
            self,
            changes=tuple(change for change in self.changes if is_wanted(change.app, change.name)),
            unchanged=tuple(item for item in self.unchanged if is_wanted(*item[1:])),
            fires={name: counts for name, counts in self.fires.items() if is_wanted(*name)},
            held=tuple(each for each in self.held if any(each.broken.app == app for app, _ in wanted)),
        )


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
    changes += _drift(desired, base, running)
    changed = {(change.item, change.app, change.name) for change in changes}
    unchanged = tuple(item for item in _items(desired) if item not in changed)
    changes += _kept(unchanged, running)
    after = {**{app: base[app] for app in held if app in base}, **desired}
    return Plan(
        now=now,
        horizon=horizon,
        changes=tuple(
            sorted(_with_renames(_with_moves(changes, Renames(desired, running, held), running)), key=_order)
        ),
        unchanged=unchanged,
        fires=_fires(base, after, running, Counter(now, horizon, counted)),
        running=sum(len(each.schedules) for each in base.values()),
        held=tuple(
            Held(broken=each, schedules=len(base.get(each.app, _EMPTY).schedules))
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


MOST_REMOVED = 5
MOST_REMOVED_SHARE = 0.2


def is_mass_removal(removed: int, total: int) -> bool:
    """Whether so many of the schedules go at once that it needs consent: more than a fifth of them and more than 5."""
    return removed > MOST_REMOVED and removed > MOST_REMOVED_SHARE * total


def removal_guard(plan: Plan) -> str:
    """What a reconciler would hold back of this plan, in words; empty when nothing."""
    removed = sum(
        1
        for change in plan.changes
        if change.action is Action.REMOVE and change.item is Item.SCHEDULE and not change.moved_to
    )
    is_emptied = removed > 0 and removed == plan.running and not plan.unchanged and not plan.count(Action.CREATE)
    if not (is_mass_removal(removed, plan.running) or is_emptied):
        return ""
    return f"removing {removed} of {plan.running} schedules at once is held back until it is agreed to"


def _app_changes(
    app: str, after: Description | None, before: Description | None, running: Running, now: datetime
) -> Iterator[Change]:
    old, new = before or _EMPTY, after or _EMPTY
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
    action, fields = _verdict(before, after)
    if action is None:
        return None
    entry = running.registry.get((app, name))
    new_trigger, old_trigger = _trigger_of(after), _trigger_of(before)
    shown = after or before or {}
    moves = action is not Action.CHANGE or any(field.name in MOVING for field in fields)
    return Change(
        action=action,
        item=Item.SCHEDULE,
        app=app,
        name=name,
        fields=fields,
        trigger=new_trigger or old_trigger,
        when=_when(shown),
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


def _verdict(before: Fields | None, after: Fields | None) -> tuple[Action | None, tuple[FieldChange, ...]]:
    if before is None or after is None:
        return (Action.CREATE if before is None else Action.REMOVE), ()
    if before == after:
        return None, ()
    fields = field_changes(before, after)
    if fields:
        return (Action.REFIRE if all(field.name in RULES for field in fields) else Action.CHANGE), fields
    return (None if before.get("hash") == after.get("hash") else Action.REFIRE), ()


def _plain_change(
    item: Item, app: str, name: str, before: Fields | None, after: Fields | None, running: Running
) -> Change | None:
    action, fields = _verdict(before, after)
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


def deviations(running: Running) -> tuple[Change, ...]:
    """Where a live worker runs something else than what is in force and most run, in order of worker and app."""
    base = baseline(running)
    return tuple(_drift(base, base, running))


def _drift(desired: Mapping[str, Description], base: Mapping[str, Description], running: Running) -> Iterator[Change]:
    """Where a worker runs something else than what most run, and that is what the files want too."""
    for worker in sorted(running.workers):
        reports = running.workers[worker]
        if not reports:
            continue
        for app in sorted(base.keys() & desired.keys()):
            if app in reports or worker not in running.partial:
                yield from _app_drift(worker, app, desired[app], base[app], reports.get(app, _EMPTY))


def _app_drift(
    worker: str, app: str, wanted: Description, common: Description, theirs: Description
) -> Iterator[Change]:
    for item, wants, commons, runs in (
        (Item.SCHEDULE, wanted.schedules, common.schedules, theirs.schedules),
        (Item.EVENT, wanted.events, common.events, theirs.events),
        (Item.SERVICE, wanted.services, common.services, theirs.services),
        (Item.APP, {"": wanted.settings}, {"": common.settings}, {"": theirs.settings} if theirs.settings else {}),
    ):
        for name in sorted({*wants, *runs}):
            want, run = wants.get(name), runs.get(name)
            if not _is_same(commons.get(name), want) or _is_same(run, want) or (item is Item.APP and run is None):
                continue
            fields = field_changes(run, want) if run is not None and want is not None else (_presence(run is not None),)
            yield Change(
                action=Action.RESTORE,
                item=item,
                app=app,
                name=name,
                fields=fields,
                worker=worker,
                trigger=_trigger_of(want) if item is Item.SCHEDULE else None,
                when=_when(want or run or {}) if item is Item.SCHEDULE else "",
                handler=(want or run or {}).get("handler", "") if item is Item.SCHEDULE else "",
            )


def _is_same(one: Fields | None, other: Fields | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or _verdict(one, other)[0] is None


def _presence(is_there: bool) -> FieldChange:
    there, gone = (_THERE, _NOT_THERE) if is_there else (_NOT_THERE, _THERE)
    return FieldChange(name=_IT_IS, before=there, after=gone)


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


def _with_moves(changes: Sequence[Change], renames: Renames, running: Running) -> list[Change]:
    """Both halves of a move say so, and the pause goes with it."""
    found: dict[Name, Change] = {(each.app, each.name): each for each in changes if each.item is Item.SCHEDULE}
    for name, change in [(name, each) for name, each in found.items() if each.action is Action.CREATE]:
        old = renames.old_name(*name)
        if old is None:
            said = renames.said(*name) if renames.is_unfounded(*name) else ""
            found[name] = replace(change, not_moved_from=said)
            continue
        entry = running.registry[old]
        found[name] = replace(change, moved_from="/".join(old), paused_at=entry.paused_at, pause_note=entry.pause_note)
        if old in found:
            found[old] = replace(found[old], moved_to="/".join(name), paused_at=None, pause_note="")
    return [found[each.app, each.name] if each.item is Item.SCHEDULE else each for each in changes]


def _with_renames(changes: Sequence[Change]) -> list[Change]:
    """Removals that look like one half of a rename say so: identity is the name, so the history starts anew."""
    created: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        if change.action is Action.CREATE and change.item is Item.SCHEDULE and change.trigger is not None:
            created.setdefault(_likeness(change), []).append(change)
    return [
        replace(change, renamed_to=_new_name(change, created.get(_likeness(change), [])))
        if change.action is Action.REMOVE and change.item is Item.SCHEDULE and not change.moved_to
        else change
        for change in changes
    ]


def _new_name(gone: Change, alike: Sequence[Change]) -> str:
    """The first of its own app, else, as `app/name`, the only one of another app."""
    own = [change.name for change in alike if change.app == gone.app]
    if own:
        return own[0]
    return f"{alike[0].app}/{alike[0].name}" if len(alike) == 1 else ""


def _likeness(change: Change) -> tuple[str, str]:
    trigger = change.trigger
    if trigger is None:
        return (change.handler, "")
    when = trigger.canonical if isinstance(trigger, Every) else f"{trigger.canonical} {trigger.timezone}"
    return (change.handler, when)


def _order(change: Change) -> tuple[str, int, str, str]:
    return (change.app, list(Item).index(change.item), change.name, change.worker)


def _trigger_of(fields: Fields | None) -> Cron | Every | None:
    return None if fields is None or "spec" not in fields else Firing.from_spec(fields["spec"]).trigger


def _when(fields: Fields) -> str:
    if "every" in fields:
        return f"every {fields['every']}"
    return f"{fields.get('cron', '')}   {fields.get('timezone', '')}".strip()


def _fires(
    before: Mapping[str, Description], after: Mapping[str, Description], running: Running, count: Counter
) -> dict[Name, tuple[int, int]]:
    found = {}
    for app in {*before, *after}:
        old, new = before.get(app, _EMPTY).schedules, after.get(app, _EMPTY).schedules
        for name in {*old, *new}:
            if not running.is_paused(app, name):
                found[app, name] = (count(old.get(name)), count(new.get(name)))
    return found
