"""Lint rules for readers: a list, a page, Markdown for the docs, JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relayctl.core.problem import Severity
from relayctl.render.table import columns

_WHEN = {
    Severity.ERROR: "error: the app is not run",
    Severity.WARNING: "warning",
    Severity.INFO: "remark, with --strict only",
}
_FIXES = {
    "safe": ("relayctl validate --fix", "keeps the meaning"),
    "unsafe": ("relayctl validate --fix --unsafe-fixes", "changes what runs"),
    "none": ("by hand", ""),
}
_WIDEST = 100
_LABEL = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What there is to say about a rule. `fix` is safe, unsafe or none; under `token` the caret of `bad` stands.

    `says` and `help` are the message and the way out that the bad example gets.

    `keep` tells how to live with the finding. `is_console`: the examples are words for a terminal, and no template.
    """

    code: str
    name: str
    severity: Severity
    summary: str
    fix: str
    can_be_ignored: bool
    why: str = ""
    keep: str = ""
    token: str = ""
    says: str = ""
    help: str = ""
    bad: str = ""
    good: str = ""
    is_console: bool = False
    is_of_plan: bool = False
    """Found by `plan` in a fleet or between two trees, and by nothing in one file."""


def listing(cards: Sequence[Card]) -> str:
    """One line per rule."""
    head = ("CODE", "NAME", "SEVERITY", "FIX", "ABOUT")
    return columns([head, *((card.code, card.name, card.severity.value, card.fix, card.summary) for card in cards)])


def page(card: Card, width: int = 80) -> str:
    """Everything about one rule."""
    room = min(width, _WIDEST)
    lines = [f"{card.code} {card.name}", "", *_wrapped(card.summary, room)]
    if card.why:
        lines += ["", *_wrapped(card.why, room)]
    lines += ["", "wrong:", *_indented(_underlined(card))]
    lines += _wrapped(card.says, room, "    = says: ") if card.says else []
    lines += _wrapped(card.help, room, "    = help: ") if card.help else []
    lines += ["", "right:", *_indented(card.good)]
    lines.append("")
    for label, words in (("severity", _WHEN[card.severity]), ("fix", _plain(*_FIXES[card.fix])), ("keep", _keep(card))):
        lines += _wrapped(words, room, f"  {label:<{_LABEL}}")
    return "\n".join(lines) + "\n"


def markdown(cards: Sequence[Card]) -> str:
    """A section per rule; for one rule, its page in the docs."""
    return "\n".join(_section(card) for card in cards)


def _section(card: Card) -> str:
    lines = [f"# {card.code} {card.name}", "", card.summary]
    lines += ["", card.why] if card.why else []
    fence = "```text" if card.is_console else "```yaml"
    for title, example in (("Wrong", card.bad), ("Right", card.good)):
        if example:
            lines += ["", f"{title}:", "", fence, *example.splitlines(), "```"]
        if title == "Wrong" and card.says:
            lines += ["", f"At {_place(card)} it says: {_ended(card.says)} The way out: {_ended(card.help)}"]
    fix = _code(*_FIXES[card.fix])
    lines += ["", f"- Severity: {_WHEN[card.severity]}.", f"- Fix: {fix}.", f"- Keep: {_keep(card, _code)}."]
    return "\n".join(lines) + "\n"


def _plain(words: str, remark: str = "") -> str:
    return f"{words}   {remark}".rstrip()


def _place(card: Card) -> str:
    return f"`{card.token.strip()}`" if card.token.strip() else "the tab" if card.token else "the top"


def _ended(words: str) -> str:
    return words if words.endswith(("?", ".")) else f"{words}."


def _indented(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.splitlines()]


def _code(words: str, remark: str = "") -> str:
    return f"`{words}` {remark}".rstrip() if " --" in words or words.startswith("#") else words


def _keep(card: Card, spell: Callable[[str, str], str] = _plain) -> str:
    """How to live with the finding, or why that cannot be; without a full stop."""
    keep = card.keep.removesuffix(".")
    if card.is_of_plan:
        return keep
    if card.can_be_ignored:
        first = spell(f"# relay: ignore[{card.code}] reason", "at the end of the line, or alone above it")
    elif card.code[3] == "7":
        first = "not possible: it is about the directory, and no line of a file"
    elif card.code[3] == "6":
        first = "not possible: a secret in a file is never right"
    elif card.severity is Severity.ERROR:
        first = "not possible: the app cannot run as it stands"
    else:
        first = "not possible: the cure changes the text and not what it means"
    return f"{first}. {keep}" if keep else first


def index(cards: Sequence[Card]) -> str:
    """A table of all rules in Markdown, each with a link to the file of its page."""
    rows = [
        f"| [{card.code}]({card.code}.md) | {card.name} | {card.severity.value} | {card.fix} | {card.summary} |"
        for card in cards
    ]
    head = [
        "# Rules",
        "",
        "What `relayctl validate` and `relayctl plan` find. `relayctl rule CODE` prints the same pages.",
        "",
    ]
    return (
        "\n".join([*head, "| code | name | severity | fix | about |", "| --- | --- | --- | --- | --- |", *rows]) + "\n"
    )


def as_document(cards: Sequence[Card]) -> dict[str, Any]:
    """A versioned document."""
    rules = [
        {
            "code": card.code,
            "name": card.name,
            "severity": card.severity.value,
            "summary": card.summary,
            "why": card.why,
            "fix": card.fix,
            "can_be_ignored": card.can_be_ignored,
            "keep": card.keep,
            "says": card.says,
            "help": card.help,
            "bad": card.bad,
            "good": card.good,
        }
        for card in cards
    ]
    return {"v": 1, "rules": rules}


def _wrapped(words: str, width: int, head: str = "") -> list[str]:
    rest = " " * len(head)
    return textwrap.wrap(
        words, width, initial_indent=head, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _underlined(card: Card) -> str:
    """The bad example with carets under what is found."""
    lines = card.bad.splitlines()
    if not card.token:
        return card.bad
    at = max((place for place, line in enumerate(lines) if card.token in line), default=None)
    if at is None:
        return card.bad
    start = lines[at].rindex(card.token)
    lines.insert(at + 1, " " * start + "^" * len(card.token))
    return "\n".join(lines)
