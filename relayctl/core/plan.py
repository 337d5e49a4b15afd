"""A plan as a value: what would change, item by item, and what that means in time. It compares nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from relayctl.core.cron import Cron, Every, ShiftEffect
from relayctl.core.description import Fields
from relayctl.core.fieldchange import FieldChange
from relayctl.core.herd import Herd
from relayctl.core.names import split_name
from relayctl.core.running import BrokenApp, Name


class Action(Enum):
    """What a plan would do to one item."""

    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"
    RESTORE = "restore"  # a worker runs something else than its peers
    REFIRE = "refire"  # the same text fires at other instants
    KEEP = "keep"  # untouched, but worth a line


IT_IS, THERE, NOT_THERE = "it is", "there", "not there"
"""The field, and its values, of something that is on one side alone."""


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
    the removal of that one is `moved_to` this; `not_moved_from` names one that is not moved,
    and for a removal the one that says so too late. `waiting` counts
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
        if self.action is not Action.RESTORE or first is None or first.name != IT_IS:
            return ""
        return "extra" if first.before == THERE else "missing"


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
        wanted = [split_name(target) for target in targets]

        def is_wanted(app: str, name: str) -> bool:
            return any(app == each and about in {"", name} for each, about in wanted)

        return replace(
            self,
            changes=tuple(change for change in self.changes if is_wanted(change.app, change.name)),
            unchanged=tuple(item for item in self.unchanged if is_wanted(*item[1:])),
            fires={name: counts for name, counts in self.fires.items() if is_wanted(*name)},
            held=tuple(each for each in self.held if any(each.broken.app == app for app, _ in wanted)),
        )
