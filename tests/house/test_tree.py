"""Rules about the repository itself: sizes, doors, words, and data that nobody tests."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "relayctl"
MODULES = sorted(PACKAGE.rglob("*.py"))
TEXT = {".py", ".md", ".lua", ".yaml", ".yml", ".toml", ".json", ".sh", ".txt", ".cfg", ""}
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _files() -> Iterator[Path]:
    """What a clone holds, or would hold after the next commit."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, timeout=20).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        skipped = {".venv", ".git", "__pycache__"}
        listed = [_name(path) for path in ROOT.rglob("*") if skipped.isdisjoint(path.parts)]
    for name in listed:
        path = ROOT / name
        if name and path.is_file() and path.suffix in TEXT:
            yield path


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_is_small_and_says_what_it_is(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert len(source.splitlines()) <= 500, "split it by noun"
    docstring = ast.get_docstring(tree)
    assert docstring, "open with one to five lines: its role, and what it deliberately does not do"
    assert len(docstring.splitlines()) <= 6
    assert path.stem not in VAGUE_NAMES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= 60, f"{node.name} has {size} lines"


def test_modules_stay_small_as_a_whole() -> None:
    sizes = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES)
    assert sizes[len(sizes) // 2] <= 150
    assert sizes[len(sizes) * 9 // 10] <= 350


# Where each library is imported; a type may be named anywhere.
DOORS = {
    "redis": "relayctl/store/",
    "ruamel": "relayctl/templates/read.py",
    "_ruamel_yaml": "relayctl/templates/read.py",
    "jsonschema": "relayctl/templates/shape.py",
    "jsonschema_rs": "relayctl/templates/shape.py",
    "sqlite_utils": "relayctl/host/database.py",
    "watchfiles": "relayctl/sources/watch.py",
    "prometheus_client": "relayctl/worker/metrics.py",
    "croniter": "relayctl/cli/compare.py",
    "cron_descriptor": "relayctl/render/wording.py",
    "hiredis": "relayctl/store/scripts/__init__.py",
    "typer": "relayctl/cli/",
    "pytest": "relayctl/testing/plugin.py",
}


def _imports(node: ast.AST) -> Iterator[str]:
    """The libraries imported below a node, those for type checking alone left out."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield (node.module or "").partition(".")[0]
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


def test_a_library_has_one_door() -> None:
    imported = {(_name(path), name) for path in MODULES for name in _imports(ast.parse(path.read_text("utf-8")))}
    known = {*sys.stdlib_module_names, "relayctl", "relay_surroundings", "tzdata"}
    strangers = {name for _, name in imported if name not in known}
    assert strangers - set(DOORS) == set(), "give it a door, and a row above"
    assert [each for each in sorted(imported) if each[1] in DOORS and not each[0].startswith(DOORS[each[1]])] == []


def test_key_names_are_spelled_in_one_module() -> None:
    # A key is the namespace in braces, a colon and its kind; scripts get theirs in KEYS.
    key = re.compile(r"""["'f]\{+[^}"']*(?:ns|namespace|relay)[^}"']*\}+:[a-z]""")
    offenders = [
        _name(path) for path in MODULES if path.name != "keys.py" and key.search(path.read_text(encoding="utf-8"))
    ]
    scripts = [
        _name(path)
        for path in PACKAGE.rglob("*.lua")
        if re.search(r"""['"]\{?[a-z]*\}?:?(?:inv|sch|pub|hist|ready|leases|dlq):""", path.read_text(encoding="utf-8"))
    ]
    assert offenders + scripts == []


@pytest.mark.parametrize("folder", sorted(path.name for path in (ROOT / "golden").iterdir() if path.is_dir()))
def test_a_golden_folder_has_a_test(folder: str) -> None:
    test = ROOT / "tests" / "snapshot" / f"test_{folder}.py"
    assert test.is_file(), f"nothing compares with golden/{folder}"
    assert "golden" in test.read_text(encoding="utf-8")


# Written in halves, so that this file passes its own test.
_WORDS = (
    "tick" + "et",
    "assist" + "ant",
    "chat" + "gpt",
    "clau" + "de",
    "lang" + "uage model",
    "TO" + "DO",
    "FIX" + "ME",
    "XX" + "X",
)
_PATHS = ("/wo" + "rk/", "/ro" + "ot/", "/tmp/br" + "iefs")


def test_the_tree_speaks_of_the_project_alone() -> None:
    pattern = re.compile(rf"\b(?:{'|'.join(_WORDS)})s?\b|{'|'.join(_PATHS)}")
    found = [
        f"{_name(path)}:{number}: {match.group()}"
        for path in sorted(_files())
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert found == []


def test_test_modules_have_names_of_their_own() -> None:
    # pytest imports them by that name alone, and a second one of the same name stops the whole run.
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_the_readme_names_what_a_newcomer_types() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make serve" in readme
    assert "make test" in readme


def test_links_between_pages_lead_somewhere() -> None:
    pages = [path for path in _files() if path.suffix == ".md"]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8"))
    ]
    assert links
    assert [f"{_name(page)}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_what_continuous_integration_runs_can_be_run_by_hand() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    helped = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    assert {"help", "serve", "test", "lint", "bench", "golden"} <= helped
    assert targets == helped
