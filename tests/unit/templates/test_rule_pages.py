"""The pages of the rules: each example is run, and gives what its page says under the caret that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cases import NOW

from relayctl.core.problem import Problem, Severity
from relayctl.templates.fixes.app import bench_of
from relayctl.templates.load import load_tree
from relayctl.templates.rules.engine import USUAL
from relayctl.templates.rules.herd import HERD
from relayctl.templates.rules.pages import APP, Example, Form, RulePage, link_target, pages
from relayctl.templates.rules.registry import BY_CODE, FixKind

_PAGES = pages()
_RUN = [page for page in _PAGES.values() if page.form is not Form.CONSOLE]
_NOT_IN_FILES = {"RLY110", "RLY503"}
"""Driven by their own tests: no key is deprecated, and twenty schedules are no example."""


def _written(example: Example, root: Path) -> Path:
    apps = root / "apps"
    apps.mkdir(parents=True)
    (root / "elsewhere").mkdir()
    (root / "schemas").mkdir()
    (root / "schemas" / "template.schema.json").touch()
    for path, content in example.files.items():
        place, target = apps / path, link_target(content)
        place.parent.mkdir(parents=True, exist_ok=True)
        if target is not None:
            place.symlink_to(target)
        else:
            place.write_text(content, encoding="utf-8")
    return apps


def _found(page: RulePage, example: Example, root: Path) -> list[Problem]:
    """The findings, without remarks unless the page is one's."""
    is_remark = BY_CODE[page.code].severity is Severity.INFO
    problems = load_tree(_written(example, root), now=NOW).problems
    return [problem for problem in problems if is_remark or problem.severity is not Severity.INFO]


@pytest.mark.parametrize("page", _RUN, ids=lambda page: page.code)
def test_the_bad_example_gives_the_code_once_under_its_caret(page: RulePage, tmp_path: Path) -> None:
    found = _found(page, page.bad, tmp_path)
    assert [problem.code for problem in found] == [page.code]
    place = found[0].place
    assert page.token or page.form is Form.TREE or page.code == "RLY015"
    if page.token:
        line = (tmp_path / "apps" / "sample" / "template.yaml").read_text(encoding="utf-8").split("\n")[place.line - 1]
        shown = line[place.column - 1 :]
        # What is secret is under stars, and so is its length.
        assert shown.startswith(page.token) if page.code[3] == "6" else shown[: place.length] == page.token


@pytest.mark.parametrize("page", _RUN, ids=lambda page: page.code)
def test_the_good_example_gives_nothing(page: RulePage, tmp_path: Path) -> None:
    assert _found(page, page.good, tmp_path) == []


@pytest.mark.parametrize("page", _RUN, ids=lambda page: page.code)
def test_the_finding_keeps_what_its_rule_promises(page: RulePage, tmp_path: Path) -> None:
    problem = _found(page, page.bad, tmp_path)[0]
    rule = BY_CODE[page.code]
    assert (problem.message, problem.help) == (page.says, page.help)
    assert problem.help
    assert problem.severity is rule.severity
    assert (problem.fix is not None) == (rule.fix is not FixKind.NONE)
    assert problem.fix is None or rule.fix is FixKind.SAFE or not problem.fix.is_safe
    if problem.severity is Severity.WARNING:
        said = " ".join((problem.message, problem.detail, *problem.notes))
        for quoted in (page.token, page.token.strip("\"'")):
            said = said.replace(quoted, "") if quoted else said
        assert any(char.isdigit() for char in said), said


@pytest.mark.parametrize("page", _RUN, ids=lambda page: page.code)
def test_its_fix_cures_the_bad_example(page: RulePage, tmp_path: Path) -> None:
    if BY_CODE[page.code].fix is FixKind.NONE:
        return
    template = _written(page.bad, tmp_path) / APP / "template.yaml"
    bench = bench_of(template.parent, template.as_posix(), NOW, USUAL)
    mended = bench.mend(template.read_bytes(), lambda problem: problem.code == page.code)
    assert [problem.code for problem in mended.fixed] == [page.code]
    assert page.code not in [problem.code for problem in bench.judge(mended.data).problems]
    if page.code == "RLY504":
        assert mended.data.decode() == page.good.files[f"{APP}/template.yaml"]


def test_the_page_of_the_herd_has_its_size() -> None:
    page = _PAGES["RLY503"]
    assert f"in {HERD} schedules" in page.bad.shown
    assert f"in {HERD - 1} of them" in page.good.shown


def test_every_rule_has_a_page() -> None:
    assert set(_PAGES) == set(BY_CODE)
    assert {code for code, page in _PAGES.items() if page.form is Form.CONSOLE} == {
        *_NOT_IN_FILES,
        *(code for code, rule in BY_CODE.items() if rule.is_of_plan),
    }
