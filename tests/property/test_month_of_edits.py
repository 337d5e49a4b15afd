"""A month of edits to a tree that a fleet follows: each plan says exactly what the edit does, and after it nothing.

What an edit does is told here by the apps themselves, without descriptions, and by walking through the firings.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from support.described import NOW, described, sample

from relayctl.core.cron import Cron, Every
from relayctl.core.definition import TOMBSTONE
from relayctl.core.description import Description
from relayctl.core.diff import make_plan
from relayctl.core.model import App, CatchUp, Overlap, Schedule
from relayctl.core.names import AppName, ScheduleName
from relayctl.core.plan import Action, Change, Item, Plan
from relayctl.core.running import BrokenApp, Name, Running, RunningSchedule

HORIZON = timedelta(hours=3)
EDITS = 30
TRIGGERS = (
    Cron.parse("0 3 * * *", "Europe/Rome"),
    Cron.parse("30 2 * * *", "America/New_York"),
    Cron.parse("*/15 * * * *"),
    Cron.parse("@daily"),
    Cron.parse("0 0 * * *"),
    Cron.parse("0 9 * * mon-fri", "Asia/Tokyo"),
    Cron.parse("0 9 * * 1-5", "Asia/Tokyo"),
    Every(seconds=90),
    Every(seconds=5400),
)
Tree = dict[str, App]
Edit = Callable[[App, random.Random], App]


def _tree() -> Tree:
    rows = [f"name: job-{number}, every: {number + 1}m" for number in range(4)]
    return {name: sample(*rows, name=name) for name in ("billing", "crm", "search")}


def _one_schedule(app: App, chance: random.Random, edit: Callable[[Schedule], Schedule]) -> App:
    if not app.schedules:
        return app
    chosen = chance.randrange(len(app.schedules))
    return replace(app, schedules=tuple(edit(each) if at == chosen else each for at, each in enumerate(app.schedules)))


def _trigger(app: App, chance: random.Random) -> App:
    return _one_schedule(app, chance, lambda each: replace(each, trigger=chance.choice(TRIGGERS)))


def _switch(app: App, chance: random.Random) -> App:
    return _one_schedule(app, chance, lambda each: replace(each, enabled=not each.enabled))


def _contract(app: App, chance: random.Random) -> App:
    timeout = timedelta(seconds=chance.randint(1, 3))
    return _one_schedule(app, chance, lambda each: replace(each, contract=replace(each.contract, timeout=timeout)))


def _habits(app: App, chance: random.Random) -> App:
    overlap, catch_up = chance.choice(list(Overlap)), chance.choice(list(CatchUp))
    return _one_schedule(app, chance, lambda each: replace(each, overlap=overlap, catch_up=catch_up))


def _rename(app: App, chance: random.Random) -> App:
    name = ScheduleName(f"job-{chance.randint(0, 9)}")
    if any(each.name == name for each in app.schedules):
        return app
    return _one_schedule(app, chance, lambda each: replace(each, name=name))


def _add(app: App, chance: random.Random) -> App:
    name = ScheduleName(f"job-{chance.randint(0, 9)}")
    if any(each.name == name for each in app.schedules):
        return app
    fresh = replace(sample("name: new, every: 1m").schedules[0], name=name, trigger=chance.choice(TRIGGERS))
    return replace(app, schedules=(*app.schedules, fresh))


def _remove(app: App, chance: random.Random) -> App:
    kept = list(app.schedules)
    if kept:
        kept.pop(chance.randrange(len(kept)))
    return replace(app, schedules=tuple(kept))


def _shuffle(app: App, chance: random.Random) -> App:
    mixed = list(app.schedules)
    chance.shuffle(mixed)
    return replace(app, schedules=tuple(mixed))


def _settings(app: App, chance: random.Random) -> App:
    return replace(app, concurrency=chance.randint(1, 3), env=(("MODE", chance.choice("ab")),))


def _rule(app: App, chance: random.Random) -> App:
    retries = chance.randint(0, 2)
    return replace(
        app, events=tuple(replace(each, contract=replace(each.contract, retries=retries)) for each in app.events)
    )


EDITS_OF_APPS: tuple[Edit, ...] = (
    _trigger, _trigger, _switch, _contract, _habits, _rename, _add, _remove, _shuffle, _settings, _rule,
)  # fmt: skip


def _edited(tree: Tree, chance: random.Random) -> Tree:
    """Another commit: an edit or two in an app, or an app more or less."""
    if chance.random() < 0.1:
        return {name: app for name, app in tree.items() if name != chance.choice(sorted(tree))} or tree
    if chance.random() < 0.1:
        name = chance.choice(["billing", "crm", "search", "new"])
        return {**tree, name: tree.get(name, sample("name: job-0, every: 1m", name=name))}
    name = chance.choice(sorted(tree))
    app = tree[name]
    for _ in range(chance.randint(1, 2)):
        app = chance.choice(EDITS_OF_APPS)(app, chance)
    return {**tree, name: app}


def _things(tree: Tree) -> dict[tuple[Item, str, str], object]:
    """All that a tree declares, as values that are equal where nothing differs in meaning."""
    found: dict[tuple[Item, str, str], object] = {}
    for name, app in tree.items():
        found[Item.APP, name, ""] = (app.runtime, app.concurrency, app.isolation, app.resources, app.env, app.secrets)
        found |= {(Item.SCHEDULE, name, each.name): replace(each, place=None) for each in app.schedules}
        found |= {(Item.EVENT, name, each.contract.handler): replace(each, place=None) for each in app.events}
    return found


def _expected(before: Tree, after: Tree) -> dict[tuple[Item, str, str], Action]:
    old, new = _things(before), _things(after)
    found = dict.fromkeys(new.keys() - old.keys(), Action.CREATE)
    found |= dict.fromkeys(old.keys() - new.keys(), Action.REMOVE)
    found |= {key: Action.CHANGE for key in old.keys() & new.keys() if old[key] != new[key]}
    # An app that comes or goes is told by what is in it.
    return {key: action for key, action in found.items() if key[0] is not Item.APP or action is Action.CHANGE}


def _schedules(tree: Tree) -> dict[Name, Schedule]:
    return {(name, each.name): each for name, app in tree.items() for each in app.schedules}


def _next(schedule: Schedule | None, now: datetime) -> datetime | None:
    return None if schedule is None or not schedule.enabled else schedule.trigger.next_after(now)


def _firings(schedule: Schedule | None, now: datetime) -> int:
    if schedule is None or not schedule.enabled:
        return 0
    return sum(1 for _ in schedule.trigger.between(now, now + HORIZON))


class Fleet:
    """Two workers that run a tree, and the registry that they share."""

    def __init__(self) -> None:
        self.paused: set[Name] = set()
        self._stones: set[Name] = set()

    def running(self, tree: Tree) -> Running:
        found = described(tree)
        heads: dict[Name, RunningSchedule] = {
            (app, name): RunningSchedule(hash=fields["hash"], spec=fields["spec"], paused_at=self._since(app, name))
            for app, each in found.items()
            for name, fields in each.schedules.items()
        }
        self._stones |= heads.keys()
        # A pause outlives its schedule.
        gone = {
            name: RunningSchedule(hash=TOMBSTONE, spec="", paused_at=self._since(*name))
            for name in self._stones - heads.keys()
        }
        report: Mapping[str, Description] = found
        return Running(workers={"w1": report, "w2": report}, registry={**gone, **heads})

    def _since(self, app: str, name: str) -> datetime | None:
        return NOW if (app, name) in self.paused else None


def _check(plan: Plan, before: Tree, after: Tree, fleet: Fleet, now: datetime) -> None:
    changes = [change for change in plan.changes if change.action is not Action.KEEP]
    assert {(each.item, each.app, each.name): each.action for each in changes} == _expected(before, after)
    old, new = _schedules(before), _schedules(after)
    for each in changes:
        if each.item is Item.SCHEDULE:
            _check_schedule(each, old.get((each.app, each.name)), new.get((each.app, each.name)), now)
    assert dict(plan.fires) == {
        name: (_firings(old.get(name), now), _firings(new.get(name), now))
        for name in (old.keys() | new.keys()) - fleet.paused
    }
    moved = {(each.app, each.name) for each in changes}
    kept = {(each.app, each.name) for each in plan.changes if each.action is Action.KEEP}
    assert kept == (fleet.paused & old.keys() & new.keys()) - moved


def _check_schedule(change: Change, old: Schedule | None, new: Schedule | None, now: datetime) -> None:
    assert (change.next_before, change.next_after) == (_next(old, now), _next(new, now))
    if old is not None and new is not None:
        names = {field.name for field in change.fields}
        assert ("timeout" in names) == (old.contract.timeout != new.contract.timeout)
        assert ("enabled" in names) == (old.enabled != new.enabled)
        assert ("overlap" in names) == (old.overlap != new.overlap)
        assert bool(names & {"cron", "every", "timezone", "dst"}) == (old.trigger != new.trigger)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1 << 32))
def test_every_plan_of_a_month_is_what_the_edit_does(seed: int) -> None:
    chance, tree, now, fleet = random.Random(seed), _tree(), NOW, Fleet()
    for _ in range(EDITS):
        edited = _edited(tree, chance)
        fleet.paused ^= {chance.choice(sorted(_schedules(tree)))} if _schedules(tree) else set()
        plan = make_plan(described(edited), fleet.running(tree), now=now, horizon=HORIZON)
        _check(plan, tree, edited, fleet, now)
        if chance.random() < 0.2:
            # Somebody broke an app on the way: what runs of it stays, and the rest is as it would be.
            name = chance.choice(sorted(edited))
            _check_held(plan, name, edited, fleet.running(tree), now)
        tree = edited
        settled = make_plan(described(tree), fleet.running(tree), now=now)
        assert not settled.has_changes
        now += timedelta(seconds=chance.randint(3600, 2 * 86_400))


def _check_held(whole: Plan, name: str, edited: Tree, running: Running, now: datetime) -> None:
    broken = BrokenApp(app=name, place="template.yaml:1", problem="RLY002")
    rest = described({app: each for app, each in edited.items() if app != name})
    plan = make_plan(rest, running, now=now, broken=[broken], horizon=HORIZON)
    # A rename across apps is told only where both ends are seen.
    assert [replace(each, renamed_to="") for each in plan.changes] == [
        replace(each, renamed_to="") for each in whole.changes if each.app != name
    ]
    assert all(before == after for (app, _), (before, after) in plan.fires.items() if app == name)


def test_the_trees_of_the_month_are_told_apart() -> None:
    one = _tree()
    other = {**one, "crm": replace(one["crm"], name=AppName("crm"), concurrency=3)}
    assert _expected(one, one) == {}
    assert _expected(one, other) == {(Item.APP, "crm", ""): Action.CHANGE}
