"""A plan as a comment on a change: counts and a table in sight, the details folded away, and all bounded in length."""

from __future__ import annotations

import re

from relayctl.core.plan import Change, Item, Plan
from relayctl.render.plan import MARKS, Setting, closing, consequences, details, heads, held_text, in_brief, label, verb

_MOST_ROWS = 100
_MOST_CHARACTERS = 50_000
"""Hosts of code take comments of some 65,000 characters."""
_SPECIAL = "\\|*_`[]~#"
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_CALL = re.compile(r"(?<!\w)@(?=\w)")
_NO_CALL = "<code>@</code>"


def markdown(plan: Plan, setting: Setting) -> str:
    """The whole comment."""
    lines = [f"**{escaped(closing(plan, setting))}**", ""]
    lines += [f"{name}: {escaped(words)}  " for name, words in heads(setting)]
    lines.append("")
    lines += [f"- held: {escaped(held_text(held))}" for held in plan.held]
    lines += [f"- warning: {escaped(warning)}" for warning in setting.warnings]
    lines += [""] if plan.held or setting.warnings else []
    if plan.changes:
        lines += ["| | what | | |", "| --- | --- | --- | --- |"]
        lines += [_row(change) for change in plan.changes[:_MOST_ROWS]]
        lines += ["", *_more(len(plan.changes) - _MOST_ROWS), *map(escaped, consequences(plan))]
        lines += [] if setting.is_concise else _folded(plan)
    if setting.shows_unchanged and plan.unchanged:
        lines += ["", *_unchanged(plan)]
    return "\n".join(lines).rstrip() + "\n"


def escaped(value: str) -> str:
    """A value may not end its cell, be read as emphasis or as a tag, nor call somebody by name (`@daily`)."""
    flat = "".join(char if char.isprintable() else " " for char in value)
    safe = "".join(_ENTITIES.get(char, f"\\{char}" if char in _SPECIAL else char) for char in flat)
    return _CALL.sub(_NO_CALL, safe)


def _row(change: Change) -> str:
    cells = (MARKS[change.action], _name(change), escaped(verb(change)), escaped("  ".join(in_brief(change))))
    return f"| {' | '.join(cells)} |"


def _name(change: Change) -> str:
    words = label(change.item, change.name)
    return escaped(f"{change.app}/{words}" if change.item is Item.SCHEDULE else f"{change.app}: {words}")


def _folded(plan: Plan) -> list[str]:
    """The details of each change in a part that opens on demand; a blank line keeps Markdown alive inside it."""
    blocks: list[str] = []
    room, told = _MOST_CHARACTERS, 0
    described = [(change, found) for change in plan.changes if (found := details(change, plan))]
    for change, found in described:
        block = [f"- `{MARKS[change.action]}` **{_name(change)}** {escaped(verb(change))}"]
        block += [f"  - {escaped(f'{name}: {value}')}" for name, value in found]
        room -= sum(len(line) + 1 for line in block)
        if room < 0:
            break
        blocks += block
        told += 1
    if not described:
        return []
    return ["", "<details><summary>Details</summary>", "", *blocks, "", *_more(len(described) - told), "</details>"]


def _unchanged(plan: Plan) -> list[str]:
    shown = {(change.item, change.app, change.name) for change in plan.changes}
    names = [
        escaped(f"{app}/{label(item, name)}") for item, app, name in plan.unchanged if (item, app, name) not in shown
    ]
    listed = [f"- {name}" for name in names[:_MOST_ROWS]]
    left = _more(len(names) - _MOST_ROWS)
    return [f"<details><summary>{len(names):,} unchanged</summary>", "", *listed, "", *left, "</details>"]


def _more(left: int) -> list[str]:
    return [f"… {left:,} more; relayctl plan shows all", ""] if left > 0 else []
