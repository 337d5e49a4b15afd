"""Typed access to one mapping of a document. A value of the wrong type reads as absent: its shape was reported already.

The rule for whole numbers is written here once: `2.0` and `1e0` are no integers, whatever JSON Schema says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from relayctl.core.duration import DurationError, parse_duration
from relayctl.core.problem import Fix, Place, Problem
from relayctl.templates.document import Document, MappingNode, Node, PathPart, ScalarNode, SequenceNode, path_text
from relayctl.templates.fixes.tokens import rewritten

_Choice = TypeVar("_Choice", bound=Enum)


@dataclass(slots=True, kw_only=True)
class Fields:
    """One mapping at `path`; what is wrong with its values goes to `problems`."""

    document: Document
    path: tuple[PathPart, ...]
    node: MappingNode
    problems: list[Problem]

    def has(self, key: str) -> bool:
        """Whether the key is written, whatever its value."""
        return key in self.node.entries

    def scalar(self, key: str) -> ScalarNode | None:
        """The node of a key whose value is text."""
        found = self.node.get(key)
        return found if isinstance(found, ScalarNode) and isinstance(found.value, str) else None

    def text(self, key: str) -> str | None:
        """The text of a key."""
        found = self.scalar(key)
        return None if found is None else str(found.value)

    def mapping(self, key: str) -> Fields | None:
        """The mapping under a key."""
        found = self.node.get(key)
        if not isinstance(found, MappingNode):
            return None
        return Fields(document=self.document, path=(*self.path, key), node=found, problems=self.problems)

    def mappings(self, key: str) -> list[Fields]:
        """The mappings of a list under a key."""
        found = self.node.get(key)
        items = found.items if isinstance(found, SequenceNode) else []
        return [
            Fields(document=self.document, path=(*self.path, key, at), node=item, problems=self.problems)
            for at, item in enumerate(items)
            if isinstance(item, MappingNode)
        ]

    def integer(self, key: str, default: int) -> int:
        """A whole number, written as one."""
        found = self.node.get(key)
        value = found.value if isinstance(found, ScalarNode) else None
        if isinstance(value, float) and value.is_integer() and found is not None:
            meant = str(int(value))
            self.refuse(
                key,
                "RLY103",
                f"{key} is a whole number, written without a point or exponent",
                f"write {meant}",
                fix=self.document.source.replace(found.start, found.end, meant, f"write {meant}", is_safe=True),
            )
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def boolean(self, key: str, default: bool) -> bool:
        """true or false."""
        found = self.node.get(key)
        return found.value if isinstance(found, ScalarNode) and isinstance(found.value, bool) else default

    def choice(self, key: str, kind: type[_Choice], default: _Choice) -> _Choice:
        """A member of an enum, by its value."""
        text = self.text(key)
        return next((member for member in kind if member.value == text), default)

    def duration(self, key: str, default: timedelta) -> timedelta:
        """A duration above zero."""
        found = self.scalar(key)
        return default if found is None else self.duration_of(found, key, (*self.path, key)) or default

    def duration_of(self, node: ScalarNode, name: str, path: Sequence[PathPart]) -> timedelta | None:
        """The duration that a node spells, above zero; None when it does not."""
        try:
            value = parse_duration(str(node.value))
        except DurationError as error:
            fix = None
            if error.suggestion is not None:
                text = error.suggestion
                fix = rewritten(self.document.source, node, text, f"write {text}", is_safe=True)
            self.add(error.code, node, f"{name}: {error.message}", help=error.help or "", fix=fix, path=path)
            return None
        if not value:
            self.add("RLY108", node, f"{name} must be above zero", help="write a duration such as 20s", path=path)
            return None
        return value

    def refuse(
        self,
        key: str,
        code: str,
        message: str,
        help: str,  # noqa: A002
        *,
        detail: str = "",
        fix: Fix | None = None,
    ) -> None:
        """Report the value of a key."""
        found = self.node.get(key)
        if found is not None:
            self.add(code, found, message, help=help, detail=detail, fix=fix, path=(*self.path, key))

    def add(
        self,
        code: str,
        node: Node,
        message: str,
        *,
        help: str,  # noqa: A002
        path: Sequence[PathPart],
        detail: str = "",
        fix: Fix | None = None,
        notes: tuple[str, ...] = (),
        span: tuple[int, int] | None = None,
    ) -> None:
        """Report a node, or the part of its text that `span` gives."""
        start, end = token_span(self.document, node, span)
        self.problems.append(
            self.document.source.problem(
                code,
                start,
                end,
                message,
                detail=detail,
                help=help,
                notes=notes,
                fix=fix,
                path=path_text(path),
                label=self.document.label(path),
            )
        )

    def place(self, key: str) -> Place | None:
        """The place of the value of a key."""
        found = self.node.get(key)
        if found is None:
            return None
        path = (*self.path, key)
        source = self.document.source
        return source.place(found.start, found.end, path=path_text(path), label=self.document.label(path))

    def plain(self, key: str) -> Any:
        """The value of a key as plain data."""
        return self.node.value.get(key)


def token_span(document: Document, node: Node, span: tuple[int, int] | None) -> tuple[int, int]:
    """Offsets of a part of a scalar's text in the file; of the whole token where escapes make that unclear."""
    whole = node.start, max(node.end, node.start + 1)
    if span is None or not isinstance(node, ScalarNode) or span[0] >= span[1]:
        return whole
    begin = node.start + (1 if node.style in ("'", '"') else 0)
    text = document.source.text
    if node.style in ("|", ">") or text[begin : begin + len(node.text)] != node.text or span[1] > len(node.text):
        return whole
    return begin + span[0], begin + span[1]
