"""Laws of comparing: nothing differs from itself, a plan leads where it says, and touches nothing else."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.described import NOW, SECRET, apps, described, running, sample, trees

from relayctl.core.description import Description
from relayctl.core.diff import make_plan
from relayctl.core.fieldchange import MOVING
from relayctl.core.model import App
from relayctl.core.plan import Action, Item, Plan
from relayctl.core.planjson import Part, plan_from_json, plan_to_json
from relayctl.core.running import BrokenApp, Running
from relayctl.render import plan as render
from relayctl.render import plandocument, planmarkdown

SETTING = render.Setting(desired="apps/", running="one worker")


def _plan(desired: dict[str, Description], now: dict[str, Description]) -> Plan:
    return make_plan(desired, running(now), now=NOW)


@settings(max_examples=40)
@given(trees)
def test_nothing_differs_from_itself(tree: dict[str, App]) -> None:
    found = described(tree)
    plan = _plan(found, found)
    assert plan.changes == ()
    assert plan.unchanged_schedules == sum(len(app.schedules) for app in tree.values()) == plan.running
    assert plan.fires_before == plan.fires_after


@settings(max_examples=40)
@given(trees, trees)
def test_a_plan_leads_from_one_to_the_other(one: dict[str, App], other: dict[str, App]) -> None:
    before, after = described(one), described(other)
    plan = _plan(after, before)
    assert _plan(after, _applied(plan, before, after)).changes == ()
    assert plan.has_changes == bool(plan.changes)
    assert plan.unchanged_schedules + sum(
        1 for change in plan.changes if change.item is Item.SCHEDULE and change.action is not Action.REMOVE
    ) == sum(len(app.schedules) for app in other.values())


def _applied(plan: Plan, before: dict[str, Description], after: dict[str, Description]) -> dict[str, Description]:
    """What comes of `before` when only what the plan names is done; the values of secrets are known to the files."""
    result = {
        app: {
            Item.APP: {"": dict(each.settings)},
            Item.SCHEDULE: {name: dict(fields) for name, fields in each.schedules.items()},
            Item.EVENT: {name: dict(fields) for name, fields in each.events.items()},
            Item.SERVICE: {name: dict(fields) for name, fields in each.services.items()},
        }
        for app, each in before.items()
        if app in after
    }
    for app in after.keys() - before.keys():
        result[app] = {
            Item.APP: {"": dict(after[app].settings)}, Item.SCHEDULE: {}, Item.EVENT: {}, Item.SERVICE: {},
        }  # fmt: skip
    for change in plan.changes:
        if change.app not in after:
            assert change.action is Action.REMOVE
            continue
        items = result[change.app][change.item]
        wanted = _parts(after[change.app])[change.item]
        if change.action is Action.REMOVE:
            del items[change.name]
        elif change.action is Action.CREATE:
            items[change.name] = dict(wanted[change.name])
        else:
            fields = items[change.name]
            for field in change.fields:
                value = wanted[change.name].get(field.name) if field.is_secret else field.after
                fields.pop(field.name, None)
                if value is not None:
                    fields[field.name] = value
            if {field.name for field in change.fields} & MOVING:
                fields |= {name: wanted[change.name][name] for name in ("hash", "spec")}
    return {
        app: Description(
            revision="",
            settings=parts[Item.APP][""],
            schedules=parts[Item.SCHEDULE],
            events=parts[Item.EVENT],
            services=parts[Item.SERVICE],
        )
        for app, parts in result.items()
    }


def _parts(each: Description) -> dict[Item, dict[str, dict[str, str]]]:
    return {
        Item.APP: {"": dict(each.settings)},
        Item.SCHEDULE: {name: dict(fields) for name, fields in each.schedules.items()},
        Item.EVENT: {name: dict(fields) for name, fields in each.events.items()},
        Item.SERVICE: {name: dict(fields) for name, fields in each.services.items()},
    }


@settings(max_examples=40)
@given(apps("billing"), apps("billing"), st.data())
def test_an_edit_of_one_schedule_touches_only_its_name(app: App, donor: App, data: st.DataObject) -> None:
    if not app.schedules or not donor.schedules:
        return
    chosen = data.draw(st.sampled_from(app.schedules))
    edited = replace(donor.schedules[0], name=chosen.name)
    other = replace(app, schedules=tuple(edited if each is chosen else each for each in app.schedules))
    plan = _plan(described({"billing": other}), described({"billing": app}))
    assert {(change.item, change.name) for change in plan.changes} <= {(Item.SCHEDULE, chosen.name)}


@settings(max_examples=40)
@given(trees, trees, st.randoms(use_true_random=False))
def test_order_never_matters(one: dict[str, App], other: dict[str, App], chance: random.Random) -> None:
    before, after = described(one), described(other)
    mixed = {name: _shuffled(each, chance) for name, each in reversed(after.items())}
    plan, again = _plan(after, before), _plan(mixed, before)
    assert _sets(plan) == _sets(again)
    assert _plan(mixed, after).changes == ()


def _shuffled(each: Description, chance: random.Random) -> Description:
    def mixed(fields: object) -> dict[str, object]:
        items = list(dict(fields).items())  # type: ignore[call-overload]
        chance.shuffle(items)
        return dict(items)

    return Description(
        revision=each.revision,
        settings=mixed(each.settings),  # type: ignore[arg-type]
        schedules={name: mixed(fields) for name, fields in mixed(each.schedules).items()},  # type: ignore[misc]
        events=mixed(each.events),  # type: ignore[arg-type]
        services=mixed(each.services),  # type: ignore[arg-type]
    )


def _sets(plan: Plan) -> list[object]:
    return [
        replace(change, fields=tuple(sorted(change.fields, key=lambda field: field.name))) for change in plan.changes
    ]


@settings(max_examples=40)
@given(trees, trees, st.sampled_from([40, 80, 120]))
def test_no_value_of_the_environment_is_ever_shown(one: dict[str, App], other: dict[str, App], width: int) -> None:
    before, after = described(one), described(other)
    plan = make_plan(
        after,
        running(before, before),
        now=NOW,
        broken=[BrokenApp(app="zebra", place="apps/zebra/template.yaml:1", problem="RLY101 unknown key")],
    )
    setting = replace(SETTING, width=width, shows_unchanged=True)
    digests = [
        value
        for each in (*before.values(), *after.values())
        for name, value in each.settings.items()
        if name.startswith("env.")
    ]
    for shown in (
        render.text(plan, setting),
        planmarkdown.markdown(plan, setting),
        json.dumps(plan_to_json(plan)),
        plandocument.stream(plan, setting),
        json.dumps(plandocument.document(plan, setting)),
    ):
        assert SECRET not in shown
        assert not any(digest in shown for digest in digests)


@settings(max_examples=40)
@given(trees, trees, st.booleans())
def test_a_plan_comes_back_from_its_file(one: dict[str, App], other: dict[str, App], is_held: bool) -> None:
    before, after = described(one), described(other)
    broken = [BrokenApp(app="zebra", place="apps/zebra/template.yaml:1", problem="RLY101")] if is_held else []
    plan = make_plan(after, running(before, after), now=NOW, broken=broken)
    assert plan_from_json(Part(json.loads(json.dumps(plan_to_json(plan))))) == plan


@settings(max_examples=40)
@given(trees)
def test_what_a_worker_reports_survives_the_wire(tree: dict[str, App]) -> None:
    for each in described(tree).values():
        assert Description.from_json(each.to_json()) == each
        assert SECRET not in each.to_json()


@settings(max_examples=40)
@given(trees)
def test_the_registry_alone_knows_when_and_claims_nothing_else(tree: dict[str, App]) -> None:
    found = described(tree)
    plan = make_plan(found, Running(workers={}, registry=running(found).registry), now=NOW)
    known = {app for app in tree if tree[app].schedules}
    assert {change.app for change in plan.changes} <= tree.keys() - known


def test_a_sample_is_what_its_text_says() -> None:
    assert sample('name: a, cron: "@daily"').schedules[0].name == "a"
