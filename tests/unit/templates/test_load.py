"""From a tree on disk to apps and problems, with every kind of bad file in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.templates import HANDLERS, MODELINE, NOW, schedule, without_habits, write_app

from relayctl.templates.find import FileHashes
from relayctl.templates.load import load_app, load_tree

_GOOD = MODELINE + schedule('cron: "0 3 * * *"')


def test_one_broken_app_does_not_touch_the_others(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_app(tmp_path, name, _GOOD)
    write_app(tmp_path, "b", _GOOD.replace("timeout", "x").replace("cron:", "crn:"))
    tree = load_tree(tmp_path, now=NOW)
    assert [app.name for app in tree.valid()] == ["a", "c"]
    assert any(problem.is_error for problem in tree.problems)
    broken = tree.app("b")
    assert broken is not None
    assert broken.is_broken
    assert broken.digest
    assert broken.template_digest
    assert (broken.schedules, [problem.code for problem in broken.problems]) == (1, ["RLY101"])


def test_digests_tell_code_from_template(tmp_path: Path) -> None:
    directory = write_app(tmp_path, "a", _GOOD)
    before = load_app(directory, root=tmp_path, now=NOW)
    (directory / "jobs.py").write_text("def run(): ...\n")
    after = load_app(directory, root=tmp_path, now=NOW)
    assert after.digest != before.digest
    assert after.template_digest == before.template_digest
    assert after.app == before.app


def test_odd_files_are_problems(tmp_path: Path) -> None:
    (tmp_path / "directory" / "template.yaml").mkdir(parents=True)
    for name in ("dangling", "loop", "outside", "pipe", "large", "null"):
        (tmp_path / name).mkdir()
    (tmp_path / "dangling" / "template.yaml").symlink_to("gone")
    (tmp_path / "loop" / "template.yaml").symlink_to("template.yaml")
    (tmp_path / "outside" / "template.yaml").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe" / "template.yaml")
    (tmp_path / "large" / "template.yaml").write_bytes(b"a: " + b"x" * (2 << 20))
    (tmp_path / "null" / "template.yaml").write_bytes(b"a: \0")
    tree = load_tree(tmp_path, now=NOW)
    assert {loaded.name: [problem.code for problem in loaded.problems] for loaded in tree.apps} == {
        name: ["RLY001"] for name in ("dangling", "directory", "large", "loop", "null", "outside", "pipe")
    }
    assert tree.valid() == ()


def test_a_template_behind_a_link_within_the_app(tmp_path: Path) -> None:
    directory = write_app(tmp_path, "a", "", HANDLERS)
    (directory / "..2026").mkdir()
    (directory / "..2026" / "template.yaml").write_text(_GOOD)
    (directory / "..data").symlink_to("..2026")
    (directory / "template.yaml").unlink()
    (directory / "template.yaml").symlink_to("..data/template.yaml")
    assert load_app(directory, root=tmp_path, now=NOW).app is not None


def test_processes_give_the_same_answer(tmp_path: Path) -> None:
    for number in range(6):
        write_app(tmp_path, f"a{number}", _GOOD if number % 3 else _GOOD.replace("jobs.run", "jobs.rn"))
    assert load_tree(tmp_path, now=NOW, processes=2) == load_tree(tmp_path, now=NOW, processes=1)


def test_an_unreadable_root_has_no_apps_and_says_so(tmp_path: Path) -> None:
    tree = load_tree(tmp_path / "gone", now=NOW)
    assert (tree.apps, tree.trouble) == ((), "it does not exist")


def test_an_app_that_leaves_the_root(tmp_path: Path) -> None:
    write_app(tmp_path, "outside", _GOOD)
    root = tmp_path / "apps"
    root.mkdir()
    (root / "x").symlink_to("../outside")
    found = load_app(root / "x", root=root, now=NOW)
    assert [problem.code for problem in found.problems] == ["RLY707"]


def test_hashes_are_shared_between_passes(tmp_path: Path) -> None:
    write_app(tmp_path, "a", _GOOD)
    hashes = FileHashes()
    assert load_tree(tmp_path, now=NOW, hashes=hashes) == load_tree(tmp_path, now=NOW, hashes=hashes)
    assert len(hashes) == 2


def test_without_a_clock_no_date_is_stated(tmp_path: Path) -> None:
    text = MODELINE + schedule('cron: "30 2 * * *"', "timezone: Europe/Rome")
    directory = write_app(tmp_path, "a", text)
    assert load_app(directory, root=tmp_path).problems == ()
    found = without_habits(load_app(directory, root=tmp_path, now=NOW).problems)
    assert [problem.code for problem in found] == ["RLY305", "RLY306"]


@pytest.mark.parametrize(
    "name", ["jsonschema", "redis", "sqlite_utils", "croniter", "cron_descriptor", "watchfiles", "asyncio"]
)
def test_a_good_template_needs_no_heavy_import(tmp_path: Path, name: str) -> None:
    write_app(tmp_path, "a", _GOOD)
    program = (
        "import sys, pathlib; from relayctl.templates.load import load_tree;"
        f"assert load_tree(pathlib.Path({str(tmp_path)!r})).valid(); assert {name!r} not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_a_former_name_that_stays_in_another_app_is_found(tmp_path: Path) -> None:
    moved = _GOOD.replace("name: nightly", "name: moved\n    moved_from: a/nightly", 1)
    write_app(tmp_path, "a", _GOOD)
    write_app(tmp_path, "b", moved)
    for with_apps in (True, False):
        found = without_habits(load_tree(tmp_path, now=NOW, with_apps=with_apps).problems)
        assert [(problem.code, problem.place.file[-15:]) for problem in found] == [("RLY708", "b/template.yaml")]
        assert "which is still here" in found[0].message
    write_app(tmp_path, "a", _GOOD.replace("name: nightly", "name: other", 1))
    assert without_habits(load_tree(tmp_path, now=NOW).problems) == []


def test_a_herd_is_one_finding_with_free_minutes(tmp_path: Path) -> None:
    for number in range(25):
        write_app(tmp_path, f"a{number:02}", _GOOD.replace("0 3 * * *", "0 * * * *" if number % 2 else "0 3 * * *"))
    found = without_habits(load_tree(tmp_path, now=NOW).problems)
    assert [problem.code for problem in found] == ["RLY503"]
    assert "25 schedules fire in the minute 03:00 UTC" in found[0].message
    assert found[0].place.file.endswith("a24/template.yaml")
    assert ":00" not in found[0].help
    crowd = _GOOD.replace("name: nightly", "name: nightly  # relay: ignore[RLY503] they must meet")
    write_app(tmp_path, "a24", crowd)
    assert without_habits(load_tree(tmp_path, now=NOW).problems) == []
