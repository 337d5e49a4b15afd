"""Wording for a value of the wrong type: a forgotten quote, a forgotten unit, an old boolean, a key without a value."""

from __future__ import annotations

from relayctl.core.problem import Problem
from relayctl.templates.document import (
    Document,
    MappingNode,
    Node,
    PathPart,
    ScalarNode,
    SequenceNode,
    path_text,
)
from relayctl.templates.scalars import is_old_boolean, loses_text

_DURATIONS = frozenset({"timeout", "every", "jitter", "backoff", "interval"})
_WANTED = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def mistyped(document: Document, path: tuple[PathPart, ...], wanted: str | list[str]) -> Problem:
    """The problem of the value at `path`, which is not of the type(s) `wanted`."""
    key, node = document.at(path)
    kinds = [wanted] if isinstance(wanted, str) else wanted
    name = next((part for part in reversed(path) if isinstance(part, str)), "the template")
    label = document.label(path)
    shown = path_text(path)
    words = "text" if "string" in kinds else " or ".join(_WANTED[kind] for kind in kinds)
    if path and isinstance(path[-1], int):
        name = f"an item of {name}"
    if len(path) == 2 and path[0] in ("env", "secrets"):
        name = f"{path[0]}.{str(path[1])[:80]}"
    if isinstance(node, ScalarNode) and node.is_plain and node.value is None:
        at = key if key is not None else node
        return document.source.problem(
            "RLY103",
            at.start,
            max(at.end, at.start + 1),
            f"{name} has no value",
            detail=f"{words} is expected",
            help=f"give it a value, or remove the {'item' if key is None else 'key'}",
            path=shown,
            label=label,
        )
    if isinstance(node, ScalarNode) and "string" in kinds:
        return _should_be_text(document, node, name, shown, label)
    if isinstance(node, ScalarNode) and kinds == ["boolean"] and is_old_boolean(node.text):
        return _old_boolean(document, node, name, shown, label)
    return _plain_mismatch(document, node, name, words, shown, label)


def _should_be_text(document: Document, node: ScalarNode, name: str, path: str, label: str) -> Problem:
    source = document.source
    raw = source.text[node.start : node.end]
    key = name.rpartition(".")[2].removeprefix("an item of ")
    lead = f"{key}: " if not name.startswith("an item of ") else ""
    if key in _DURATIONS:
        number = raw.lstrip("-+")
        number = number if number.isdigit() and int(number) else "20"
        return source.problem(
            "RLY107",
            node.start,
            node.end,
            f"{name} needs a unit",
            detail="a number alone is no duration",
            help=f"write  {lead}{number}s   (units are d, h, m, s, ms)",
            path=path,
            label=label,
        )
    is_lost = loses_text(node.text, node.value)
    return source.problem(
        "RLY010" if is_lost else "RLY103",
        node.start,
        node.end,
        f"{name} is text, but without quotes this is {_kind(node)}",
        detail="its exact characters would be lost" if is_lost else "text is expected",
        help="quote it" if name.startswith(("env.", "secrets.")) else f'quote it:  {lead}"{raw}"',
        fix=source.replace(node.start, node.end, f'"{raw}"', "quote the value", is_safe=True),
        path=path,
        label=label,
    )


def _old_boolean(document: Document, node: ScalarNode, name: str, path: str, label: str) -> Problem:
    meant = "true" if node.text.lower() in ("y", "yes", "on") else "false"
    return document.source.problem(
        "RLY008",
        node.start,
        node.end,
        f'{name} is true or false; "{node.text}" is text in YAML 1.2',
        help=f"write  {name}: {meant}",
        fix=document.source.replace(node.start, node.end, meant, f"write {meant}", is_safe=True),
        path=path,
        label=label,
    )


def _plain_mismatch(document: Document, node: Node, name: str, words: str, path: str, label: str) -> Problem:
    found = _kind(node)
    hint = f"write {words}"
    if isinstance(node, ScalarNode) and not node.is_plain and words in ("a whole number", "a number", "true or false"):
        hint = "remove the quotes" if node.text.strip().isascii() and node.text.strip() else hint
    elif words == "a list" and not isinstance(node, SequenceNode):
        hint = "put it into a list:  - …" if isinstance(node, MappingNode) else "put it into [ ]"
    return document.source.problem(
        "RLY103",
        node.start,
        max(node.end, node.start + 1),
        f"{name} is {words}, and this is {found}",
        help=hint,
        path=path,
        label=label,
    )


def _kind(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node.value, bool):
        return "a boolean"
    if isinstance(node.value, int | float):
        return "a number"
    return "text" if node.value is not None else "nothing"
