"""Reading is total, and both parsers give one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.cases import INVALID

from relayctl.templates.document import Document, MappingNode, Node, ScalarNode
from relayctl.templates.read import fastest_events, pure_events, read

_pieces = st.sampled_from(
    [
        "a: ",
        "b:",
        "\n",
        "  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "'",
        '"',
        "x",
        "*x",
        "&x ",
        "!t ",
        "#",
        " # c",
        "|",
        ">",
        "\t",
        "---",
        "...",
        "%YAML 1.2",
        "<<: ",
        "? ",
        ": ",
        "1",
        "é",
        "\r\n",
        "@",
        "`",
        "\\",
        "1e3",
        "~",
        "null",
        "key: value\n",
    ]
)
_texts = st.lists(_pieces, max_size=25).map("".join)


def _shape(node: Node) -> Any:
    if isinstance(node, ScalarNode):
        return (node.start, node.end, node.text, bool(node.style), node.value)
    if isinstance(node, MappingNode):
        return (node.start, [(key.start, name, _shape(value)) for name, (key, value) in node.entries.items()])
    return (node.start, [_shape(item) for item in node.items])


def _answer(text: bytes, events: Any) -> Any:
    found = read(text, "t.yaml", events=events)
    return _shape(found.root) if isinstance(found, Document) else [(each.code, each.place.line) for each in found]


@settings(deadline=None)
@given(st.binary(max_size=60) | _texts.map(str.encode))
@example(b"\xef\xbb\xbf")
@example(b"a: \xc2\x85b\n")
def test_any_bytes_are_a_document_or_problems(data: bytes) -> None:
    found = read(data, "t.yaml")
    if isinstance(found, list):
        assert found
        for problem in found:
            assert problem.message
            assert problem.place.line >= 1
            assert problem.place.column >= 1


@settings(deadline=None)
@given(_texts)
def test_both_parsers_agree(text: str) -> None:
    fast, pure = _answer(text.encode(), fastest_events), _answer(text.encode(), pure_events)
    if isinstance(fast, tuple) and isinstance(pure, tuple):
        assert fast == pure


@pytest.mark.parametrize("file", sorted(INVALID.glob("*/apps/*/template.y*ml")), ids=lambda path: path.parts[-4])
def test_both_parsers_agree_on_every_case(file: Path) -> None:
    data = file.read_bytes()
    assert _answer(data, fastest_events) == _answer(data, pure_events)
