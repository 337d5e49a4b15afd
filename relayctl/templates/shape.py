"""Whether a document has the shape the schema asks for, in own words. It does not judge what the values mean.

The compiled validator decides; jsonschema, which is slow to import, is asked for details only where a file fails, and
its messages are never shown: they print values and point at parents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from relayctl.core.problem import Problem
from relayctl.templates.document import Document, MappingNode, Node, PathPart, ScalarNode, path_text
from relayctl.templates.fixes.entries import moved
from relayctl.templates.fixes.tokens import rewritten
from relayctl.templates.keys import NOUNS, level_of, meant_by
from relayctl.templates.mistyped import mistyped
from relayctl.templates.schema import template_schema

if TYPE_CHECKING:
    import jsonschema
    import jsonschema_rs

_HELPER = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)
GENERAL_HELP = "`relayctl schema` shows what is allowed"
"""The help of a finding that says no more than that; a more exact one about the same value replaces it."""


@lru_cache(maxsize=1)
def compiled() -> jsonschema_rs.Draft7Validator:
    """The fast validator, which decides."""
    import jsonschema_rs

    return jsonschema_rs.Draft7Validator(template_schema())


@lru_cache(maxsize=1)
def detailed() -> jsonschema.Draft7Validator:
    """The slow validator, which says where."""
    import jsonschema

    return jsonschema.Draft7Validator(template_schema())


def is_valid(value: dict[str, Any]) -> bool:
    """Whether plain data has the shape of a template."""
    return bool(compiled().is_valid(value))


def shape_problems(document: Document) -> list[Problem]:
    """What keeps a document from having the shape of a template; empty when it has it."""
    if is_valid(document.value):
        return []
    found: dict[tuple[str, int, int], Problem] = {}
    errors = sorted(detailed().iter_errors(document.value), key=lambda error: list(map(str, error.absolute_path)))
    for error in _one_for_a_choice(errors):
        for problem in _translate(document, error):
            found.setdefault((problem.code, problem.place.line, problem.place.column), problem)
    return _without_echoes(list(found.values()))


def _one_for_a_choice(errors: list[Any]) -> list[Any]:
    """Of a value outside a choice that is of another type too, the finding that helps: null lacks a value at all."""
    choices = {tuple(error.absolute_path) for error in errors if error.validator == "enum"}
    return [
        error
        for error in errors
        if tuple(error.absolute_path) not in choices
        or error.validator != ("enum" if error.instance is None else "type")
    ]


def _without_echoes(problems: list[Problem]) -> list[Problem]:
    """One cause, one finding: a misspelt key is not reported as a missing one too."""
    cured = {(problem.place.label, problem.help) for problem in problems if problem.code in ("RLY101", "RLY106")}
    kept = []
    for problem in problems:
        missing = problem.code in ("RLY102", "RLY105") and any(
            label == problem.place.label and any(f'"{key}"' in hint for key in problem.notes) for label, hint in cured
        )
        if not missing:
            kept.append(_plain(problem) if problem.code in ("RLY102", "RLY105") else problem)
    return kept


def _plain(problem: Problem) -> Problem:
    from dataclasses import replace

    return replace(problem, notes=())


def _translate(document: Document, error: Any) -> list[Problem]:
    path: tuple[PathPart, ...] = tuple(error.absolute_path)
    match error.validator:
        case "additionalProperties":
            return _unknown_keys(document, path, error)
        case "required":
            key = next(key for key in error.validator_value if key not in error.instance)
            missing = [key for key in error.validator_value if key not in error.instance]
            return [_missing(document, path, key) for key in missing or [key]]
        case "type":
            return [mistyped(document, path, error.validator_value)]
        case None:
            return [_both(document, path, error)]
        case "anyOf":
            # Of a value that is no mapping at all the type is the finding.
            return [_choice(document, path, error)] if isinstance(error.instance, dict) else []
        case "propertyNames" | "pattern" if "propertyNames" in error.absolute_schema_path:
            return [_bad_key(document, path, error)]
        case _:
            return [_bad_value(document, path, error)]


def _unknown_keys(document: Document, path: tuple[PathPart, ...], error: Any) -> list[Problem]:
    known = error.schema.get("properties", {})
    _, node = document.at(path)
    assert isinstance(node, MappingNode)
    level = level_of(path)
    label = document.label(path)
    problems = []
    for name, (key, _) in node.entries.items():
        if name in known or (level == "" and name.startswith("x-")):
            continue
        problems.append(_unknown_key(document, (*path, name), key, level, label))
    return problems


def _unknown_key(document: Document, path: tuple[PathPart, ...], key: ScalarNode, level: str, label: str) -> Problem:
    meant = meant_by(key.text, level)
    where = f" in {label}" if label else ""
    shown = _short(key.text)
    if meant.home is not None:
        return document.source.problem(
            "RLY106",
            key.start,
            key.end,
            f'key "{shown}" does not belong here{where}',
            detail=f"not a {NOUNS[level]} setting",
            help=f'"{shown}" belongs {meant.home}',
            fix=moved(document, path, meant.level, meant.key or key.text),
            path=path_text(path),
            label=label,
        )
    hint = f'did you mean "{meant.key}"?' if meant.key is not None else "remove it"
    if meant.key is None and key.text.startswith("x-"):
        hint = "x- keys are allowed at the top level only"
    elif meant.key is None and level == "" and _HELPER.fullmatch(key.text):
        hint = f'remove it, or call it "x-{key.text}" if it holds parts to reuse'
    fix = None
    _, holder = document.at(path[:-1])
    if meant.key is not None and isinstance(holder, MappingNode) and meant.key not in holder.entries:
        fix = rewritten(document.source, key, meant.key, f"rename it to {meant.key}", is_safe=False)
    return document.source.problem(
        "RLY101",
        key.start,
        key.end,
        f'unknown key "{shown}"{where}',
        detail=f"not a {NOUNS[level]} setting",
        help=hint,
        fix=fix,
        path=path_text(path),
        label=label,
    )


def _missing(document: Document, path: tuple[PathPart, ...], key: str) -> Problem:
    label = document.label(path)
    start, end = anchor_of(document, path)
    where = label or (path_text(path) or "the template")
    noun = NOUNS[level_of(path)]
    article = "an" if noun[0] in "aeiou" else "a"
    return document.source.problem(
        "RLY102",
        start,
        end,
        f'{where} has no "{key}"',
        help=f'add  {key}: …   ({article} {noun} needs "{key}")',
        notes=(key,),
        path=path_text(path),
        label=label,
    )


def _choice(document: Document, path: tuple[PathPart, ...], error: Any) -> Problem:
    keys = [branch["required"][0] for branch in error.validator_value]
    label = document.label(path)
    if not path:
        return _nothing_to_run(document, keys)
    start, end = anchor_of(document, path)
    return document.source.problem(
        "RLY102",
        start,
        end,
        f'{label} has neither "{keys[0]}" nor "{keys[1]}"',
        help=f'add one of "{keys[0]}" and "{keys[1]}"',
        notes=tuple(keys),
        path=path_text(path),
        label=label,
    )


@lru_cache(maxsize=1)
def _excluded() -> dict[str, str]:
    """Key to the key that may not stand beside it."""
    kinds = template_schema()["definitions"].values()
    return {key: next(iter(rest["properties"])) for kind in kinds for key, rest in kind.get("dependencies", {}).items()}


def _both(document: Document, path: tuple[PathPart, ...], error: Any) -> Problem:
    """Of two keys that exclude each other, the second one written is shown."""
    # Whether the path ends at the mapping or at the key differs between releases of jsonschema.
    present = next(part for part in reversed(error.absolute_schema_path) if part in _excluded())
    keys = _excluded()[present], present
    path = path[:-1] if path[-1] == keys[0] else path
    label = document.label(path)
    _, node = document.at(path)
    assert isinstance(node, MappingNode)
    second = max((node.entries[key][0] for key in keys), key=lambda key: key.start)
    return document.source.problem(
        "RLY104",
        second.start,
        second.end,
        f'{label} has both "{keys[0]}" and "{keys[1]}"',
        detail="one or the other",
        help="remove one of the two",
        path=path_text(path),
        label=label,
    )


def _nothing_to_run(document: Document, keys: list[str]) -> Problem:
    entries = document.root.entries
    key = entries["schedules"][0] if "schedules" in entries else next(key for key, _ in entries.values())
    has_schedules = "schedules" in entries
    return document.source.problem(
        "RLY105",
        key.start,
        key.end,
        "schedules alone are not a template" if has_schedules else "the template declares nothing to run",
        detail="at least one event rule or service is needed",
        help="add  events: [{handler: module.function, pattern: {…}}]   or  services: [{name: …, command: […]}]",
        notes=tuple(keys),
    )


def _bad_key(document: Document, path: tuple[PathPart, ...], error: Any) -> Problem:
    name = error.instance
    _, node = document.at(path)
    key = node.entries[name][0] if isinstance(node, MappingNode) and name in node.entries else None
    start, end = (key.start, key.end) if key is not None else (node.start, node.end)
    return document.source.problem(
        "RLY104",
        start,
        end,
        f'"{_short(str(name))}" is no name for a variable',
        detail="letters, digits and _, not starting with a digit",
        help="rename it",
        path=path_text((*path, str(name))),
    )


_LIMITS = {
    "minimum": "at least {limit}",
    "maximum": "at most {limit}",
    "exclusiveMinimum": "above {limit}",
}


def _bad_value(document: Document, path: tuple[PathPart, ...], error: Any) -> Problem:
    _, node = document.at(path)
    name = path_text(path)
    label = document.label(path)
    last = _last(path)
    keyword = error.validator
    code, message, hint = "RLY104", f"{last} has a value that is not allowed", GENERAL_HELP
    if keyword in _LIMITS:
        code = "RLY108"
        message = f"{last} must be {_LIMITS[keyword].format(limit=error.validator_value)}"
        hint = "write a number in that range"
    elif keyword == "enum":
        allowed = [str(value) for value in error.validator_value]
        message = f"{last} is one of {', '.join(allowed)}"
        hint = _enum_hint(node, allowed)
    elif keyword in ("minItems", "minLength"):
        message, hint = f"{last} is empty", "give it a value, or remove the key"
    elif keyword == "pattern":
        message, hint = _PATTERN_WORDS.get(str(last), (message, hint))
    return document.source.problem(
        code, node.start, max(node.end, node.start + 1), message, help=hint, path=name, label=label
    )


_PATTERN_WORDS = {
    "runtime": ("unknown runtime", "write python, python3.12 (any version), node or exec"),
    "memory": ("memory is not a binary size", "write it with KiB, MiB or GiB, such as 256MiB"),
    "path": ("path must start with a slash", "write  path: /healthz"),
}


def _enum_hint(node: Node, allowed: Sequence[str]) -> str:
    from relayctl.templates.keys import closest

    text = node.text if isinstance(node, ScalarNode) else ""
    found = closest(text, allowed)
    return f'did you mean "{found}"?' if found is not None else f"write {' or '.join(allowed)}"


def anchor_of(document: Document, path: tuple[PathPart, ...]) -> tuple[int, int]:
    """Where a problem of a whole mapping is shown: its name, its first key, or what leads to it."""
    key, node = document.at(path)
    if isinstance(node, MappingNode) and node.entries:
        name, value = node.entries.get("name") or next(iter(node.entries.values()))
        shown = value if isinstance(value, ScalarNode) and name.text == "name" else name
        return shown.start, shown.end
    if key is not None:
        return key.start, key.end
    return node.start, max(node.end, node.start + 1)


def _last(path: tuple[PathPart, ...]) -> str:
    if not path:
        return "the template"
    last = path[-1]
    return str(last) if isinstance(last, str) else path_text(path[-2:])


def _short(text: str) -> str:
    shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:61])
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
