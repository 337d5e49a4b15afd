"""Lint rules for readers: a list, a page, Markdown for the docs, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relayctl.core.problem import Severity
from relayctl.render.table import columns

_WHEN = {
    Severity.ERROR: "error: the app is not run",
    Severity.WARNING: "warning",
    Severity.INFO: "remark, with --strict only",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What there is to say about a rule. `fix` is safe, unsafe or none."""

    code: str
    name: str
    severity: Severity
    summary: str
    fix: str
    can_be_ignored: bool
    bad: str = ""
    good: str = ""


def listing(cards: Sequence[Card]) -> str:
    """One line per rule."""
    head = ("CODE", "NAME", "SEVERITY", "FIX", "ABOUT")
    return columns([head, *((card.code, card.name, card.severity.value, card.fix, card.summary) for card in cards)])


def page(card: Card) -> str:
    """Everything about one rule."""
    lines = [f"{card.code} {card.name}", "", card.summary, "", f"  severity  {_WHEN[card.severity]}"]
    lines.append(f"  fix       {_fix(card)}")
    lines.append(f"  ignore    {_ignore(card)}")
    for title, example in (("wrong", card.bad), ("right", card.good)):
        if example:
            lines += ["", f"{title}:", *(f"    {line}" for line in example.splitlines())]
    return "\n".join(lines) + "\n"


def markdown(cards: Sequence[Card]) -> str:
    """A section per rule."""
    parts = []
    for card in cards:
        part = [f"## {card.code} {card.name}", "", card.summary, "", f"- Severity: {_WHEN[card.severity]}."]
        part += [f"- Fix: {_fix(card)}.", f"- Ignore: {_ignore(card)}."]
        for title, example in (("Wrong", card.bad), ("Right", card.good)):
            if example:
                part += ["", f"{title}:", "", "```yaml", *example.splitlines(), "```"]
        parts.append("\n".join(part))
    return "\n\n".join(parts) + "\n"


def as_document(cards: Sequence[Card]) -> dict[str, Any]:
    """A versioned document."""
    rules = [
        {
            "code": card.code,
            "name": card.name,
            "severity": card.severity.value,
            "summary": card.summary,
            "fix": card.fix,
            "can_be_ignored": card.can_be_ignored,
            "bad": card.bad,
            "good": card.good,
        }
        for card in cards
    ]
    return {"v": 1, "rules": rules}


def _fix(card: Card) -> str:
    return {"safe": "an edit that keeps the meaning", "unsafe": "an edit that changes what runs"}.get(
        card.fix, "by hand"
    )


def _ignore(card: Card) -> str:
    return f"# relay: ignore[{card.code}] reason" if card.can_be_ignored else "not possible in the file"
