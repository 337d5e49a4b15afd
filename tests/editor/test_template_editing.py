"""A template in an editor: what hovering says, what is offered, and what is underlined in broken files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.editing import BROKEN, FULL, Broken
from support.languageserver import LanguageServer
from support.schema import SCHEMAS
from support.templates import checked

from relayctl.cli.scaffold import TEMPLATE
from relayctl.templates.document import Document
from relayctl.templates.keys import level_of, levels
from relayctl.templates.read import read
from relayctl.templates.schema import template_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent.parent
FILE = "apps/sample/template.yaml"
_FREE = {"env": "variable", "secrets": "secret", "pattern": "field", "input": "value"}
"""Keys whose own keys are the author's."""


def _keys(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Level and key of everything in a template, list items apart."""
    for item in node if isinstance(node, list) else [node]:
        for key, value in item.items() if isinstance(item, dict) else ():
            level = path[-1] if path else ""
            yield level, key
            if key not in _FREE and not key.startswith("x-"):
                yield from _keys(value, (*path, key))


def _schema_of(level: str, key: str) -> dict[str, Any]:
    document = template_schema()
    kinds = document["definitions"]
    holders = {
        "": document,
        "schedules": kinds["schedule"],
        "events": kinds["event"],
        "services": kinds["service"],
        "resources": document["properties"]["resources"],
        "dst": kinds["schedule"]["properties"]["dst"],
        "check": kinds["service"]["properties"]["check"],
    }
    found: dict[str, Any] = holders[level]["properties"][key]
    return kinds[found["$ref"].rpartition("/")[2]] if "$ref" in found else found


def _plain(text: str) -> str:
    """Words without what Markdown does to them."""
    return re.sub(r"\s+", " ", re.sub(r"\\(?=[^\w\s])|&nbsp;", "", text))


def test_hovering_over_any_key_explains_it(editor: LanguageServer) -> None:
    document = read(FULL.encode(), FILE)
    assert isinstance(document, Document)
    assert set(_keys(document.value)) >= {(level, key) for level, keys in levels().items() for key in keys}
    missing = []
    for number, line in enumerate(FULL.splitlines(), start=1):
        found = re.match(r"[ -]*([a-z_]+):", line)
        if found is None:
            continue
        level = level_of(_path_at(FULL, number))
        if level in _FREE or level.startswith("x-"):
            continue
        shape = _schema_of(level, found[1])
        shown = _plain(editor.hover(FILE, FULL, number, found.start(1) + 2))
        wanted = [shape["title"], shape["description"], *shape.get("enum", ()), *shape.get("enumDescriptions", ())]
        missing += [(level, found[1], words) for words in wanted if _plain(words) not in shown]
        assert shown.count("Example:") == len(shape["examples"]), (level, found[1], shown)
    assert missing == []


def _path_at(text: str, number: int) -> tuple[str, ...]:
    """The keys above a line, outermost first."""
    lines = text.splitlines()[:number]
    indent, path = len(re.match(r"[ -]*", lines[-1])[0]), []  # type: ignore[index]
    for line in reversed(lines):
        here = len(re.match(r"[ -]*", line)[0])  # type: ignore[index]
        if here < indent:
            path.insert(0, line.strip(" -").partition(":")[0])
            indent = here
    return tuple(path)


@pytest.mark.parametrize("key", ["API_URL", "DATABASE_URL", "event_name", "report"])
def test_hovering_over_a_key_of_ones_own_says_what_goes_there(key: str, editor: LanguageServer) -> None:
    number, line = next((n, line) for n, line in enumerate(FULL.splitlines(), start=1) if f" {key}:" in line)
    assert len(_plain(editor.hover(FILE, FULL, number, line.index(key) + 2))) > 60


_PLACES = {
    "": "^",
    "schedules": "schedules:\n  - ^",
    "events": "events:\n  - ^",
    "services": "services:\n  - ^",
    "resources": "resources:\n  ^",
    "dst": "schedules:\n  - name: a\n    dst:\n      ^",
    "check": "services:\n  - name: a\n    check:\n      ^",
}


def _offered(editor: LanguageServer, text: str) -> dict[str, dict[str, Any]]:
    before, _, after = text.partition("^")
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    return editor.completions(FILE, before + after, line, column)


@pytest.mark.parametrize("level", _PLACES)
def test_every_key_of_a_level_is_offered_there(level: str, editor: LanguageServer) -> None:
    assert set(levels()[level]) <= set(_offered(editor, _PLACES[level]))


@pytest.mark.parametrize("level", _PLACES)
def test_what_is_offered_can_be_read_when_it_is_taken(level: str, editor: LanguageServer) -> None:
    before = _PLACES[level].partition("^")[0]
    for label, item in _offered(editor, _PLACES[level]).items():
        taken = _taken(before, item)
        assert "[object" not in taken, label
        assert isinstance(read((before + taken).encode(), FILE), Document), (label, taken)
        misplaced = [each for each in editor.diagnostics(FILE, before + taken) if "not allowed" in each.message]
        assert misplaced == [], (label, taken)


def _taken(before: str, item: dict[str, Any]) -> str:
    """What stands there then: lines that follow get the indentation of the first, placeholders stand with their text."""
    indent = re.match(r" *", before.rpartition("\n")[2])
    assert indent is not None
    return re.sub(r"\$\{\d+:?([^}]*)\}|\$\d+", r"\1", item["insertText"]).replace("\n", f"\n{indent[0]}")


@pytest.mark.parametrize(
    "label",
    ["schedule by cron", "schedule by interval", "event rule", "service of a file", "service of a command"],
)
def test_a_skeleton_is_a_whole_item(label: str, editor: LanguageServer) -> None:
    before = f"{label.split(maxsplit=1)[0]}s:\n  - "
    other = "events:\n  - handler: a.b\n    pattern: {a: [b]}\n" if before.startswith("schedules") else ""
    text = f"runtime: python\n{other}{before}{_taken(before, _offered(editor, f'{before}^')[label])}\n"
    assert editor.diagnostics(FILE, text) == []
    assert [problem for problem in checked(text)[1] if problem.is_error] == []


@pytest.mark.parametrize(
    ("place", "values"),
    [
        ("runtime: ^", {"python", "node", "exec"}),
        ("isolation: ^", {"warm", "fresh"}),
        ("schedules:\n  - name: a\n    overlap: ^", {"allow", "skip", "queue"}),
        ("schedules:\n  - name: a\n    catch_up: ^", {"latest", "oldest", "all", "none"}),
        ("schedules:\n  - name: a\n    enabled: ^", {"true", "false"}),
        ("schedules:\n  - name: a\n    dst:\n      gap: ^", {"skip", "run"}),
        ("schedules:\n  - name: a\n    dst:\n      fold: ^", {"first", "both"}),
        ("schedules:\n  - name: a\n    timeout: ^", {"6s", "20s"}),
        ("resources:\n  memory: ^", {"256MiB"}),
    ],
)
def test_values_are_offered_where_there_is_a_choice(place: str, values: set[str], editor: LanguageServer) -> None:
    assert values <= set(_offered(editor, place))


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.name)
def test_a_broken_file_is_underlined_where_it_is_broken(broken: Broken, editor: LanguageServer) -> None:
    found = editor.diagnostics(FILE, broken.text)
    assert [(each.line, each.message) for each in found] == [(broken.line, broken.message)]
    own = [problem.place.line for problem in checked(broken.text)[1] if problem.is_error]
    # Of a template that lacks what it needs the editor underlines the first line.
    assert broken.line in {*own, 1} and own


def test_good_files_have_nothing_underlined(editor: LanguageServer) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "apps").glob("*/template.yaml"))]
    assert len(texts) > 3
    for text in [*texts, FULL, TEMPLATE]:
        # Without the comments on top, so that the mapping decides.
        assert editor.diagnostics(FILE, re.sub(r"(?m)^#.*\n", "", text)) == []


def test_the_comment_on_top_wins_over_another_owner_of_the_name(server_program: Path, tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "template.schema.json").write_bytes((SCHEMAS / "template.schema.json").read_bytes())
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"type": "object", "required": ["Resources"], "properties": {"Resources": {}}}))
    server = LanguageServer(server_program, tmp_path, {other.as_uri(): ["template.yaml"]})
    try:
        bare = re.sub(r"(?m)^#.*\n", "", TEMPLATE)
        assert [each.message for each in server.diagnostics("apps/bare/template.yaml", bare)] == [
            'Missing property "Resources".'
        ]
        assert server.diagnostics("apps/hello/template.yaml", TEMPLATE) == []
        number = TEMPLATE.splitlines().index("runtime: python") + 1
        assert "How handlers" in server.hover("apps/hello/template.yaml", TEMPLATE, number, 2)
    finally:
        server.close()
