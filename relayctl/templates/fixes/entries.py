"""Fixes that add a key to a mapping or carry one to another, in whole lines, with its comments and its own spelling.

Where a place in the text is not clear (flow style, anchors, two keys on a line) there is no fix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from relayctl.core.problem import Edit, Fix
from relayctl.templates.document import Document, MappingNode, Node, PathPart, ScalarNode, SequenceNode, Source

_LISTS = ("schedules", "events", "services")
_PARENTS = {"resources": "", "dst": "schedules", "check": "services"}
"""Levels that are one mapping, by the level that they lie in."""


def beside(source: Source, mapping: MappingNode, key: ScalarNode, node: Node, text: str) -> Edit | None:
    """An edit that adds `text`, such as `timezone: Europe/Rome`, behind the entry of a key."""
    if mapping.start < len(source.text) and source.text[mapping.start] == "{":
        return source.insert(node.end, f", {text}")
    if isinstance(node, ScalarNode) and node.style in ("|", ">"):
        return None
    last = source.line_bounds(source.lines_before(max(node.end - 1, node.start)))[1]
    indent = " " * (source.position(key.start)[1] - 1)
    return source.insert(last, f"{source.newline}{indent}{text}")


def moved(document: Document, path: Sequence[PathPart], level: str, name: str) -> Fix | None:
    """A fix that carries the entry at `path` to `level`, under `name`, where there is one such place and it is free."""
    source = document.source
    key, node = document.at(path)
    _, holder = document.at(path[:-1])
    if key is None or document.has_anchors or not isinstance(holder, MappingNode):
        return None
    lines = _own_lines(source, holder, key, node)
    if lines is None:
        return None
    block = _renamed(source, lines, key, name)
    home = _home(document, path, level)
    if home is None:
        return _into_a_new_one(document, path, level, block, lines, name)
    if not isinstance(home, MappingNode) or name in home.entries or home is holder:
        return None
    inserted = _into(source, home, key, node, block, name)
    if inserted is None:
        return None
    where = level or "the top"
    edits = (_removed(source, lines), inserted)
    return Fix(description=f"move it to {where}", edits=edits, is_safe=False, repeats_lines=True)


def _own_lines(source: Source, holder: MappingNode, key: ScalarNode, node: Node) -> tuple[int, int] | None:
    """First and last line of an entry, if it has them for itself and another entry is left in its mapping."""
    if source.text[holder.start : holder.start + 1] == "{" or len(holder.entries) < 2:
        return None
    line, column = source.position(key.start)
    if source.line_text(line)[: column - 1].strip():
        return None
    last = source.lines_before(max(max(_ends(node), default=key.end), key.end) - 1)
    return line, last


def _ends(node: Node) -> Iterator[int]:
    """Where the written parts of a node end; a collection's own end lies behind blank lines and comments."""
    if isinstance(node, ScalarNode):
        yield node.end
    elif isinstance(node, SequenceNode):
        yield from (end for item in node.items for end in _ends(item))
    else:
        for key, value in node.entries.values():
            yield key.end
            yield from _ends(value)


def _renamed(source: Source, lines: tuple[int, int], key: ScalarNode, name: str) -> list[str]:
    """The lines of an entry with its key under its new name."""
    block = [source.line_text(line) for line in range(lines[0], lines[1] + 1)]
    column = source.position(key.start)[1]
    block[0] = block[0][: column - 1] + name + block[0][column - 1 + key.end - key.start :]
    return block


def _home(document: Document, path: Sequence[PathPart], level: str) -> Node | None:
    """The one mapping of that level that an entry at `path` can belong to."""
    if level == "":
        return document.root
    if level in _LISTS:
        listed = document.root.get(level)
        items = listed.items if isinstance(listed, SequenceNode) else []
        return items[0] if len(items) == 1 and len(path) == 1 else None
    parent = _parent(document, path, level)
    return parent.get(level) if parent is not None else None


def _parent(document: Document, path: Sequence[PathPart], level: str) -> MappingNode | None:
    """The mapping that a nested level lies in, seen from an entry that stands in it."""
    above = _PARENTS.get(level)
    _, holder = document.at(path[:-1])
    is_there = (above == "" and len(path) == 1) or (above and len(path) == 3 and path[0] == above)
    return holder if is_there and isinstance(holder, MappingNode) else None


def _into(source: Source, home: MappingNode, key: ScalarNode, node: Node, block: list[str], name: str) -> Edit | None:
    if not home.entries:
        return None
    first, value = home.entries.get("runtime") or home.entries.get("name") or next(iter(home.entries.values()))
    if source.text[home.start : home.start + 1] == "{":
        if len(block) > 1 or not isinstance(node, ScalarNode):
            return None
        _, last_value = max(home.entries.values(), key=lambda entry: entry[0].start)
        return source.insert(max(_ends(last_value)), f", {name}: {source.text[node.start : node.end]}")
    shifted = _shifted(block, source.position(first.start)[1] - source.position(key.start)[1])
    if shifted is None:
        return None
    last = source.line_bounds(source.lines_before(max(max(_ends(value), default=first.end), first.end) - 1))[1]
    return source.insert(last, "".join(source.newline + line for line in shifted))


def _into_a_new_one(
    document: Document, path: Sequence[PathPart], level: str, block: list[str], lines: tuple[int, int], name: str
) -> Fix | None:
    """The entry in a mapping that is made for it, where it stands."""
    parent = _parent(document, path, level)
    if parent is None or level in parent.entries:
        return None
    shifted = _shifted(block, 2)
    if shifted is None:
        return None
    source = document.source
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    text = source.newline.join([f"{indent}{level}:", *shifted])
    start, end = source.line_bounds(lines[0])[0], source.line_bounds(lines[1])[1]
    fix = source.replace(start, end, text, f"put {name} into {level}", is_safe=False)
    return replace(fix, repeats_lines=True)


def _shifted(block: list[str], by: int) -> list[str] | None:
    if by >= 0:
        return [" " * by + line if line.strip() else line for line in block]
    if any(line[:-by].strip() for line in block):
        return None
    return [line[-by:] for line in block]


def _removed(source: Source, lines: tuple[int, int]) -> Edit:
    """An edit that takes whole lines away, with the end of the last one or else of the line before."""
    start, (_, end) = source.line_bounds(lines[0])[0], source.line_bounds(lines[1])
    behind = source.end_of_line(lines[1])
    if behind == end and start:
        start = source.line_bounds(lines[0] - 1)[1]
    return source.replace(start, behind, "", "", is_safe=False).edits[0]
