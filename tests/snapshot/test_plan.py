"""What a plan looks like: every kind of line, narrow and wide, and in each form."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.described import NOW, described, running, sample
from syrupy.assertion import SnapshotAssertion

from relayctl.core.description import Description
from relayctl.core.diff import Plan, make_plan, removal_guard
from relayctl.core.running import BrokenApp
from relayctl.render import plan as render
from relayctl.render import plandocument
from relayctl.render.plan import Setting

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
        "markdown": lambda: render.markdown(plan, SETTING),
        "jsonl": lambda: plandocument.stream(plan, SETTING),
        "json": lambda: json.dumps(plandocument.document(plan, SETTING), indent=2) + "\n",
    }[case]()
    assert "hunter" not in found
    assert found == golden


@pytest.mark.parametrize("case", ["refire", "rename", "in-sync", "mass-removal", "services"])
def test_case(case: str, golden: SnapshotAssertion) -> None:
    cases = {"refire": _refire, "rename": _rename, "in-sync": _in_sync, "mass-removal": _mass_removal}
    plan = (cases | {"services": _services})[case]()
    guard = removal_guard(plan)
    assert render.text(plan, replace(SETTING, guard=guard)) == golden
