"""A document to an App: defaults, rules between keys, and triggers through the core."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.templates import SERVICE, checked, errors, schedule

from relayctl.core.cron import Cron, Every, Gap
from relayctl.core.model import CatchUp, Contract, Isolation, Overlap, Resources
from relayctl.core.problem import Severity

_CRONS = Path(__file__).resolve().parents[2] / "cases" / "cron" / "realworld_crons.json"

OTHER = "  - {{name: other, handler: jobs.run, cron: 7 4 * * *, moved_from: {}}}\n"


def test_defaults() -> None:
    app, _ = checked(schedule('cron: "0 3 * * *"'))
    assert app is not None
    assert (app.concurrency, app.isolation, app.resources, app.env) == (2, Isolation.WARM, Resources(), ())
    nightly = app.schedule("nightly")
    assert nightly is not None
    assert nightly.contract == Contract(handler="jobs.run")
    assert nightly.contract.timeout == timedelta(seconds=6)
    assert not nightly.contract.has_own_timeout
    assert isinstance(nightly.trigger, Cron)
    assert nightly.trigger.timezone == "UTC"
    assert nightly.place is not None
    assert (nightly.place.line, nightly.place.label) == (6, 'schedules[0] "nightly"')


def test_every_key() -> None:
    app, problems = checked(
        schedule(
            'cron: "*/10 * * * *"',
            "timezone: Europe/Rome",
            "dst: {gap: skip}",
            "timeout: 1m30s",
            "retries: 0",
            "backoff: [1s, 2m]",
            "enabled: false",
            "overlap: queue",
            "catch_up: all",
            "jitter: 4m",
            "input: {b: [1, null], a: é}",
            "moved_from: other/old.name",
            "description: says",
        )
        + "resources: {memory: 1.5GiB, cpus: 2, pids: 3}\nsecrets: {Z: z-1}\nenv: {B: 1, A: x, C: true, D: 1.5}\n"
    )
    assert not [problem for problem in problems if problem.is_error]
    assert app is not None
    found = app.schedules[0]
    assert isinstance(found.trigger, Cron)
    assert found.trigger.dst.gap is Gap.SKIP
    assert found.contract.backoff == (timedelta(seconds=1), timedelta(minutes=2))
    assert (found.contract.timeout, found.contract.retries) == (timedelta(seconds=90), 0)
    assert (found.enabled, found.overlap, found.catch_up) == (False, Overlap.QUEUE, CatchUp.ALL)
    assert found.jitter == timedelta(minutes=4)
    assert found.input == '{"a":"é","b":[1,null]}'
    assert found.moved_from == ("other", "old.name")
    assert app.resources == Resources(memory=3 << 29, cpus=2.0, pids=3)
    assert app.env == (("A", "x"), ("B", "1"), ("C", "true"), ("D", "1.5"))


def test_templates_that_mean_the_same_are_equal() -> None:
    one, _ = checked(schedule('cron: "@daily"', "timeout: 20s", "input: {a: 1, b: 2}") + "env: {A: x, B: y}\n")
    two, _ = checked(
        "env: {B: 'y', \"A\": x}\n"
        + schedule("input: {b: 2, a: 1}", "timeout: 20000ms", "cron: 0 0 * * *", "timezone: UTC", "retries: 4")
    )
    assert one is not None
    assert one == two


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (schedule("every: 90s"), []),
        (schedule("every: 0s"), ["RLY108"]),
        (schedule("every: 1500ms"), ["RLY108"]),
        (schedule("every: soon"), ["RLY107"]),
        (schedule('cron: "0 3 * * *"', "timeout: 0"), ["RLY107"]),
        (schedule('cron: "0 3 * * *"', "timeout: 0s"), ["RLY108"]),
        (schedule('cron: "0 3 * * *"', "timeout: -5s"), ["RLY107"]),
        (schedule('cron: "0 3 * * *"', "retries: 1e0"), ["RLY103"]),
        (schedule('cron: "0 3 * * *"', "retries: -1"), ["RLY108"]),
        (SERVICE + "    replicas: 2.0\n", ["RLY103"]),
        (SERVICE + "    port: 8080.0\n", ["RLY103"]),
        (SERVICE + "    port: 0\n", ["RLY108"]),
        (SERVICE + "    port: 65535\n    replicas: 2\n", ["RLY108"]),
        (SERVICE + "    port: 65535\n", []),
        (SERVICE + "concurrency: 0\n", ["RLY108"]),
        (SERVICE + "env: {SHA: 0757192, SHA2: 1e3, SHA3: 12e03, MODE: 010}\n", ["RLY010"] * 4),
        (SERVICE + "env: {BIG: 12345678901234567890}\n", []),
        (SERVICE + "env: {A: x}\nsecrets: {A: b}\n", ["RLY104"]),
        (SERVICE + "secrets: {A: ../b}\n", ["RLY104"]),
        (SERVICE + "    check: {path: /x}\n", ["RLY102"]),
        (SERVICE + "    port: 1\n    check: {path: /x, timeout: 0s}\n", ["RLY108"]),
        ("services:\n  - name: web\n    entrypoint: s.py\n", ["RLY102"]),
        (schedule("every: 1m", "jitter: 30s"), ["RLY108"]),
        (schedule("every: 1m", "jitter: 29s"), []),
        (schedule('cron: "0 9,10 * * 1"', "jitter: 30m"), ["RLY108"]),
        (schedule('cron: "0 3 * * *"', "moved_from: nightly"), ["RLY104"]),
        (schedule('cron: "0 3 * * *"', "moved_from: sample/nightly"), ["RLY104"]),
        (schedule('cron: "0 3 * * *"', "moved_from: sample/other") + OTHER.format("x/y"), ["RLY104"]),
        (schedule('cron: "0 3 * * *"', "moved_from: x/other") + OTHER.format("x/y"), []),
        (schedule('cron: "0 3 * * *"', "moved_from: x/other") + OTHER.format("x/other"), ["RLY104"]),
        (schedule('cron: "0 3 * * *"', name="-x"), ["RLY703"]),
        (schedule('cron: "0 3 * * *"', name="x."), ["RLY703"]),
        (schedule('cron: "0 3 * * *"', name="x" * 64), ["RLY703"]),
        (schedule('cron: "0 3 * * *"', name="1.10"), ["RLY010"]),
        (schedule('cron: ""'), ["RLY202"]),
    ],
)
def test_rules_between_keys(text: str, codes: list[str]) -> None:
    assert errors(text) == codes


@pytest.mark.parametrize(
    ("zone", "code"),
    [
        ("Local", "RLY302"),
        ("localtime", "RLY302"),
        ("posixrules", "RLY302"),
        ("Factory", "RLY302"),
        ("right/Europe/Rome", "RLY301"),
        ("europe/rome", "RLY301"),
        ("UTC+3", "RLY301"),
        ("GMT+8", "RLY301"),
        ('""', "RLY301"),
        ("null", "RLY103"),
        ("../../etc/hostname", "RLY301"),
        ("America/Los Angeles", "RLY301"),
        ("Etc/GMT-8", None),
        ("US/Eastern", None),
        ("Europe/Kiev", None),
    ],
)
def test_zones(zone: str, code: str | None) -> None:
    assert errors(schedule('cron: "0 3 * * *"', f"timezone: {zone}")) == ([] if code is None else [code])


def test_all_mistakes_of_a_file_come_in_one_run() -> None:
    text = schedule('cron: "0 0 3 * * *"', "timezone: Europe/Rom", "retires: 2", "timeout: 20 sec", "overlap: never")
    assert set(errors(text + "env: {A: 010}\n")) == {"RLY202", "RLY301", "RLY101", "RLY107", "RLY104", "RLY010"}


@pytest.mark.parametrize("item", json.loads(_CRONS.read_text("utf-8"))["items"], ids=lambda item: item["id"])
def test_schedules_people_wrote(item: dict[str, Any]) -> None:
    lines = [f"cron: {json.dumps(item['expression'])}"]
    if item["timezone"]:
        lines.append(f"timezone: {item['timezone']}")
    app, problems = checked(schedule(*lines))
    broken = [problem for problem in problems if problem.is_error]
    if item["verdict"] != "invalid":
        assert not broken
        assert app is not None
        return
    assert app is None
    portable = item.get("portable_form")
    if portable is not None:
        said = " ".join(f"{problem.message} {problem.help}" for problem in broken)
        assert portable["cron"] in said or "every: " in said


_DESERVED = {
    "RW11": ["RLY305", "RLY306"],
    "RW12": ["RLY305"],
    "RW15": ["RLY304"],
    "RW21": ["RLY209"],
    "RW23": ["RLY208"],
    "RW24": ["RLY208"],
    "RW32": ["RLY207"],
}
"""Written by people, and not what they thought: a night without 02:30, a reversed sign, a step that ends early."""


@pytest.mark.parametrize("item", json.loads(_CRONS.read_text("utf-8"))["items"], ids=lambda item: item["id"])
def test_schedules_people_wrote_are_warned_of_where_they_deserve_it_only(item: dict[str, Any]) -> None:
    portable = item.get("portable_form")
    if portable is None:
        return
    app, problems = checked(schedule(*(f"{key}: {json.dumps(value)}" for key, value in portable.items() if value)))
    assert app is not None
    warned = [problem.code for problem in problems if problem.severity is Severity.WARNING]
    assert warned == _DESERVED.get(item["id"], [])


def test_an_interval_is_a_trigger() -> None:
    app, _ = checked(schedule("every: 15m"))
    assert app is not None
    assert app.schedules[0].trigger == Every(seconds=900)
