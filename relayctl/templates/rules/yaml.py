"""Family 0 where the file can be read: values that other YAML readers read otherwise, anchors, the modeline."""

from __future__ import annotations

import re
from collections.abc import Iterator

from relayctl.core.counting import counted
from relayctl.core.problem import Fix, Problem
from relayctl.templates.document import ScalarNode
from relayctl.templates.rules.engine import Case
from relayctl.templates.scalars import is_old_boolean, is_old_number
from relayctl.templates.secretshapes import keeps_values

_ANCHOR = re.compile(r"(?<![^\s,\[{])(&[^\s,\[\]{}]+)")
_MODELINE = "yaml-language-server:"
_SCHEMA = "../../schemas/template.schema.json"


def check(case: Case) -> Iterator[Problem]:
    """RLY008, RLY009, RLY016, RLY111."""
    for path, _, node in case.document.scalars():
        if not node.is_plain or not node.text or (path and str(path[0]).startswith("x-")):
            continue
        if len(node.text) <= 3 and is_old_boolean(node.text) and isinstance(node.value, str):
            yield _quote(case, "RLY008", path, node, "a boolean")
        elif node.text[0] in "0123456789+-" and node.text[-1] in "0123456789_" and is_old_number(node.text):
            yield _quote(case, "RLY009", path, node, "another number")
    if case.document.has_anchors:
        yield _anchors(case)
    if _MODELINE not in case.document.source.text[:2000] and case.document.root.entries:
        first, _ = next(iter(case.document.root.entries.values()))
        yield case.report(
            "RLY111",
            first,
            (),
            "no schema line for editors at the top",
            detail="editors take template.yaml for another tool's file",
            help="add  # yaml-language-server: $schema=…   with the path that `relayctl schema` prints to a file",
            fix=_modeline(case),
        )


def _anchors(case: Case) -> Problem:
    """At the first anchor; what looks like one within a value or a comment is none."""
    taken = [(node.start, node.end) for _, _, node in case.document.scalars()]
    taken += [(comment.start, comment.end) for comment in case.document.comments()]
    found = [
        each
        for each in _ANCHOR.finditer(case.document.source.text)
        if not any(start <= each.start(1) < end for start, end in taken)
    ]
    node, _ = next(iter(case.document.root.entries.values()))
    if found:
        node = ScalarNode(found[0].start(1), found[0].end(1), found[0][1], "", found[0][1])
    return case.report(
        "RLY016",
        node,
        (),
        "the template uses anchors",
        detail=f"{len(found)} in all",
        help="write the repeated part out, or leave it",
    )


def _modeline(case: Case) -> Fix | None:
    """Only where the schema lies at the place that `relayctl init` gives it: a line that leads nowhere helps nobody."""
    if case.directory is None or not (case.directory / _SCHEMA).is_file():
        return None
    source = case.document.source
    edit = source.insert(0, f"# {_MODELINE} $schema={_SCHEMA}{source.newline}")
    return Fix(description="add the schema line", edits=(edit,), is_safe=True)


def _quote(case: Case, code: str, path: tuple[str | int, ...], node: ScalarNode, what: str) -> Problem:
    name = next((part for part in reversed(path) if isinstance(part, str)), "the value")
    if isinstance(node.value, int | float) and not any(keeps_values(str(part)) for part in path):
        return case.report(
            code,
            node,
            path,
            f"{name}: a leading zero or mark that older YAML readers take for {what}",
            detail=f"read here as {node.value}",
            help=f"write {node.value}",
            fix=case.document.source.replace(node.start, node.end, str(node.value), "write it plainly", is_safe=True),
        )
    return case.report(
        code,
        node,
        path,
        f"{name}: older YAML readers take this text for {what}",
        detail=f"read here as text of {counted(len(node.text), 'character')}",
        help="put it in quotes",
        fix=case.document.source.enclose(node.start, node.end),
    )
