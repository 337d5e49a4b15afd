"""What `validate` prints, for every negative case and in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cases import NOW, InvalidCase, invalid_cases
from support.golden import golden
from support.templates import without_habits
from syrupy.assertion import SnapshotAssertion

from relayctl.core.problem import Place, Problem, Severity
from relayctl.render import problems as render
from relayctl.templates.load import LoadedTree, check_text, load_tree

_MIXED = """\
# yaml-language-server: $schema=../../schemas/template.schema.json
runtime: python
services:
  - name: web
    command: [./serve]
env:
  CRM_TOKEN: {token}
schedules:
  - name: nightly-cleanup
    handler: jobs.cleanup.handler
    cron: "0 3 * * *"
    timezone: Europe/Rom
    retires: 2
  - name: first-monday
    handler: jobs.report.handler
    cron: "0 9 1 * 1"
  - name: sync
    handler: jobs.sync.handler
    cron: "*/7 * * * *"
    timeout: 5m
    description: "Größe und 日本語, und noch viel mehr Text, der nicht in eine Zeile passt: {long}"
    enabld: true
"""
_TOKEN = "ghp_" + "Ab1" * 12


def _tree(case: InvalidCase, monkeypatch: pytest.MonkeyPatch) -> LoadedTree:
    monkeypatch.chdir(case.apps.parent)
    return load_tree(Path("apps"), now=NOW)


def _mixed() -> list[Problem]:
    text = _MIXED.format(token=_TOKEN, long="x" * 60)
    _, problems, _ = check_text(text.encode(), "apps/billing/template.yaml", "billing", None, NOW)  # type: ignore[arg-type]
    return without_habits(problems)


@pytest.mark.parametrize("case", invalid_cases(), ids=lambda case: case.name)
def test_case(case: InvalidCase, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    tree = _tree(case, monkeypatch)
    shown = [problem for problem in tree.problems if problem.severity is not Severity.INFO]
    assert render.text(shown, {}, 80, True) == golden(snapshot)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_width(width: int, snapshot: SnapshotAssertion) -> None:
    counts = render.Counts(files=14, schedules=41, took_s=0.21)
    assert render.text(_mixed(), {}, width, True, counts=counts) == golden(snapshot)


def test_ascii(snapshot: SnapshotAssertion) -> None:
    text = render.text(_mixed(), {}, 80, False)
    assert text.isascii()
    assert text == golden(snapshot)


def test_concise(snapshot: SnapshotAssertion) -> None:
    assert render.concise(_mixed()) == golden(snapshot)


def test_json(snapshot: SnapshotAssertion) -> None:
    counts = render.Counts(files=14, schedules=41, took_s=0.21)
    text = render.as_json(_mixed(), counts=counts)
    assert json.loads(text)["v"] == render.JSON_VERSION
    assert text == golden(snapshot)


def test_clean_run() -> None:
    counts = render.Counts(files=14, schedules=41, took_s=0.19)
    assert render.text([], {}, 80, True, counts=counts) == "14 files, 41 schedules: no problems (0.19 s)\n"


@pytest.mark.parametrize("is_unicode", [True, False])
def test_control_characters_never_reach_the_terminal(is_unicode: bool) -> None:
    place = Place(file="apps/\x1b[31m/t\u202e.yaml", line=1, column=3, length=2)
    problem = Problem(
        code="RLY104",
        severity=Severity.ERROR,
        place=place,
        message="bell \x07 and \x9b",
        help="\r\n\x00",
        excerpt="a\x1b]0;title\x07b\u2066",
    )
    for text in (render.text([problem], {}, 80, is_unicode), render.concise([problem])):
        assert all(char.isprintable() or char == "\n" for char in text)


def test_no_form_repeats_a_secret() -> None:
    problems = _mixed()
    assert any(problem.code == "RLY601" for problem in problems)
    source = {"apps/billing/template.yaml": _MIXED.format(token=_TOKEN, long="")}
    for text in (render.text(problems, source, 80, True), render.concise(problems), render.as_json(problems)):
        assert _TOKEN[4:12] not in text
