"""Fixes of single values: another text in the quotes that are there, or quotes where the text needs them."""

from __future__ import annotations

import re

from relayctl.core.problem import Fix
from relayctl.templates.document import Node, ScalarNode, Source
from relayctl.templates.scalars import resolve

_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 _./+*@~%-]*[A-Za-z0-9_./+*-])?", re.ASCII)
"""Text that needs no quotes wherever it stands; a comma or a bracket would end it inside of a flow collection."""
_QUOTES = ("'", '"')


def rewritten(
    source: Source,
    node: Node,
    text: str,
    description: str,
    *,
    is_safe: bool,
    span: tuple[int, int] | None = None,
) -> Fix | None:
    """`text` in place of a value, or of the part of its text that `span` gives. None where escapes, a block or a
    further line make the place unclear."""
    if not isinstance(node, ScalarNode) or node.end <= node.start:
        return None
    is_odd = any(char in text for char in "'\"\\")
    if span is None and node.style in _QUOTES and not is_odd:
        # With nothing kept of it, it does not matter how it was written.
        return source.replace(node.start + 1, node.end - 1, text, description, is_safe=is_safe)
    start, end = span or (0, len(node.text))
    begin = node.start + (1 if node.style in _QUOTES else 0)
    if source.text[begin : begin + len(node.text)] != node.text or "\n" in node.text or "\r" in node.text:
        return None
    if node.style in _QUOTES:
        if is_odd:
            return None
        return source.replace(begin + start, begin + end, text, description, is_safe=is_safe)
    whole = node.text[:start] + text + node.text[end:]
    if _PLAIN.fullmatch(whole) is not None and resolve(whole) == whole:
        return source.replace(begin + start, begin + end, text, description, is_safe=is_safe)
    if '"' in whole or "\\" in whole:
        return None
    return source.replace(node.start, node.end, f'"{whole}"', description, is_safe=is_safe)


def unquoted(source: Source, node: ScalarNode) -> Fix | None:
    """A fix that takes away the quotes around a value of one line."""
    if node.style not in _QUOTES or source.text[node.start + 1 : node.end - 1] != node.text:
        return None
    first, last = (source.replace(at, at + 1, "", "", is_safe=True).edits[0] for at in (node.start, node.end - 1))
    return Fix(description="remove the quotes", edits=(first, last), is_safe=True)


def bracketed(source: Source, node: Node) -> Fix | None:
    """A fix that makes a value the only item of a list."""
    raw = source.text[node.start : node.end]
    if not raw or "\n" in raw or (isinstance(node, ScalarNode) and node.is_plain and set(raw) & set(",[]{}#:")):
        return None
    if not isinstance(node, ScalarNode) and raw[0] not in "{[":
        return None
    edits = (source.insert(node.start, "["), source.insert(node.end, "]"))
    return Fix(description="put it into a list", edits=edits, is_safe=False)
