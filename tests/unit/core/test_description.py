"""What a description says of an app: meaning and not spelling, and no value that is nobody's business."""

from __future__ import annotations

import json

import pytest
from support.described import sample
from support.templates import checked

from relayctl.core.description import Description, describe_app, describe_schedule


def fields(schedule: str) -> dict[str, str]:
    return describe_schedule(sample(schedule).schedules[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("name: a, cron: '0 3 * * *', timeout: 20s", "name: a, cron: '0 3 * * *', timeout: 20000ms"),
        ("name: a, cron: '0 3 * * *'", 'name: a, timezone: UTC, cron: "0  3 * *   *"'),
        ("name: a, every: 90m", "every: 1h30m, name: a"),
        ("name: a, every: 60s, retries: 4, timeout: 6s", "name: a, every: 1m"),
        ("name: a, every: 1m, backoff: [1m, 2m, 5m, 10m]", "name: a, every: 1m"),
        ("name: a, every: 1m, input: {b: 1, a: 2}", "name: a, every: 1m, input: {a: 2, b: 1}"),
        ("name: a, every: 1m, description: one", "name: a, every: 1m, description: other"),
        (
            "name: a, cron: '0 3 * * *', dst: {gap: run, fold: both}",
            "name: a, cron: '0 3 * * *', dst: {fold: both, gap: run}",
        ),
    ],
)
def test_equal_meanings_are_equal(one: str, other: str) -> None:
    assert fields(one) == fields(other)


def test_a_cron_stays_as_it_was_written_and_its_hash_does_not_care() -> None:
    short, long = fields("name: a, cron: '@daily'"), fields("name: a, cron: '0 0 * * *'")
    assert (short["cron"], long["cron"]) == ("@daily", "0 0 * * *")
    assert short["hash"] == long["hash"]


def test_everything_that_matters_is_in_it() -> None:
    plain = fields("name: a, every: 1m")
    for edit in (
        "timeout: 7s",
        "retries: 1",
        "overlap: skip",
        "catch_up: none",
        "jitter: 5s",
        "input: {x: 1}",
        "enabled: false",
        "backoff: [1s]",
    ):
        assert fields(f"name: a, every: 1m, {edit}") != plain, edit


def test_values_are_digests_and_secrets_are_references() -> None:
    head = "env: {TOKEN: hunter2}\nsecrets: {KEY: the-key}\n"
    text = describe_app(sample(head=head), "r").to_json()
    assert "hunter2" not in text
    assert '"secrets.KEY":"the-key"' in text
    other = describe_app(sample(head=head.replace("hunter2", "hunter3")), "r")
    assert other.settings["env.TOKEN"] != describe_app(sample(head=head), "r").settings["env.TOKEN"]


def test_services_and_settings() -> None:
    app, _ = checked(
        "runtime: python\nresources: {memory: 1GiB, cpus: 0.5, pids: 9}\nservices:\n"
        "  - {name: web, command: [./serve, --fast], port: 3000, replicas: 2, check: {path: /up}}\n"
    )
    assert app is not None
    found = describe_app(app, "r")
    assert found.settings["memory"] == str(1 << 30)
    assert found.services["web"]["command"] == '["./serve", "--fast"]'
    assert found.services["web"]["check"].startswith("/up every ")


def test_a_report_of_a_higher_version_is_not_read() -> None:
    document = json.loads(describe_app(sample(), "r").to_json())
    assert Description.from_json(json.dumps(document | {"v": 99, "more": 1})) is None
