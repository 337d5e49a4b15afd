"""Every folder of `tests/cases/invalid` gives its own code, once, under the right token."""

from __future__ import annotations

import re

import pytest
from support.cases import NOW, InvalidCase, invalid_cases

from relayctl.core.problem import Severity
from relayctl.templates.load import load_tree
from relayctl.templates.rules.registry import BY_CODE, RULES

_CASES = invalid_cases()
_ELSEWHERE = {"RLY110", "RLY503", "RLY707", "RLY708"} | {rule.code for rule in RULES if rule.is_of_plan}
"""Judged at plan time, over several apps, or needing a link that a checkout cannot carry; no key is deprecated yet."""


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_one_cause_gives_one_finding(case: InvalidCase) -> None:
    tree = load_tree(case.apps, now=NOW)
    found = [problem for problem in tree.problems if problem.severity is not Severity.INFO]
    assert [problem.code for problem in found] == [case.code]
    problem = found[0]
    assert problem.message
    assert problem.help
    if case.code != "RLY008":
        assert problem.severity is BY_CODE[case.code].severity
    if case.token:
        data = next((case.apps).glob("*/template.y*ml")).read_bytes().decode()
        line = data.splitlines()[problem.place.line - 1]
        start = problem.place.column - 1
        if problem.code[3] != "6" and "****" not in (problem.excerpt or ""):
            assert line[start : start + problem.place.length] == case.token


def test_every_warning_states_a_number_and_every_finding_the_way_out() -> None:
    """A date, a count or a gap, beside what it quotes."""
    for case in _CASES:
        for problem in load_tree(case.apps, now=NOW).problems:
            assert problem.help, case.name
            said = " ".join((problem.message, problem.detail, *problem.notes)).replace(case.token or "", "")
            has_number = any(char.isdigit() for char in re.sub(r'"[^"]*"', "", said))
            assert problem.severity is not Severity.WARNING or has_number, (case.name, said)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_an_app_with_an_error_is_no_app(case: InvalidCase) -> None:
    tree = load_tree(case.apps, now=NOW)
    has_error = any(problem.is_error for problem in tree.problems)
    assert has_error == (not tree.valid())


def test_every_rule_that_one_app_can_break_has_a_case() -> None:
    wanted = {rule.code for rule in RULES if rule.severity is not Severity.INFO} - _ELSEWHERE
    assert wanted - {case.code for case in _CASES} == set()
