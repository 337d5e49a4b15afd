"""Numbers agree with their nouns: `counted` itself, and that nothing puts a noun in the plural behind a count by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import relayctl
from relayctl.core.counting import counted, listed

_PACKAGE = Path(relayctl.__file__).parent
_NOUNS = re.compile(
    r" (?:more )?(?:apps|bytes|characters|commands|comments|days|errors|files|findings|firings|fixes|handlers|hours|jobs"
    r"|letters|lines|messages|minutes|problems|replicas|rows|rules|runs|schedules|spaces|times|warnings|words|workers)\b"
)
_NEVER_ONE = {
    "cli/logs.py": "runs",  # one would not have been refused
    "core/crontext.py": "characters",  # too many
    "core/names.py": "characters",  # too many
    "core/pattern.py": "characters",  # four and more
    "render/firing.py": "times",  # more than are listed
    "templates/rules/formers.py": "schedules",  # of several that claim one
    "templates/rules/herd.py": "schedules",  # a crowd
}


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1000, "1,000 jobs"), (-1, "-1 jobs")]
)
def test_one_is_the_singular(number: int, text: str) -> None:
    assert counted(number, "job") == text


@pytest.mark.parametrize(
    ("names", "noun", "text"),
    [
        ((), "", ""),
        (("a", "b"), "app", "a, b"),
        (("a", "b", "c"), "", "a, b and 1 more"),
        (("a", "b", "c"), "app", "a, b and 1 more app"),
        (("a", "b", "c", "d"), "app", "a, b and 2 more apps"),
    ],
)
def test_what_is_left_out_of_a_list_is_counted(names: tuple[str, ...], noun: str, text: str) -> None:
    assert listed(names, 2, noun) == text


def test_no_count_has_its_plural_by_hand() -> None:
    found = {
        f"{path.relative_to(_PACKAGE)}: {noun.strip()}"
        for path in _PACKAGE.rglob("*.py")
        for noun in _by_hand(path)
        if _NEVER_ONE.get(str(path.relative_to(_PACKAGE))) != noun.split()[-1]
    }
    assert found == set()


def _by_hand(path: Path) -> Iterator[str]:
    """Plurals right behind the length of something."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        for count, text in zip(node.values, node.values[1:], strict=False):
            if isinstance(count, ast.FormattedValue) and _is_length(count.value) and isinstance(text, ast.Constant):
                noun = _NOUNS.match(str(text.value))
                if noun is not None:
                    yield noun[0]


def _is_length(node: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len"
        for part in ast.walk(node)
    ) and not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != "len")
