"""The name of a schedule or a service, refused with a legal one close to it. Names are never changed on the quiet."""

from __future__ import annotations

from relayctl.core.names import legal_form, why_not_a_name
from relayctl.templates.document import ScalarNode
from relayctl.templates.fields import Fields
from relayctl.templates.fixes.tokens import rewritten


def check_name(item: Fields, node: ScalarNode) -> None:
    """Refuse a schedule or service name that is none, with a legal one close to it."""
    text = str(node.value)
    why = why_not_a_name(text)
    if why is None:
        return
    legal = legal_form(text)
    fix = None
    if legal is not None:
        fix = rewritten(item.document.source, node, legal, f"rename it to {legal}", is_safe=False)
    item.add(
        "RLY703",
        node,
        f"name cannot be used: {why}",
        help=f'use "{legal}"' if legal is not None else "use a-z, 0-9, '.', '_' and '-', at most 63 characters",
        path=(*item.path, "name"),
        fix=fix,
    )
