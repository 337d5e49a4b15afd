"""What a plan says: each kind of change with its fields and consequences, drift, holds, guards and targets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.described import NOW, described, running, sample
from support.templates import checked

from relayctl.core.definition import TOMBSTONE
from relayctl.core.description import Description, describe_app
from relayctl.core.diff import make_plan
from relayctl.core.plan import Action, Change, Item, Plan
from relayctl.core.removal import is_mass_removal, removal_guard
from relayctl.core.running import BrokenApp, Running, RunningSchedule
from relayctl.render import plan as render

SETTING = render.Setting(desired="", running="")
NIGHTLY = "name: nightly, cron: '0 3 * * *', timezone: Europe/Rome"


def tree(*schedules: str, head: str = "") -> dict[str, Description]:
    return described({"billing": sample(*schedules, head=head)})


def planned(before: Sequence[str], after: Sequence[str], **more: object) -> Plan:
    return make_plan(tree(*after), running(tree(*before), **more), now=NOW)


def only(plan: Plan) -> Change:
    [change] = plan.changes
    return change


def shown(change: Change) -> dict[str, tuple[str | None, str | None]]:
    return {field.name: (field.before, field.after) for field in change.fields}


def test_a_change_field_by_field_with_its_next_instants() -> None:
    plan = planned(
        [f"{NIGHTLY}, timeout: 20s"], ["name: nightly, cron: '30 2 * * *', timezone: Europe/Rome, timeout: 2m"]
    )
    change = only(plan)
    assert change.action is Action.CHANGE
    assert shown(change) == {"cron": ("0 3 * * *", "30 2 * * *"), "timeout": ("20s", "2m")}
    assert change.next_before == datetime(2026, 9, 30, 1, tzinfo=UTC)
    assert change.next_after == datetime(2026, 9, 30, 0, 30, tzinfo=UTC)
    assert [effect.on.isoformat() for effect in change.effects] == ["2026-10-25", "2027-03-28"]
    assert (plan.fires_before, plan.fires_after) == (1, 1)


def test_an_edit_that_moves_nothing_repeats_no_clock_shifts() -> None:
    change = only(
        planned(
            ["name: a, cron: '30 2 * * *', timezone: Europe/Rome"],
            ["name: a, cron: '30 2 * * *', timezone: Europe/Rome, retries: 1"],
        )
    )
    assert shown(change) == {"retries": ("4", "1")}
    assert change.effects == ()
    assert change.next_before == change.next_after


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("name: a, cron: '@daily'", "name: a, cron: '0 0 * * *', timezone: UTC"),
        ("name: a, cron: '0 9 * * mon-fri'", "name: a, cron: '0 9 * * 1-5'"),
        ("name: a, cron: '0 9 * * 7'", "name: a, cron: '0 9 * * sun'"),
        ("name: a, cron: '0 3 * * *', timezone: Europe/Rome, dst: {gap: run}", NIGHTLY.replace("nightly", "a")),
    ],
)
def test_the_same_meaning_is_no_change(one: str, other: str) -> None:
    assert planned([one], [other]).changes == ()


def test_order_quotes_comments_and_style_are_no_change() -> None:
    one = """# a comment
runtime: python
env: {A: one, B: "two"}
secrets: {K: ref-k, L: ref-l}
events:
  - handler: jobs.run
    pattern: {kind: [a, b], table: [users]}
  - handler: jobs.other
    pattern: {kind: [c]}
schedules:
  - {name: a, handler: jobs.run, cron: "0 3 * * *", input: {x: 1, y: [1, 2]}}
  - {name: b, handler: jobs.run, every: 90s}
services:
  - {name: web, command: [./a, "-v"], port: 3000}
  - {name: api, command: [./b]}
"""
    other = """services:
  - name: api
    command: ["./b"]
  - port: 3000
    command:
      - ./a
      - -v
    name: "web"
