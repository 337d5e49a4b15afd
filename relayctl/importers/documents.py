"""YAML of other tools as plain data with line numbers: several documents in a file, lists of objects unfolded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from relayctl.core.problem import Problem
from relayctl.templates.document import Document, MappingNode, Node, SequenceNode
from relayctl.templates.read import read

_SEPARATOR = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """A mapping in a file, with where it begins."""

    node: MappingNode
    document: Document
    above: int
    """Lines of the file before this document."""

    @property
    def value(self) -> dict[str, Any]:
        """The mapping as plain data."""
        return self.node.value

    def line(self, *path: str | int) -> int:
        """The line of what stands at `path`, or of the deepest that exists on the way."""
        node: Node = self.node
        at = node.start
        for step in path:
            if isinstance(node, MappingNode) and isinstance(step, str) and step in node.entries:
                key, node = node.entries[step]
                at = key.start
            elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
                at = node.start
            else:
                break
        return self.above + self.document.source.position(at)[0]


@dataclass(frozen=True, slots=True)
class Unread:
    """A document that is no YAML mapping."""

    line: int
    message: str


def parts_of(text: str) -> Iterator[Part | Unread]:
    """Every object of a file, `items` of a list each by itself."""
    for above, piece in _pieces(text):
        if not re.sub(r"(?m)^[ \t]*(?:#.*)?$", "", piece).strip():
            continue
        found = read(piece.encode("utf-8", "surrogateescape"), "")
        if isinstance(found, Document):
            yield from _unfolded(Part(found.root, found, above))
        else:
            yield Unread(above + found[0].place.line, _message(found))


def _unfolded(part: Part) -> Iterator[Part]:
    items = part.node.get("items")
    if isinstance(items, SequenceNode) and str(part.value.get("kind", "")).endswith("List"):
        for item in items.items:
            if isinstance(item, MappingNode):
                yield Part(item, part.document, part.above)
    else:
        yield part


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    begun = 0
    for found in _SEPARATOR.finditer(text):
        yield text.count("\n", 0, begun), text[begun : found.start()]
        begun = found.end()
    yield text.count("\n", 0, begun), text[begun:]


def _message(problems: Sequence[Problem]) -> str:
    return f"not read: {problems[0].message}"


def mapping(value: object) -> dict[str, Any]:
    """`value` where it is a mapping, else an empty one: what is missing and what is odd are treated alike."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """`value` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def another_secret(variable: str, reference: str) -> str:
    """What to say where two jobs of an app want different secrets under one name."""
    return (
        f"{variable} would be the secret {reference} here, and is another one for a job above: "
        "import the two into apps of their own"
    )


def one_line(value: object) -> str:
    """A word of the source for a message."""
    return "".join(char if char.isprintable() else "?" for char in str(value))[:80]
