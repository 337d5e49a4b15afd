"""The rules of apps that lie in the tree and are run by others: read, kept where a template breaks, gone with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from support.fleet import replace_file

from relayctl.host.clock import SystemClock
from relayctl.sources.directory import DirectorySource
from relayctl.worker.elsewhere import Elsewhere

if TYPE_CHECKING:
    from pathlib import Path

RULE = "runtime: python\nevents: [{handler: jobs.on, pattern: {kind: [%s]}}]\n"


def write(root: Path, name: str, kind: str) -> None:
    (root / name).mkdir(exist_ok=True)
    replace_file(root / name / "template.yaml", RULE % kind)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two apps without code."""
    root = tmp_path / "apps"
    root.mkdir()
    write(root, "a", "a")
    write(root, "b", "b")
    return root


def elsewhere(tree: Path, *only: str) -> Elsewhere:
    return Elsewhere(DirectorySource(tree, SystemClock(), only=only))


def wanted(found: Elsewhere) -> dict[str, list[str]]:
    now = datetime.now(UTC)
    return {
        name: [kind for kind in ("a", "b", "c") if app.events[0].pattern.matches({"kind": kind}, now)]
        for name, app in found.apps.items()
    }


def test_a_worker_for_all_apps_has_none_elsewhere(tree: Path) -> None:
    found = elsewhere(tree)
    found.look()
    assert (found.apps, found.unread) == ({}, frozenset())


def test_rules_follow_the_templates_and_what_breaks_stays_as_it_was(tree: Path) -> None:
    found = elsewhere(tree, "a")
    assert found.unread is None, "before it has looked anything may be there"
    found.look()
    assert (wanted(found), found.unread) == ({"b": ["b"]}, frozenset())
    write(tree, "b", "c")
    write(tree, "c", "c")
    found.look()
    assert wanted(found) == {"b": ["c"], "c": ["c"]}
    write(tree, "b", "]")
    write(tree, "d", "]")
    found.look()
    assert (wanted(found), found.unread) == ({"b": ["c"], "c": ["c"]}, {"d"})
    write(tree, "b", "a")
    (tree / "c" / "template.yaml").unlink()
    found.look()
    assert wanted(found) == {"b": ["a"]}


def test_a_tree_that_is_away_changes_nothing(tree: Path) -> None:
    found = elsewhere(tree, "a")
    found.look()
    tree.rename(tree.with_name("away"))
    found.look()
    assert (wanted(found), found.unread) == ({"b": ["b"]}, frozenset())
