"""What a plan looks like: every kind of line, narrow and wide, and in each form."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.described import NOW, described, running, sample
from syrupy.assertion import SnapshotAssertion

from relayctl.core.description import Description
from relayctl.core.diff import make_plan
from relayctl.core.plan import Plan
from relayctl.core.planfile import Applied, Basis, Reason, SavedPlan, Words, refusal_of
from relayctl.core.removal import removal_guard
from relayctl.core.running import BrokenApp
from relayctl.render import plan as render
from relayctl.render import plandocument, planmarkdown
from relayctl.render.plan import Setting
from relayctl.render.planfile import refusal_words

NIGHTLY = "name: nightly-cleanup, cron: '0 3 * * *', timezone: Europe/Rome, timeout: 20s"
LONG = "a-name-of-the-greatest-length-that-is-allowed-for-any-schedule1"
SETTING = Setting(
    desired="apps/ at 3f9c1ab2 · 3 apps, 7 schedules",
    running="relay, pull mode · 2 workers",
    took=timedelta(seconds=0.34),
)


def _one_of_each() -> Plan:
    """A plan with every kind of line."""
    crm = "name: legacy-export, cron: '20 4 * * 0'"
    before = {
        "billing": sample(NIGHTLY, "name: unchanged, every: 90s", head="env: {TOKEN: hunter2, OLD: hunter2}\n"),
        "crm": sample(
            crm,
            "name: paused-one, every: 6h",
            f"name: {LONG}, cron: '1,2,3,5,7,11,13,17,19,23,29,31 8-18 * * 1-5', timezone: America/Argentina/ComodRivadavia",
            name="crm",
        ),
        "search": sample("name: warm-cache, cron: '*/15 * * * *'", name="search"),
    }
    after = {
        "billing": sample(
            NIGHTLY.replace("0 3", "30 2").replace("20s", "2m"),
            "name: unchanged, every: 90s",
            "name: invoice-run, cron: '15 6 1 * *', timezone: Europe/Rome, retries: 0",
            head="env: {TOKEN: hunter3, NEW: hunter3}\nsecrets: {KEY: the-key}\n",
        ),
        "crm": sample(
            "name: paused-one, every: 6h",
            f"name: {LONG}-new".replace("-new", "2")[:69]
            + ", every: 1m, input: {customers: ["
            + ", ".join(f"number-{number}" for number in range(12))
            + "]}",
            name="crm",
        ),
        "search": before["search"],
    }
    drifted = {"search": sample("name: warm-cache, cron: '*/10 * * * *', timeout: 9s", name="search")}
    fleet = running(described(before), described({**before, **drifted}))
    registry = dict(fleet.registry)
    registry["crm", "paused-one"] = replace(
        registry["crm", "paused-one"],
        paused_at=datetime(2026, 9, 23, 8, 1, tzinfo=UTC),
        paused_until=datetime(2026, 10, 1, 6, tzinfo=UTC),
        paused_by="alice@desk",
        pause_reason="INC-4312",
    )
    registry["crm", "legacy-export"] = replace(registry["crm", "legacy-export"], waiting=1)
    broken = BrokenApp(
        app="warehouse",
        place="apps/warehouse/template.yaml:22",
        problem='RLY101 unknown key "retires" in schedules[0] "sync"',
    )
    return make_plan(described(after), replace(fleet, registry=registry), now=NOW, broken=[broken])


def _refire() -> Plan:
    report = described(
        {"reports": sample("name: quarter, cron: '0 9 * * 1-5', timezone: America/Sao_Paulo", name="reports")}
    )
    fields = dict(report["reports"].schedules["quarter"])
    fields |= {"spec": json.dumps(json.loads(fields["spec"]) | {"zone": "5f0c77ab12"}), "hash": "other"}
    theirs = Description(
        revision="r",
        settings=report["reports"].settings,
        schedules={"quarter": fields},
        events=report["reports"].events,
        services={},
    )
    return make_plan(report, running({"reports": theirs}), now=NOW)


def _rename() -> Plan:
    before, after = (
        sample(NIGHTLY),
        sample(NIGHTLY.replace("cleanup", "clean-up"), "name: off, every: 1h, enabled: false"),
    )
    return make_plan(described({"billing": after}), running(described({"billing": before})), now=NOW)


def _moves() -> Plan:
    """A schedule under a new name, one that names nothing, and one whose old name stays."""
    more = "name: {}, cron: '0 4 * * *'"
    before = sample(NIGHTLY, more.format("kept"))
    after = sample(
        NIGHTLY.replace("cleanup", "clean-up") + ", moved_from: billing/nightly-cleanup",
        more.format("kept"),
        more.format("lost") + ", moved_from: billing/nowhere",
        name="billing",
    )
    fleet = running(described({"billing": before}))
    name = next(each for each in fleet.registry if each[1] != "kept")
    paused = replace(
        fleet.registry[name], waiting=1, paused_at=NOW - timedelta(hours=5), paused_by="ann", pause_reason="works"
    )
    return make_plan(described({"billing": after}), replace(fleet, registry={**fleet.registry, name: paused}), now=NOW)


def _services() -> Plan:
    serve = "services:\n  - {{name: web, entrypoint: server.py, port: {port}, replicas: {replicas}}}\n"
    more = '  - {{name: {name}, command: ["./serve", "--level", "a value that is far too long to be shown in full"]}}\n'
    before = {
        "shop": sample(head=serve.format(port=3000, replicas=2) + more.format(name="gone")),
        "grow": sample(head=serve.format(port=3000, replicas=2), name="grow"),
    }
    after = {
        "shop": sample(head=serve.format(port=4000, replicas=2) + more.format(name="new")),
        "grow": sample(head="env: {A: b}\n" + serve.format(port=3000, replicas=5), name="grow"),
        "new": sample(head=serve.format(port=5000, replicas=3), name="new"),
    }
    return make_plan(described(after), running(described(before)), now=NOW)


def _pending() -> Plan:
    """Work that was published or has begun under what is changed, disabled and removed."""
    more = "name: {name}, cron: '{cron}'"
    names = ("edited", "off", "gone", "moved")
    before = sample(*(more.format(name=name, cron=f"0 {hour} * * *") for hour, name in enumerate(names)))
    after = sample(
        more.format(name="edited", cron="0 0 * * *") + ", timeout: 2m",
        more.format(name="off", cron="0 1 * * *") + ", enabled: false",
        more.format(name="moved", cron="30 3 * * *"),
        head="concurrency: 3\n",
    )
    pattern = {**described({"billing": after})["billing"].events["jobs.run"], "timeout": "9s"}
    wanted = described({"billing": after})
    wanted = {"billing": replace(wanted["billing"], events={"jobs.run": pattern})}
    fleet = running(described({"billing": before}), handlers_in_flight={("billing", "jobs.run"): 1})
    registry = {name: replace(entry, waiting=2, in_flight=1) for name, entry in fleet.registry.items()}
    return make_plan(wanted, replace(fleet, registry=registry), now=NOW)


def _herd() -> Plan:
    crowd = [f"name: s{number}, cron: '0 3 * * *'" for number in range(24)]
    return make_plan(
        described({"billing": sample(*crowd)}), running(described({"billing": sample(*crowd[:18])})), now=NOW
    )


def _in_sync() -> Plan:
    found = described({"billing": sample(NIGHTLY)})
    return make_plan(found, running(found), now=NOW)


def _mass_removal() -> Plan:
    before = [f"name: s{number}, every: 1m" for number in range(12)]
    return make_plan(
        described({"billing": sample(*before[8:])}), running(described({"billing": sample(*before)})), now=NOW
    )


@pytest.mark.parametrize("width", [80, 120])
def test_every_line(width: int, golden: SnapshotAssertion) -> None:
    assert render.text(_one_of_each(), replace(SETTING, width=width)) == golden


@pytest.mark.parametrize("case", ["concise", "unchanged", "markdown", "jsonl", "json"])
def test_form(case: str, golden: SnapshotAssertion) -> None:
    plan = _one_of_each()
    found = {
        "concise": lambda: render.text(plan, replace(SETTING, is_concise=True)),
        "unchanged": lambda: render.text(plan, replace(SETTING, is_concise=True, shows_unchanged=True)),
        "markdown": lambda: planmarkdown.markdown(plan, SETTING),
        "jsonl": lambda: plandocument.stream(plan, SETTING),
        "json": lambda: json.dumps(plandocument.document(plan, SETTING), indent=2) + "\n",
    }[case]()
    assert "hunter" not in found
    assert found == golden


@pytest.mark.parametrize(
    "case", ["refire", "rename", "in-sync", "mass-removal", "services", "pending", "herd", "moves"]
)
def test_case(case: str, golden: SnapshotAssertion) -> None:
    cases = {"refire": _refire, "rename": _rename, "in-sync": _in_sync, "mass-removal": _mass_removal, "moves": _moves}
    plan = (cases | {"services": _services, "pending": _pending, "herd": _herd})[case]()
    guard = removal_guard(plan)
    assert render.text(plan, replace(SETTING, guard=guard)) == golden


BASIS = Basis(namespace="prod", epoch="e1", release=118, running="1" * 64, template="3f9c1ab2" * 5, schedules=41)


def _saved(plan: Plan) -> SavedPlan:
    return SavedPlan(
        id="7c1e9d42aa01",
        made_at=NOW,
        by="alice@desk",
        basis=BASIS,
        plan=plan,
        words=Words(desired=SETTING.desired, running=SETTING.running),
    )


def test_a_saved_plan_and_another_tree(golden: SnapshotAssertion) -> None:
    saved = replace(SETTING, saved=_saved(_rename()), width=80)
    other = replace(
        SETTING,
        running="apps/ of commit 1a2b3c4d (main~2) · 2 apps, 6 schedules",
        is_against=True,
        remarks=("crm has errors in apps/ of commit 1a2b3c4d, and counts as absent there",),
        hint="Save:  relayctl plan --out plan.json     Apply:  relayctl apply",
    )
    assert "\n".join(render.text(_rename(), setting) for setting in (saved, other)) == golden


def test_a_comment_is_bounded_and_nothing_in_it_is_markup(golden: SnapshotAssertion) -> None:
    odd = "name: odd, cron: '@daily', input: {text: 'a|b <img src=x> `c` [d](e) &amp; @all #1'}"
    before = running(described({"billing": sample(NIGHTLY, "name: odd, every: 1d")}))
    plan = make_plan(described({"billing": sample(odd)}), before, now=NOW)
    shown = planmarkdown.markdown(plan, replace(SETTING, guard="a_guard *says* this"))
    many = [f"name: s{number}, cron: '{number % 60} 2 * * *', timezone: Europe/Rome" for number in range(900)]
    long = planmarkdown.markdown(make_plan(described({"billing": sample(*many)}), running(), now=NOW), SETTING)
    assert len(long) < 65_000
    assert "801 more" in long
    assert shown == golden


def test_refusals_of_a_saved_plan(golden: SnapshotAssertion) -> None:
    saved = _saved(_rename())
    other = Applied(serial=119, at=NOW + timedelta(minutes=6), by="bob@laptop", message="hotfix crm")
    fresh = make_plan(
        described({"billing": sample(NIGHTLY)}), running(described({"billing": sample(NIGHTLY)})), now=NOW
    )
    found = [
        refusal_of(saved, replace(BASIS, namespace="test")),
        refusal_of(saved, replace(BASIS, release=119), applied=replace(other, message="")),
        refusal_of(saved, replace(BASIS, epoch="e2", schedules=0, release=None)),
        refusal_of(saved, replace(BASIS, schedules=0)),
        refusal_of(saved, replace(BASIS, release=119), latest=other, fresh=fresh),
        refusal_of(saved, replace(BASIS, running="2" * 64)),
        refusal_of(saved, replace(BASIS, template="ffff" * 10)),
    ]
    assert {each.reason for each in found if each is not None} == set(Reason)
    shown = []
    for each in found:
        assert each is not None
        message, way_out = refusal_words(each)
        shown.append(f"error: {message}\n  help: {way_out}\n")
    assert "\n".join(shown) == golden
