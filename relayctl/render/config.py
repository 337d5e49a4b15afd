"""The settings table as text and JSON. Values arrive masked; nothing is looked up here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relayctl.render.table import columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting as it is in force."""

    key: str
    value: str
    origin: str
    flag: str
    variable: str
    help: str
    default: str = ""


def text(rows: Sequence[Row]) -> str:
    """A table: key, value, where from, and the two names under which it can be given."""
    head = ("SETTING", "VALUE", "FROM", "FLAG", "VARIABLE")
    return columns([head, *((row.key, row.value or "-", row.origin, row.flag, row.variable) for row in rows)])


def markdown(rows: Sequence[Row]) -> str:
    """The table of the documentation: what there is to set, whatever it is set to here."""
    lines = ["| key | flag | variable | default | meaning |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{row.key}` | `{row.flag}` | `{row.variable}` | {f'`{row.default}`' if row.default else ''} | {row.help} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def as_document(rows: Sequence[Row]) -> dict[str, Any]:
    """A versioned document; an unset value is an empty string."""
    names = ("key", "value", "origin", "default", "flag", "variable", "help")
    return {"v": 1, "settings": [{name: getattr(row, name) for name in names} for row in rows]}
