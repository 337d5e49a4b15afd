"""The node tree of one template file, with the place of every token. It holds no opinion on what the keys mean.

Nodes are filled while they are composed, so they are not frozen; nobody changes them afterwards.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from relayctl.core.problem import Edit, Fix, Place, Problem, Severity

PathPart = str | int


@dataclass(slots=True)
class ScalarNode:
    """One scalar: `value` by the core schema, `text` as the parser read it, `style` empty for a plain one."""

    start: int
    end: int
    text: str
    style: str
    value: Any

    @property
    def is_plain(self) -> bool:
        """Whether it stands without quotes and is no block."""
        return not self.style


@dataclass(slots=True)
class SequenceNode:
    """A list; `value` is the same as plain data."""

    start: int
    end: int
    items: list[Node]
    value: list[Any]


@dataclass(slots=True)
class MappingNode:
    """A mapping by key text, merge keys already applied; `value` is the same as plain data."""

    start: int
    end: int
    entries: dict[str, tuple[ScalarNode, Node]]
    value: dict[str, Any]

    def get(self, key: str) -> Node | None:
        """The value node of a key."""
        entry = self.entries.get(key)
        return None if entry is None else entry[1]


Node = ScalarNode | SequenceNode | MappingNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment: offsets of its text from the `#` on."""

    start: int
    end: int
    text: str
    is_alone: bool
    """Nothing but blanks stands before it on its line."""