schedules:
  - every: 1m30s
    handler: 'jobs.run'
    name: b
  - input:
      y: [1, 2]
      x: 1
    name: a   # moved
    handler: jobs.run
    cron: '0 3 * * *'
events:
  - {handler: jobs.other, pattern: {kind: [c]}}
  - pattern: {table: [users], kind: [a, b]}
    handler: jobs.run
secrets: {L: ref-l, K: ref-k}
env:
  B: two
  A: "one"
runtime: "python"
"""
    apps = [checked(text)[0] for text in (one, other)]
    before, after = ({"sample": describe_app(app, "r")} for app in apps if app is not None)
    plan = make_plan(after, running(before), now=NOW)
    assert plan.changes == ()
    assert len(plan.unchanged) == 6


def test_habits_at_shifts_are_shown_in_full() -> None:
    change = only(planned([NIGHTLY], [f"{NIGHTLY}, dst: {{fold: both}}"]))
    assert shown(change) == {"dst": ("fold: first, gap: run", "fold: both, gap: run")}


def test_a_move_is_no_removal_and_takes_the_pause_along() -> None:
    fleet = running(tree(NIGHTLY, "name: other, every: 1h"))
    paused = replace(fleet.registry["billing", "nightly"], paused_at=NOW, pause_reason="works")
    fleet = replace(fleet, registry={**fleet.registry, ("billing", "nightly"): paused})
    after = tree(NIGHTLY.replace("nightly", "late") + ", moved_from: billing/nightly", "name: other, every: 1h")
    plan = make_plan(after, fleet, now=NOW)
    new, old = plan.changes
    assert (new.action, new.moved_from, new.paused_at) == (Action.CREATE, "billing/nightly", NOW)
    assert (old.action, old.moved_to, old.renamed_to, old.paused_at) == (Action.REMOVE, "billing/late", "", None)
    everything = [f"name: s{number}, every: 1h" for number in range(9)]
    moved = [f"name: t{number}, every: 1h, moved_from: billing/s{number}" for number in range(9)]
    assert removal_guard(planned(everything, moved)) == ""


def test_what_says_that_it_was_moved_begins_where_its_old_name_is_unknown_or_stays() -> None:
    for before in ([], ["name: a, every: 1h"]):
        new = next(
            each
            for each in planned(before, [*before, "name: b, every: 1h, moved_from: billing/a"]).changes
            if each.name == "b"
        )
        assert (new.moved_from, new.not_moved_from) == ("", "billing/a")
    there = "name: b, every: 1h, moved_from: billing/a"
    assert planned(["name: b, every: 1h"], [there]).changes == ()


def test_of_two_that_say_so_one_takes_over_and_the_other_begins() -> None:
    heirs = [f"name: {name}, every: 1h, moved_from: billing/a" for name in ("c", "b")]
    after = described({"crm": sample(heirs[0]), "billing": sample(heirs[1])})
    plan = make_plan(after, running(tree("name: a, every: 1h")), now=NOW)
    found = {(each.app, each.name): each for each in plan.changes}
    first, second, gone = found["billing", "b"], found["crm", "c"], found["billing", "a"]
    assert (first.moved_from, second.moved_from, gone.moved_to) == ("billing/a", "", "billing/b")
    assert second.not_moved_from == "billing/a"
    assert "nothing to move from: billing/a moves to billing/b" in render.text(plan, SETTING)


def test_a_former_name_that_leaves_after_the_new_one_has_begun_is_not_moved() -> None:
    heir = "name: b, every: 1h, moved_from: billing/a"
    plan = planned(["name: a, every: 1h", heir], [heir])
    gone = only(plan)
    assert (gone.action, gone.moved_to, gone.not_moved_from) == (Action.REMOVE, "", "billing/b")
    assert "not moved to billing/b, which runs already" in render.text(plan, SETTING)


def test_a_move_that_is_taken_back_says_so_without_a_word_in_the_template() -> None:
    fleet = running(tree("name: b, every: 1h, moved_from: billing/a"))
    stone = replace(fleet.registry["billing", "b"], hash=TOMBSTONE, spec="", moved_to="billing/b")
    fleet = replace(fleet, registry={**fleet.registry, ("billing", "a"): stone})
    new, old = make_plan(tree("name: a, every: 1h"), fleet, now=NOW).changes
    assert (new.name, new.moved_from, old.moved_to) == ("a", "billing/b", "billing/a")


def test_from_cron_to_every() -> None:
    change = only(planned([NIGHTLY], ["name: nightly, every: 90m"]))
    assert shown(change) == {"every": (None, "90m"), "cron": ("0 3 * * *", None), "timezone": ("Europe/Rome", None)}


def test_creation_and_removal_with_waiting_work_and_a_hint_of_a_rename() -> None:
    before = running(tree(NIGHTLY))
    entry = replace(before.registry["billing", "nightly"], waiting=2)
    plan = make_plan(
        tree(NIGHTLY.replace("nightly", "night")), replace(before, registry={("billing", "nightly"): entry}), now=NOW
    )
    new, old = plan.changes
    assert (new.action, new.name, new.when, new.handler) == (
        Action.CREATE,
        "night",
        "0 3 * * *   Europe/Rome",
        "jobs.run",
    )
    assert (old.action, old.waiting, old.renamed_to) == (Action.REMOVE, 2, "night")


def test_a_disabled_schedule_never_fires() -> None:
    new = only(make_plan(tree("name: a, every: 1m, enabled: false"), running(tree()), now=NOW))
    assert (new.next_after, new.is_enabled) == (None, False)
    off = only(planned(["name: a, every: 1m"], ["name: a, every: 1m, enabled: false"]))
    assert shown(off) == {"enabled": ("true", "false")}
    assert off.next_before == NOW + timedelta(minutes=1)
    assert off.next_after is None


def test_settings_rules_and_services_change_too() -> None:
    def app(text: str) -> dict[str, Description]:
        found, problems = checked(text)
        assert found is not None, problems
        return {"sample": describe_app(found, "r")}

    before = app(
        "runtime: python\nenv: {A: one, B: two}\nevents:\n  - {handler: jobs.run, pattern: {kind: [a]}}\nservices:\n  - {name: web, command: [./a]}\n"
    )
    after = app(
        "runtime: python\nenv: {A: uno, C: two}\nconcurrency: 3\nevents:\n  - {handler: jobs.run, pattern: {kind: [b]}}\nservices:\n  - {name: api, command: [./a]}\n"
    )
    settings, event, new, old = make_plan(after, running(before), now=NOW).changes
    assert settings.item is Item.APP
    assert {field.name: (field.before, field.after, field.is_secret) for field in settings.fields} == {
        "concurrency": ("2", "3", False), "env.A": ("", "", True), "env.B": ("", None, True), "env.C": (None, "", True),
    }  # fmt: skip
    assert (event.item, event.name, [field.name for field in event.fields]) == (Item.EVENT, "jobs.run", ["pattern"])
    assert [(each.item, each.action, each.name) for each in (new, old)] == [
        (Item.SERVICE, Action.CREATE, "api"), (Item.SERVICE, Action.REMOVE, "web"),
    ]  # fmt: skip


def elsewhere(name: str, **rules: str) -> dict[str, Description]:
    """The tree as a machine with other rules sees it."""
    [found] = tree(name).values()
    fields = dict(found.schedules["nightly"])
    fields |= {"spec": json.dumps(json.loads(fields["spec"]) | rules, sort_keys=True), "hash": "elsewhere"}
    return {"billing": replace(found, schedules={"nightly": fields})}


def test_the_same_text_by_other_zone_data_is_a_change_of_its_own() -> None:
    plan = make_plan(tree(NIGHTLY), running(elsewhere(NIGHTLY, zone="0123456789")), now=NOW)
    change = only(plan)
    assert change.action is Action.REFIRE
    assert [field.name for field in change.fields] == ["zone data"]
    assert change.fields[0].before == "01234567"
    assert plan.has_changes
    edited = only(make_plan(tree(f"{NIGHTLY}, retries: 1"), running(elsewhere(NIGHTLY, evaluator="0")), now=NOW))
    assert edited.action is Action.CHANGE
    assert shown(edited)["evaluator"] == ("0", "1")


def test_workers_that_disagree_are_drift() -> None:
    good, odd = tree(NIGHTLY, "name: b, every: 1m"), tree(f"{NIGHTLY}, timeout: 1m")
    plan = make_plan(good, running(good, good, odd), now=NOW)
    lacks, differs = plan.changes
    assert (lacks.action, lacks.name, lacks.worker, shown(lacks)) == (
        Action.RESTORE, "b", "w3", {"it is": ("not there", "there")},
    )  # fmt: skip
    assert (differs.name, shown(differs)) == ("nightly", {"timeout": ("1m", "6s")})
    assert plan.unchanged_schedules == 0
    assert plan.running == 2


def test_two_workers_are_judged_by_the_registry() -> None:
    old, new = tree(NIGHTLY), tree(NIGHTLY.replace("0 3", "0 4"))
    held_by_new = make_plan(new, running(new, old), now=NOW)
    assert [(change.action, change.worker) for change in held_by_new.changes] == [(Action.RESTORE, "w2")]
    held_by_old = make_plan(new, running(old, new), now=NOW)
    assert [(change.action, change.worker) for change in held_by_old.changes] == [(Action.CHANGE, "")]


def test_most_workers_stand_for_what_the_registry_does_not_know() -> None:
    odd, common = tree(f"{NIGHTLY}, timeout: 1m"), tree(NIGHTLY)
    plan = make_plan(common, running(odd, common, common), now=NOW)
    assert [(change.action, change.worker) for change in plan.changes] == [(Action.RESTORE, "w1")]


def test_what_fires_is_what_the_registry_has_and_not_what_an_outdated_worker_reads() -> None:
    new = tree(NIGHTLY.replace("0 3", "0 4"))
    fleet = Running(workers={"w1": tree(NIGHTLY)}, registry=running(new).registry)
    assert [change.action for change in make_plan(new, fleet, now=NOW).changes] == [Action.RESTORE]
    back = only(make_plan(tree(NIGHTLY), fleet, now=NOW))
    assert shown(back) == {"cron": ("0 4 * * *", "0 3 * * *")}


def test_a_worker_for_some_apps_lacks_nothing_and_one_that_starts_neither() -> None:
    both = described({"billing": sample(NIGHTLY), "crm": sample(NIGHTLY, name="crm")})
    some = {"crm": both["crm"]}
    assert make_plan(both, running(both, some, partial=frozenset({"w2"})), now=NOW).changes == ()
    assert {change.app for change in make_plan(both, running(both, some), now=NOW).changes} == {"billing"}
    assert make_plan(both, running(both, {}), now=NOW).changes == ()


def test_without_a_report_the_registry_is_compared() -> None:
    registry = dict(running(tree(NIGHTLY, "name: b, every: 1m")).registry)
    registry["billing", "gone"] = RunningSchedule(hash=TOMBSTONE, spec="")
    plan = make_plan(
        tree(f"{NIGHTLY}, timeout: 9s", "name: b, every: 2m"), Running(workers={}, registry=registry), now=NOW
    )
    change = only(plan)
    assert (change.name, shown(change)) == ("b", {"every": ("1m", "2m")})


def test_a_broken_app_is_held_and_touched_by_nothing() -> None:
    before = described({"billing": sample(NIGHTLY), "crm": sample("name: a, every: 1m", name="crm")})
    broken = BrokenApp(app="crm", place="apps/crm/template.yaml:3", problem="RLY101 unknown key")
    plan = make_plan({"billing": before["billing"]}, running(before), now=NOW, broken=[broken])
    assert plan.changes == ()
    assert [(held.broken, held.schedules) for held in plan.held] == [(broken, 1)]
    assert "1 app held, no other changes." in (shown := render.text(plan, SETTING)) and "No changes" not in shown
    assert plan.unchanged_schedules == 1
    assert plan.fires_before == plan.fires_after == 1441


def test_a_pause_stays_shows_and_silences() -> None:
    fleet = running(tree(NIGHTLY))
    entry = replace(fleet.registry["billing", "nightly"], paused_at=NOW)
    fleet = replace(fleet, registry={("billing", "nightly"): entry})
    plan = make_plan(tree(NIGHTLY), fleet, now=NOW)
    assert [(change.action, change.paused_at) for change in plan.changes] == [(Action.KEEP, NOW)]
    assert not plan.has_changes
    assert plan.fires_before == 0
    changed = only(make_plan(tree(f"{NIGHTLY}, retries: 0"), fleet, now=NOW))
    assert (changed.action, changed.paused_at) == (Action.CHANGE, NOW)


def test_a_new_timeout_above_what_workers_grant_is_told() -> None:
    cap = timedelta(hours=1)
    assert only(planned([NIGHTLY], [f"{NIGHTLY}, timeout: 2h"], cap=cap)).capped_to == cap
    assert only(planned([NIGHTLY], [f"{NIGHTLY}, timeout: 1h"], cap=cap)).capped_to is None
    assert (
        only(planned([f"{NIGHTLY}, timeout: 2h"], [f"{NIGHTLY}, timeout: 2h, retries: 1"], cap=cap)).capped_to is None
    )
    assert only(planned([], [f"{NIGHTLY}, timeout: 2h"], cap=cap)).capped_to == cap


@pytest.mark.parametrize(("removed", "total", "held"), [(5, 5, False), (6, 29, True), (6, 30, False), (7, 30, True)])
def test_when_so_many_removals_need_consent(removed: int, total: int, held: bool) -> None:
    assert is_mass_removal(removed, total) is held


def test_the_guard_names_both_numbers() -> None:
    before = [f"name: s{number}, every: 1m" for number in range(20)]
    plan = planned(before, before[7:])
    assert "removing 7 of 20 schedules" in removal_guard(plan)
    assert removal_guard(planned(before, before[4:])) == ""
    assert "removing 20 of 20" in removal_guard(make_plan({}, running(tree(*before)), now=NOW))
    assert "removing 1 of 1 " in removal_guard(make_plan({}, running(tree(NIGHTLY)), now=NOW))


def test_a_plan_is_narrowed_to_what_was_asked_for() -> None:
    before = described({"billing": sample(NIGHTLY, "name: b, every: 1m"), "crm": sample(NIGHTLY, name="crm")})
    after = described({"billing": sample(NIGHTLY, "name: b, every: 2m"), "crm": sample(name="crm")})
    plan = make_plan(after, running(before), now=NOW)
    assert [(change.app, change.name) for change in plan.narrowed(["crm"]).changes] == [("crm", "nightly")]
    part = plan.narrowed(["billing/b", "billing/nightly"])
    assert [change.name for change in part.changes] == ["b"]
    assert (part.fires_before, part.fires_after, part.unchanged_schedules) == (1441, 721, 1)
    assert plan.narrowed([]) is plan
    assert set(plan.names()) == {
        "billing",
        "crm",
        "billing/b",
        "billing/nightly",
        "billing/jobs.run",
        "crm/nightly",
        "crm/jobs.run",
    }


def test_the_horizon_is_what_firings_are_counted_over() -> None:
    desired = tree("name: a, every: 1h", "name: b, cron: '0 3 * * *'")
    plan = make_plan(desired, running(), now=NOW, horizon=timedelta(days=7))
    assert (plan.fires_before, plan.fires_after) == (0, 7 * 24 + 7)
