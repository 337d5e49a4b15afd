"""The schema and the two validators that read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.cases import INVALID
from support.templates import MODELINE, SERVICE, checked, errors, schedule

from relayctl.templates.document import Document
from relayctl.templates.read import read
from relayctl.templates.schema import template_schema
from relayctl.templates.shape import detailed, is_valid


def _described(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, inner in node.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from _described(inner, f"{path}.{name}")


def _keys() -> list[tuple[str, dict[str, Any]]]:
    schema = template_schema()
    kinds = [pair for name, kind in schema["definitions"].items() for pair in _described(kind, name)]
    return [*_described(schema, ""), *kinds, *schema["definitions"].items()]


def test_the_schema_is_draft_07() -> None:
    jsonschema.Draft7Validator.check_schema(template_schema())
    assert template_schema()["$schema"] == "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(("path", "node"), _keys(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_key_explains_itself_to_an_editor(path: str, node: dict[str, Any]) -> None:
    if "$ref" in node:
        return
    assert {"title", "description", "examples"} <= set(node), path
    assert node["examples"], path
    # Editors show no pattern to anybody that has words, and an explanation beside each choice.
    assert ("pattern" in node) <= bool({"errorMessage", "patternErrorMessage"} & set(node)), path
    assert len(node.get("enum", ())) == len(node.get("enumDescriptions", ())), path
    if "default" in node:
        default = node["default"]
        words = ", ".join(default) if isinstance(default, list) else default if isinstance(default, str) else None
        # An editor's hover shows no default by itself.
        assert f"Default: {json.dumps(default) if words is None else words}" in node["description"], path
    elif path.count(".") == 1:
        assert re.search(r"Default: |No default: |Required", node["description"]), path


def test_examples_are_valid() -> None:
    schema = template_schema()
    for path, node in _keys():
        whole = {"definitions": schema["definitions"], **node}
        for example in node.get("examples", []):
            errors_found = list(jsonschema.Draft7Validator(whole).iter_errors(example))
            assert not errors_found, (path, example)


def test_every_mapping_is_closed() -> None:
    for path, node in _keys():
        if node.get("type") == "object" and node.get("properties"):
            assert node["additionalProperties"] is False, path


@pytest.mark.parametrize("file", sorted(INVALID.glob("*/apps/*/template.y*ml")), ids=lambda path: path.parts[-4])
def test_both_validators_agree_on_every_case(file: Path) -> None:
    found = read(file.read_bytes(), "t.yaml")
    if isinstance(found, Document):
        assert is_valid(found.value) == (not list(detailed().iter_errors(found.value)))


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (schedule('cron: "0 3 * * *"', "timeZone: UTC"), "RLY101", 'did you mean "timezone"'),
        (schedule('cron: "0 3 * * *"') + "timezone: UTC\n", "RLY106", "inside a schedules item"),
        (schedule('cron: "0 3 * * *"').replace("schedules:", "schedule:"), "RLY101", 'did you mean "schedules"'),
        (schedule('cron_expression: "0 3 * * *"'), "RLY101", 'did you mean "cron"'),
        (schedule('cron: "0 3 * * *"', "tz: Europe/Rome"), "RLY101", 'did you mean "timezone"'),
        (schedule('cron: "0 3 * * *"', "x-note: 1"), "RLY101", "at the top level only"),
        ("shared: &shared {timeout: 20s}\n" + SERVICE, "RLY101", '"x-shared"'),
        (SERVICE + "concurrency: 99999999999999999999\n", "RLY108", "range"),
        ("runtime: python\nevents:\n  - handler: a.b\n", "RLY102", 'an event rule needs "pattern"'),
        (schedule('cron: "0 3 * * *"', "timeout: 0"), "RLY107", "timeout: 20s"),
        (schedule('cron: "0 3 * * *"', "timeout: -5"), "RLY107", "timeout: 5s"),
        (SERVICE + "frobnicate: 1\n", "RLY101", "remove it"),
        (SERVICE + "concurrency:\n", "RLY103", "give it a value"),
        (SERVICE + 'concurrency: "2"\n', "RLY103", "remove the quotes"),
        (SERVICE + "env: {1A: x}\n", "RLY104", "rename it"),
        (SERVICE + "env: {A: [x]}\n", "RLY103", "write text"),
        (SERVICE + "env: {A: }\n", "RLY103", "give it a value"),
        (SERVICE + "resources: {memory: 256MB}\n", "RLY104", "256MiB"),
        (SERVICE + "resources: {cpus: 0}\n", "RLY108", "range"),
        (SERVICE + "resources: {cpus: true}\n", "RLY103", "a number"),
        ("services: []\n", "RLY104", "give it a value"),
        ("services:\n  - web\n", "RLY103", "mapping"),
        ("services:\n  -\n", "RLY103", "remove the item"),
        ("services:\n  - {name: w, command: [sleep, 5]}\n", "RLY103", 'quote it:  "5"'),
        (schedule('cron: "0 3 * * *"', "backoff: [5]"), "RLY107", "write  5s"),
        (schedule('cron: "0 3 * * *"', "overlap: true"), "RLY104", "allow or skip or queue"),
        (schedule('cron: "0 3 * * *"', "catch_up: ~"), "RLY103", "give it a value"),
        ("services: {name: web}\n", "RLY103", "list"),
        (schedule('cron: "0 3 * * *"', "dst: {gap: maybe}"), "RLY104", "skip or run"),
        (schedule('cron: "0 3 * * *"', "every: 15m"), "RLY104", "remove one"),
        (schedule('cron: "0 3 * * *"', "timezone: null"), "RLY103", "give it a value"),
        (schedule('cron: "0 3 * * *"', "backoff: []"), "RLY104", "give it a value"),
        (schedule('cron: "0 3 * * *"', "input: [1]"), "RLY103", "mapping"),
    ],
)
def test_wording(text: str, code: str, words: str) -> None:
    _, problems = checked(MODELINE + text)
    found = [problem for problem in problems if problem.is_error]
    assert [problem.code for problem in found] == [code]
    assert words in found[0].help


@pytest.mark.parametrize(("key", "meant"), [("schedule", "cron"), ("interval", "every"), ("crontab", "cron")])
def test_a_key_of_another_scheduler_is_told_its_name_here(key: str, meant: str) -> None:
    _, problems = checked(schedule(f'{key}: "0 3 * * *"'))
    unknown = next(problem for problem in problems if problem.code == "RLY101")
    assert f'did you mean "{meant}"' in unknown.help


@pytest.mark.parametrize(("hidden", "shown"), [("\u00a0", "u00a0"), ("\ufeff", "ufeff"), ("\u200b", "u200b")])
def test_a_character_that_nobody_sees_is_shown_in_a_key(hidden: str, shown: str) -> None:
    _, problems = checked(schedule('cron: "0 3 * * *"', f"{hidden}timezone: UTC"))
    assert any(shown in problem.message and "timezone" in problem.help for problem in problems)


def test_keys_of_ones_own_are_ignored() -> None:
    assert errors("x-anything: {a: [1, null]}\n" + SERVICE) == []


def test_no_message_repeats_a_value_of_the_environment() -> None:
    secret = "correct-horse-battery"
    for value in (f"[{secret}]", f"{{x: {secret}}}", f"!t {secret}", f"'{secret}", f"*{secret}", f"{secret}\n  \t- x"):
        _, problems = checked(f"{SERVICE}env:\n  API_SETTING: {value}\n")
        assert problems
        assert secret not in repr(problems)