@dataclass(slots=True, kw_only=True)
class Source:
    """The text of a file and where its lines begin. Offsets and columns count characters."""

    file: str
    text: str
    _starts: list[int] = field(default_factory=list)

    def lines_before(self, offset: int) -> int:
        """The line number, from 1, of an offset."""
        if not self._starts:
            self._starts = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", self.text))]
        return bisect_right(self._starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        line = self.lines_before(offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column, both from 1; the way back from `position`."""
        self.lines_before(0)
        return self._starts[line - 1] + column - 1

    @property
    def newline(self) -> str:
        """How the file ends its lines."""
        found = re.search(r"\r\n|\n|\r", self.text)
        return found.group() if found is not None else "\n"

    def line_bounds(self, line: int) -> tuple[int, int]:
        """Offsets of the first character of a line and behind its last one, line end excluded."""
        self.lines_before(0)
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        while end > start and self.text[end - 1] in "\r\n":
            end -= 1
        return start, end

    def end_of_line(self, line: int) -> int:
        """The offset behind a line and its end: where the next one begins, or the text ends."""
        self.lines_before(0)
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def line_text(self, line: int) -> str:
        """One line without its end."""
        start, end = self.line_bounds(line)
        return self.text[start:end]

    def place(self, start: int, end: int, *, path: str = "", label: str = "") -> Place:
        """The place of a token; one that spans lines is shown by its first line."""
        line, column = self.position(min(start, len(self.text)))
        last = self.line_bounds(line)[1]
        length = max(1, min(end, last) - start)
        return Place(file=self.file, line=line, column=column, length=length, path=path, label=label)

    def replace(self, start: int, end: int, text: str, description: str, *, is_safe: bool) -> Fix:
        """A fix of one edit."""
        line, column = self.position(start)
        end_line, end_column = self.position(end)
        edit = Edit(line=line, column=column, end_line=end_line, end_column=end_column, text=text)
        return Fix(description=description, edits=(edit,), is_safe=is_safe)

    def insert(self, offset: int, text: str) -> Edit:
        """An edit that takes nothing away."""
        line, column = self.position(offset)
        return Edit(line=line, column=column, end_line=line, end_column=column, text=text)

    def enclose(self, start: int, end: int, quote: str = '"') -> Fix:
        """A fix that puts a token in quotes without repeating it: the token may be a secret."""
        edits = (self.insert(start, quote), self.insert(end, quote))
        return Fix(description="quote the value", edits=edits, is_safe=True)

    def problem(
        self,
        code: str,
        start: int,
        end: int,
        message: str,
        *,
        detail: str = "",
        help: str = "",  # noqa: A002
        notes: tuple[str, ...] = (),
        fix: Fix | None = None,
        severity: Severity = Severity.ERROR,
        path: str = "",
        label: str = "",
    ) -> Problem:
        """A problem at a range of the text."""
        place = self.place(start, end, path=path, label=label)
        return Problem(
            code=code,
            severity=severity,
            place=place,
            message=message,
            detail=detail,
            help=help,
            notes=notes,
            excerpt=self.line_text(place.line),
            fix=fix,
        )


@dataclass(slots=True, kw_only=True)
class Document:
    """One parsed file."""

    source: Source
    root: MappingNode
    has_anchors: bool = False
    _scalars: list[tuple[tuple[PathPart, ...], ScalarNode | None, ScalarNode]] | None = None
    _comments: list[Comment] | None = None

    @property
    def value(self) -> dict[str, Any]:
        """The whole file as plain data."""
        return self.root.value

    def at(self, path: Sequence[PathPart]) -> tuple[ScalarNode | None, Node]:
        """The key and value node at a path; the deepest that exists where the path leads nowhere."""
        key: ScalarNode | None = None
        node: Node = self.root
        for part in path:
            if isinstance(node, MappingNode) and isinstance(part, str) and part in node.entries:
                key, node = node.entries[part]
            elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.items):
                key, node = None, node.items[part]
            else:
                break
        return key, node

    def label(self, path: Sequence[PathPart]) -> str:
        """The item a path lies in, with its name where it has one: `schedules[0] "nightly"`."""
        if len(path) < 2 or path[0] not in ("schedules", "services", "events") or not isinstance(path[1], int):
            return ""
        _, item = self.at(path[:2])
        name = item.get("handler" if path[0] == "events" else "name") if isinstance(item, MappingNode) else None
        text = f"{path[0]}[{path[1]}]"
        if isinstance(name, ScalarNode) and isinstance(name.value, str) and name.value:
            shown = name.value if len(name.value) <= 80 else f"{name.value[:79]}…"
            text += f' "{shown}"'
        return text

    def scalars(self) -> list[tuple[tuple[PathPart, ...], ScalarNode | None, ScalarNode]]:
        """Every scalar value with its path and its key, each node once however often it is aliased."""
        if self._scalars is None:
            self._scalars = list(self._walk())
        return self._scalars

    def _walk(self) -> Iterator[tuple[tuple[PathPart, ...], ScalarNode | None, ScalarNode]]:
        seen: set[int] = set()
        stack: list[tuple[tuple[PathPart, ...], ScalarNode | None, Node]] = [((), None, self.root)]
        while stack:
            path, key, node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, ScalarNode):
                yield path, key, node
            elif isinstance(node, SequenceNode):
                stack.extend(((*path, at), None, item) for at, item in reversed(list(enumerate(node.items))))
            else:
                stack.extend(((*path, name), key, item) for name, (key, item) in reversed(node.entries.items()))

    def comments(self) -> list[Comment]:
        """Every comment, in order. A `#` inside a scalar is none."""
        if self._comments is None:
            self._comments = list(self._find_comments())
        return self._comments

    def _find_comments(self) -> Iterator[Comment]:
        text = self.source.text
        position = text.find("#")
        if position < 0:
            return
        spans = sorted({span for _, key, node in self.scalars() for span in _spans(key, node)})
        starts = [start for start, _ in spans]
        while position >= 0:
            inside = bisect_right(starts, position) - 1
            if inside >= 0 and position < spans[inside][1]:
                position = text.find("#", spans[inside][1])
                continue
            begin, end = self.source.line_bounds(self.source.lines_before(position))
            alone = not text[begin:position].strip()
            yield Comment(start=position, end=end, text=text[position:end], is_alone=alone)
            position = text.find("#", end)


def _spans(key: ScalarNode | None, node: ScalarNode) -> Iterator[tuple[int, int]]:
    for each in (key, node):
        if each is not None and each.end > each.start:
            yield each.start, each.end


def path_text(path: Sequence[PathPart]) -> str:
    """A path as it is shown: `schedules[0].cron`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
