"""What an environment is made from: which files count, and what makes two of them another."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from relayctl.runners.environ import base_environ
from relayctl.runners.environments.interpreters import Interpreters
from relayctl.runners.environments.recipe import Kind, Recipe, kind_of, recipe_of
from relayctl.runners.environments.references import of_requirements

LOCK = '[[package]]\nname = "lib"\nversion = "1"\nsource = { directory = "lib" }\n'
PACKAGES = {
    "packages": {
        "": {},
        "node_modules/t": {"resolved": "file:t.tgz"},
        "node_modules/l": {"resolved": "lib", "link": True},
        "node_modules/far": {"resolved": "https://registry.example/far.tgz"},
    }
}


def put(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def recipe(root: Path, runtime: str = "python") -> Recipe:
    found = recipe_of(runtime, root, Interpreters(base_environ()))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("runtime", "names", "expected"),
    [
        ("python", ("requirements.txt", "uv.lock", "package-lock.json"), Kind.UV),
        ("python", ("requirements.txt", "package-lock.json"), Kind.PIP),
        ("python3.11", ("requirements.txt",), Kind.PIP),
        ("python", ("package-lock.json", "package.json"), None),
        ("python", ("pyproject.toml",), None),
        ("node", ("requirements.txt", "package-lock.json"), Kind.NPM),
        ("node", ("requirements.txt",), None),
        ("exec", ("requirements.txt", "package-lock.json"), Kind.PIP),
        ("", ("package-lock.json",), Kind.NPM),
        ("", (), None),
    ],
)
def test_the_runtime_says_which_file_counts(
    tmp_path: Path, runtime: str, names: tuple[str, ...], expected: Kind | None
) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert kind_of(runtime, tmp_path) is expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "-r more/dev.txt\n-c limits.txt\n./lib\nother.whl\nx\n"),
        ("more/dev.txt", "y==2\n"),
        ("limits.txt", "y<3\n"),
        ("lib/lib.py", "new"),
        ("lib/another.py", ""),
        ("other.whl", "new"),
    ],
)
def test_what_the_file_names_counts_too(tmp_path: Path, name: str, text: str) -> None:
    included = "-r more/dev.txt\n-c limits.txt # why\n./lib ; python_version > '3'\nother.whl\n"
    put(tmp_path, {"requirements.txt": included, "more/dev.txt": "y==1\n-r dev.txt\n", "limits.txt": ""})
    put(tmp_path, {"lib/lib.py": "", "other.whl": "", "jobs.py": "", "lib/__pycache__/x.pyc": ""})
    before = recipe(tmp_path).key
    put(tmp_path, {"jobs.py": "changed", "lib/__pycache__/x.pyc": "changed"})
    assert recipe(tmp_path).key == before, "code does not"
    put(tmp_path, {name: text})
    assert recipe(tmp_path).key != before


def test_equal_contents_share_an_environment_unless_it_points_into_the_app(tmp_path: Path) -> None:
    one, two = (put(tmp_path / name, {"requirements.txt": "./lib\n", "lib/lib.py": ""}) for name in "ab")
    assert recipe(one).key == recipe(two).key
    for root in (one, two):
        put(root, {"requirements.txt": "--editable=./lib\n"})
    assert recipe(one).key != recipe(two).key


def test_the_other_lock_files_name_local_packages_too(tmp_path: Path) -> None:
    put(tmp_path, {"uv.lock": LOCK, "pyproject.toml": "", "lib/lib.py": "", "t.tgz": ""})
    put(tmp_path, {"package-lock.json": json.dumps(PACKAGES), "package.json": "{}"})
    python, node = recipe(tmp_path), recipe(tmp_path, "node")
    assert (python.file, node.file) == ("uv.lock", "package-lock.json")
    put(tmp_path, {"lib/lib.py": "new"})
    assert python.key != recipe(tmp_path).key
    assert node.key != (third := recipe(tmp_path, "node")).key
    put(tmp_path, {"t.tgz": "new"})
    assert third.key != recipe(tmp_path, "node").key


@pytest.mark.parametrize("name", ["uv.lock", "requirements.txt"])
@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\0",
        b"-r\n-r nowhere.txt\n./gone\n[[[",
        b"",
        b"[package]\n",
        b"package = 3",
        b"x = " + b"[" * 5000,
        b"x = " + b"1" * 5000,
        b"/dev/zero\nfile:///dev/zero\n-e ./lib\n",
        b'[[package]]\nsource = { path = "/dev/zero" }\n[[package]]\nsource = { directory = "lib" }\n',
    ],
)
def test_any_file_has_a_key(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "lib").mkdir()
    os.mkfifo(tmp_path / "lib" / "pipe")
    (tmp_path / name).write_bytes(content)
    assert recipe(tmp_path).key


@pytest.mark.parametrize("name", ["requirements.txt", "more.txt"])
def test_a_file_beyond_all_measure_is_not_read_whole(tmp_path: Path, name: str) -> None:
    put(tmp_path, {"requirements.txt": "-r more.txt\n", "more.txt": ""})
    with (tmp_path / name).open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="File too large"):
        recipe(tmp_path)


def test_a_chain_of_files_may_be_as_long_as_it_likes(tmp_path: Path) -> None:
    put(tmp_path, {f"{number}.txt": f"-r {number + 1}.txt\n" for number in range(1000)})
    put(tmp_path, {"requirements.txt": "-r 0.txt\n", "1000.txt": ""})
    assert len(of_requirements(tmp_path).files) == 1002


@pytest.mark.parametrize("content", [b"[]", b'{"packages": 1}', b'{"packages": {"x": 1}}', b"{" * 100_000, b"\xff"])
def test_any_package_lock_has_a_key(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "package-lock.json").write_bytes(content)
    assert recipe(tmp_path, "node").key


def test_another_interpreter_makes_another_environment_and_a_missing_one_none(tmp_path: Path) -> None:
    put(tmp_path, {"app/requirements.txt": "x\n"})
    shim = put(tmp_path, {"bin/python3.11": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'}) / "bin" / "python3.11"
    shim.chmod(0o755)
    interpreters = Interpreters({"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    named = recipe_of("python3.11", tmp_path / "app", interpreters)
    assert named is not None
    assert named.interpreter == shim
    assert recipe_of("python3.99", tmp_path / "app", interpreters) is None
    shim.write_text("#!/bin/sh\nexit 127\n")
    assert recipe_of("python3.11", tmp_path / "app", Interpreters({"PATH": str(tmp_path / "bin")})) is None
