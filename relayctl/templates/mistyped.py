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
from relayctl.templates.fixes.tokens import bracketed, rewritten, unquoted
from relayctl.templates.scalars import NotFinite, is_old_boolean, loses_text, resolve

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
    return _plain_mismatch(document, key, node, name, words, shown, label)


def _should_be_text(document: Document, node: ScalarNode, name: str, path: str, label: str) -> Problem:
    source = document.source
    raw = source.text[node.start : node.end]
    key = name.rpartition(".")[2].removeprefix("an item of ")
    lead = f"{key}: " if not name.startswith("an item of ") else ""
    if key in _DURATIONS:
        number = raw.lstrip("-+")
        meant = f"{number}s" if raw.isdigit() and int(number) else None
        number = number if number.isdigit() and int(number) else "20"
        return source.problem(
            "RLY107",
            node.start,
            node.end,
            f"{name} needs a unit",
            detail="a number alone is no duration",
            help=f"write  {lead}{number}s   (units are d, h, m, s, ms)",
            fix=rewritten(source, node, meant, f"write {meant}", is_safe=False) if meant is not None else None,
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
        fix=source.enclose(node.start, node.end) if node.is_plain else None,
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


def _plain_mismatch(
    document: Document, key: ScalarNode | None, node: Node, name: str, words: str, path: str, label: str
) -> Problem:
    found = _kind(node)
    hint, fix = f"write {words}", None
    if isinstance(node, ScalarNode) and not node.is_plain and words in ("a whole number", "a number", "true or false"):
        hint = "remove the quotes" if node.text.strip().isascii() and node.text.strip() else hint
        fix = unquoted(document.source, node) if _reads_as(node.text, words) else None
    elif words == "a list" and not isinstance(node, SequenceNode):
        hint = "put it into a list:  - …" if isinstance(node, MappingNode) else "put it into [ ]"
        fix = bracketed(document.source, node)
    # A block begins on a line below its key, which names what is wrong.
    is_block = not isinstance(node, ScalarNode) and document.source.text[node.start : node.start + 1] not in ("{", "[")
    shown_at = key if key is not None and is_block else node
    return document.source.problem(
        "RLY103",
        shown_at.start,
        max(shown_at.end, shown_at.start + 1),
        f"{name} is {words}, and this is {found}",
        help=hint,
        fix=fix,
        path=path,
        label=label,
    )


def _reads_as(text: str, words: str) -> bool:
    """Whether the text is such a value once its quotes are gone."""
    try:
        value = resolve(text)
    except NotFinite:
        return False
    if words == "true or false" or isinstance(value, bool):
        return words == "true or false" and isinstance(value, bool)
    return isinstance(value, int) or (isinstance(value, float) and words == "a number")


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
