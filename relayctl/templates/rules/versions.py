"""RLY109 and RLY110: templates for another release of the schema, and keys on their way out of it.

A template says which schema it follows in the comment that editors read; most name a file, and so say no version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from relayctl.core.problem import Fix, Problem
from relayctl.templates.deprecation import DeprecatedKey
from relayctl.templates.document import Comment, MappingNode, ScalarNode, SequenceNode
from relayctl.templates.rules.engine import Case
from relayctl.templates.schema import template_schema

_LINE = re.compile(r"#\s*(?:yaml-language-server:\s*\$schema\s*=|\$schema:)\s*(\S+)")
_VERSION = re.compile(
    r"urn:relayctl:schema:template:([0-9]{1,4})(?:\.([0-9]{1,4}))?|/v([0-9]{1,4})(?:\.([0-9]{1,4}))?/template(?:\.schema)?\.json"
)
_LISTS = ("schedules", "events", "services")


def check(case: Case) -> Iterator[Problem]:
    """RLY109, RLY110."""
    # Finding comments takes time, and few templates name a version at all.
    if "$schema" in case.document.source.text and _VERSION.search(case.document.source.text):
        yield from _too_new(case)
    for key in case.manner.deprecated_keys:
        for mapping in _level(case, key.level):
            entry = mapping.entries.get(key.name)
            if entry is not None:
                yield _deprecated(case, key, mapping, entry[0])


@lru_cache(maxsize=1)
def schema_version() -> tuple[int, int]:
    """Major and minor number of the schema that this release reads."""
    major, minor = str(template_schema()["$id"]).rpartition(":")[2].split(".")
    return int(major), int(minor)


def _too_new(case: Case) -> Iterator[Problem]:
    for comment in case.document.comments():
        named = _LINE.match(comment.text)
        found = _VERSION.search(named[1]) if named is not None else None
        if found is None:
            continue
        major, minor = (int(number) for number in (found[1] or found[3], found[2] or found[4] or 0))
        own = schema_version()
        if (major, minor) > own:
            yield _newer(case, comment, found[0], f"{major}.{minor}", f"{own[0]}.{own[1]}")
            return


def _newer(case: Case, comment: Comment, name: str, wanted: str, own: str) -> Problem:
    from relayctl import __version__

    start = comment.start + comment.text.index(name)
    node = ScalarNode(start, start + len(name), name, "", name)
    return case.report(
        "RLY109",
        node,
        (),
        f"the template asks for schema version {wanted}, newer than this relayctl knows",
        detail=f"relayctl {__version__} reads up to {own}",
        help=f"install a relayctl whose schema is {wanted} or later, or name {own} where nothing newer is used",
    )


def _level(case: Case, level: str) -> list[MappingNode]:
    if level not in _LISTS:
        return [case.document.root]
    listed = case.document.root.get(level)
    return [item for item in listed.items if isinstance(item, MappingNode)] if isinstance(listed, SequenceNode) else []


def _deprecated(case: Case, key: DeprecatedKey, mapping: MappingNode, node: ScalarNode) -> Problem:
    fix: Fix | None = None
    if key.instead and key.instead not in mapping.entries:
        fix = case.document.source.replace(node.start, node.end, key.instead, f"write {key.instead}", is_safe=True)
    problem = case.report(
        "RLY110",
        node,
        (),
        f'"{key.name}" will be refused from schema version {key.removed_in} on',
        detail=f"deprecated since version {key.since}",
        help=f'write "{key.instead}", which means the same' if key.instead else "remove it",
        fix=fix,
    )
    return replace(problem, place=replace(problem.place, label=key.level))
