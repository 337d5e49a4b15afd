"""The tree: which directories are apps, which files are theirs, and digests that change when they should."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.templates import SERVICE, write_app

from relayctl.templates.find import FileHashes, app_digest, app_files, find_apps


def test_apps_in_order_and_nothing_else(tmp_path: Path) -> None:
    for name in ("b", "a.1", "c_2", ".hidden", "node_modules", "__pycache__"):
        write_app(tmp_path, name, SERVICE, {})
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    tree = find_apps(tmp_path)
    assert tree.is_readable
    assert [app.name for app in tree.apps] == ["a.1", "b", "c_2"]
    assert tree.problems == ()


@pytest.mark.parametrize("name", ["a b", "A", "x:y", "x" * 64, "x.", "-x", "_x", "ü", "a\nb"])
def test_names_are_refused_and_the_others_go_on(tmp_path: Path, name: str) -> None:
    write_app(tmp_path, name, SERVICE, {})
    write_app(tmp_path, "fine", SERVICE, {})
    tree = find_apps(tmp_path)
    assert [app.name for app in tree.apps] == ["fine"]
    assert [problem.code for problem in tree.problems] == ["RLY702"]


def test_an_unreadable_root_is_not_an_empty_one(tmp_path: Path) -> None:
    assert find_apps(tmp_path).trouble is None
    assert find_apps(tmp_path / "gone").trouble == "it does not exist"
    (tmp_path / "file").write_text("")
    assert find_apps(tmp_path / "file").trouble == "it is not a directory"
    (tmp_path / "loop").symlink_to("loop")
    assert find_apps(tmp_path / "loop").trouble is not None


def test_links_are_followed_inside_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "apps"
    write_app(root, "real", SERVICE, {})
    write_app(tmp_path, "outside", SERVICE, {})
    (root / "linked").symlink_to("real")
    (root / "leaving").symlink_to("../outside")
    (root / "dangling").symlink_to("nowhere")
    (root / "self").symlink_to(".")
    tree = find_apps(root)
    assert [app.name for app in tree.apps] == ["linked", "real"]
    assert [(problem.code, Path(problem.place.file).name) for problem in tree.problems] == [
        ("RLY707", "dangling"),
        ("RLY707", "leaving"),
        ("RLY707", "self"),
    ]


def test_a_root_behind_a_link_is_its_target(tmp_path: Path) -> None:
    write_app(tmp_path / "v1", "a", SERVICE, {})
    (tmp_path / "apps").symlink_to("v1")
    tree = find_apps(tmp_path / "apps")
    assert [app.path for app in tree.apps] == [tmp_path / "apps" / "a"]
    assert tree.apps[0].real == (tmp_path / "v1" / "a").resolve()


@pytest.mark.parametrize("name", ["template.yml", "Template.yaml", "TEMPLATE.YML"])
def test_a_wrong_file_name_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).write_text(SERVICE)
    assert [problem.code for problem in find_apps(tmp_path).problems] == ["RLY014"]


_NOISE = [
    ".template.yaml.swp",
    "template.yaml~",
    "4913",
    "#template.yaml#",
    ".#template.yaml",
    "x.pyc",
    ".git/index.lock",
    "__pycache__/x.pyc",
    "node_modules/a/b.js",
    ".venv/lib/x.py",
    "jobs/__pycache__/y.pyc",
    "x.swo",
    "a.egg-info/PKG-INFO",
]


@pytest.mark.parametrize("name", _NOISE)
def test_noise_changes_no_digest_and_is_no_app(tmp_path: Path, name: str) -> None:
    directory = write_app(tmp_path, "a", SERVICE)
    before = app_digest(directory)
    noise = directory / name
    noise.parent.mkdir(parents=True, exist_ok=True)
    noise.write_text("x")
    assert app_digest(directory) == before
    assert [app.name for app in find_apps(tmp_path).apps] == ["a"]
    assert [path.as_posix() for path in app_files(directory)] == ["jobs.py", "template.yaml"]


def test_every_change_of_the_app_changes_its_digest(tmp_path: Path) -> None:
    directory = write_app(tmp_path, "a", SERVICE, {"jobs.py": "1", "sub/x.txt": "2"})
    hashes = FileHashes()
    seen = {app_digest(directory, hashes)}

    def changed() -> None:
        digest = app_digest(directory, hashes)
        assert digest == app_digest(directory)
        assert digest not in seen
        seen.add(digest)

    (directory / "jobs.py").write_text("3")
    changed()
    (directory / "jobs.py").chmod(0o755)
    changed()
    (directory / "jobs.py").rename(directory / "other.py")
    changed()
    (directory / "sub/y.txt").write_text("")
    changed()
    (directory / "sub/x.txt").unlink()
    changed()


def test_a_change_that_stat_cannot_see_is_still_seen_at_once(tmp_path: Path) -> None:
    directory = write_app(tmp_path, "a", SERVICE, {"x": "1"})
    hashes = FileHashes()
    before = app_digest(directory, hashes)
    status = (directory / "x").stat()
    (directory / "x").write_text("2")
    os.utime(directory / "x", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert app_digest(directory, hashes) != before


def test_an_unchanged_tree_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_app(tmp_path, "a", SERVICE, {"x": "1"})
    hashes = FileHashes()
    app_digest(directory, hashes)
    expected = app_digest(directory, hashes)
    reads: list[str] = []
    monkeypatch.setattr("relayctl.templates.find._hash_file", lambda path: reads.append(path) or b"")
    assert app_digest(directory, hashes) == expected
    assert reads == []
    assert len(hashes) == 2
    hashes.forget(directory)
    assert len(hashes) == 0
