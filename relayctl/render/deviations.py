"""Which live workers run something else than what is in force, and what of it, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from textwrap import wrap
from typing import Any

from relayctl.core.plan import Change, Item

_MOST_NAMED = 4
_MOST_LINES = 20
_INDENT = 10


def deviation_lines(changes: Sequence[Change], width: int) -> str:
    """A line for each worker and app: what it lacks, has besides, or has otherwise; of the environment only names."""
    lines: list[str] = []
    groups = [(key, list(group)) for key, group in groupby(changes, key=lambda change: (change.worker, change.app))]
    for (worker, app), group in groups[:_MOST_LINES]:
        said = [_words(change) for change in group[:_MOST_NAMED]]
        more = [f"{len(group) - _MOST_NAMED:,} more"] if len(group) > _MOST_NAMED else []
        text = f"{'drift':<{_INDENT}}{worker}: {app}: {', '.join([*said, *more])}"
        lines += wrap(
            text, max(width, 40), subsequent_indent=" " * _INDENT, break_long_words=False, break_on_hyphens=False
        )
    if len(groups) > _MOST_LINES:
        lines.append(f"{'':<{_INDENT}}… {len(groups) - _MOST_LINES:,} more; --format json lists all")
    return "".join(f"{line}\n" for line in lines)


def _words(change: Change) -> str:
    kind = "app settings" if change.item is Item.APP else f"{change.item.value} {change.name}"
    if change.presence == "missing":
        return f"no {kind}"
    if change.presence == "extra":
        return f"{kind} besides"
    return f"other {kind} ({', '.join(field.name for field in change.fields)})"


def deviation_documents(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """The same for programs: no values, since status is about whether and plan about what."""
    return [
        {
            "worker": change.worker,
            "app": change.app,
            "item": change.item.value,
            "name": change.name,
            "kind": change.presence or "differs",
            "fields": [] if change.presence else [field.name for field in change.fields],
        }
        for change in changes
    ]
