"""A tree as it is compared: the same apps, digests and errors as a lint of it, whoever reads it and wherever."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from support.cases import NOW, invalid_cases

from relayctl.core.description import describe_app
from relayctl.core.occurrence import epoch_seconds
from relayctl.templates.described import describe_tree
from relayctl.templates.load import load_tree

ROOT = Path(__file__).resolve().parents[3]
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    "apps", [ROOT / "apps", *(case.apps for case in invalid_cases())], ids=lambda path: path.parent.name
)
def test_it_has_the_apps_and_the_errors_of_a_lint(apps: Path) -> None:
    linted, found = load_tree(apps, now=NOW), describe_tree(apps, now=NOW, horizon=DAY)
    assert found.digest == linted.digest
    assert found.descriptions() == {
        each.name: describe_app(each.app, each.digest) for each in linted.apps if each.app is not None
    }
    assert [problem for problem in found.problems if problem.is_error] == [
        problem for problem in linted.problems if problem.is_error
    ]
    assert {each.name: each.limits for each in found.apps if each.description is not None} == {
        each.name: each.app.resources.declared for each in linted.apps if each.app is not None
    }


def _large(root: Path) -> Path:
    for number in range(3):
        (root / f"app-{number}").mkdir(parents=True)
        rows = [f"  - {{name: s{at}, handler: jobs.run, cron: '{at} 3 * * *'}}\n" for at in range(5)]
        text = "runtime: python\nevents:\n  - {handler: jobs.run, pattern: {kind: [a]}}\nschedules:\n"
        (root / f"app-{number}" / "template.yaml").write_text(text + "".join(rows))
        (root / f"app-{number}" / "jobs.py").write_text("def run(event):\n    pass\n")
    return root


def test_several_processes_say_the_same_and_leave_time_for_something_else(tmp_path: Path) -> None:
    root, done = _large(tmp_path / "apps"), []
    alone = describe_tree(root, now=NOW, horizon=DAY, processes=1, meanwhile=lambda: done.append("alone"))
    shared = describe_tree(root, now=NOW, horizon=DAY, processes=2, meanwhile=lambda: done.append("shared"))
    assert alone == shared
    assert done == ["shared"]
    assert set(shared.firings().values()) == {1}


def test_what_it_counts_is_what_fires_in_the_window(tmp_path: Path) -> None:
    root = _large(tmp_path / "apps")
    counts = describe_tree(root, now=NOW, horizon=timedelta(days=2)).firings()
    trigger = load_tree(root).valid()[0].schedules[0].trigger
    firings = list(trigger.between(NOW, NOW + timedelta(days=2)))
    assert epoch_seconds(firings[0]) > epoch_seconds(NOW)
    assert set(counts.values()) == {len(firings)}


def test_no_tree_is_trouble_and_not_emptiness(tmp_path: Path) -> None:
    assert describe_tree(tmp_path / "missing", now=NOW, horizon=DAY).trouble is not None
    assert describe_tree(tmp_path, now=NOW, horizon=DAY).trouble is None
