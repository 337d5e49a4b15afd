"""Family 7 within one app: names that people will confuse. Duplicates are errors and found by `meaning`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from relayctl.core.problem import Problem
from relayctl.templates.document import MappingNode, ScalarNode, SequenceNode
from relayctl.templates.rules.engine import Case


def check(case: Case) -> Iterator[Problem]:
    """RLY704."""
    for key in ("schedules", "services"):
        seen: dict[str, ScalarNode] = {}
        items = case.document.root.get(key)
        for at, item in enumerate(items.items if isinstance(items, SequenceNode) else []):
            node = item.get("name") if isinstance(item, MappingNode) else None
            if not isinstance(node, ScalarNode):
                continue
            letters = re.sub(r"[-_.]", "", node.text)
            first = seen.setdefault(letters, node)
            if first is not node and first.text != node.text:
                line = case.document.source.position(first.start)[0]
                yield case.report(
                    "RLY704",
                    node,
                    (key, at, "name"),
                    f'"{node.text[:63]}" and "{first.text[:63]}" differ in punctuation only',
                    detail=f"the other one is on line {line}",
                    help="give one of them a name that cannot be mistaken",
                )
