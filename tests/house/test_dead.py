"""Nothing is declared that nothing uses, and the page of the rooms names what is there."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from relayctl import errors
from relayctl.core import facts
from relayctl.settings import Settings
from relayctl.templates.rules.registry import RULES

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "relayctl"
ROOMS = "core|templates|importers|sources|store|broker|host|runners|worker|render|api|cli|testing"
RAISED_BY_CRON = re.compile(r"RLY20[1-5]")


@cache
def _code(*without: str) -> str:
    """The package's own Python, but for the files or folders of these names."""
    paths = (path for path in PACKAGE.rglob("*.py") if not any(path.is_relative_to(PACKAGE / name) for name in without))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@cache
def _architecture() -> str:
    return (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_fact_is_told() -> None:
    made = set(re.findall(r"(\w+)\(", _code("core/facts", "render")))
    kinds = [name for name, kind in vars(facts).items() if isinstance(kind, type) and getattr(kind, "event", "")]
    assert len(kinds) > 50
    assert sorted(set(kinds) - made) == []


def test_every_setting_is_read() -> None:
    read = set(re.findall(r"\.(\w+)", _code("settings.py")))
    assert sorted({field.name for field in dataclasses.fields(Settings)} - read) == []


def test_every_rule_is_raised() -> None:
    code = _code("templates/rules/registry.py", "templates/rules/pages")
    raised = set(re.findall(r"RLY\d{3}", code))
    missing = [rule.code for rule in RULES if rule.code not in raised and not RAISED_BY_CRON.fullmatch(rule.code)]
    assert missing == []
    assert sorted(raised - {rule.code for rule in RULES}) == []


def test_every_error_is_raised_or_caught() -> None:
    words = Counter(re.findall(r"\w+", _code("errors.py")))
    kinds = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert [name for name in kinds if words[name] < 2] == []


def test_every_script_is_called() -> None:
    names = [path.stem for path in (PACKAGE / "store" / "scripts").glob("*.lua") if not path.name.startswith("_")]
    assert [name for name in names if f'"{name}"' not in _code()] == []


@pytest.mark.parametrize("page", ["architecture.md", "CONTRIBUTING.md", "operations.md"])
def test_what_a_page_names_is_there(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = set(re.findall(rf"`((?:{ROOMS})(?:\.\w+)+)`", text))
    assert [name for name in sorted(named) if not _is_there(name)] == []
    scripts = set(re.findall(r"`(\w+\.lua)`", text))
    assert [name for name in sorted(scripts) if not (PACKAGE / "store" / "scripts" / name).exists()] == []


def test_the_table_of_versions_is_true() -> None:
    rows = re.findall(r"\| `([a-z_.]+)\.([A-Z_]+)`[^|]*\| (\d+) \|", _architecture())
    assert len(rows) > 15
    for module, name, version in rows:
        assert str(getattr(importlib.import_module(f"relayctl.{module}"), name)) == version, f"{module}.{name}"


def test_every_room_has_its_row() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {room for room in rooms if f"| `{room}` |" not in _architecture()} == set()


def test_the_words_of_the_glossary_are_used() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)[2:]
    words = [word for row in rows for word in row.split(", ")]
    assert len(words) > 50
    code = re.sub(r"[\s_-]+", "", _code()).lower()
    assert [word for word in words if re.sub(r"[\s-]", "", word).lower() not in code] == []


def _is_there(name: str) -> bool:
    """Whether that is a module, or a name in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:length])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.exists():
            words = set(re.findall(r"\w+", file.read_text(encoding="utf-8")))
            return words.issuperset(parts[length:])
    return False
