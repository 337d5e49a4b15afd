"""Runs the rule families over what was read, and applies the ignores. Each family judges; nothing here does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from relayctl.core.problem import Fix, Problem
from relayctl.templates.document import Document, Node, PathPart, path_text
from relayctl.templates.fields import token_span
from relayctl.templates.meaning import Meaning, Triggered
from relayctl.templates.rules.registry import BY_CODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a rule looks at. `now` is an aware instant, or None where no dates may be stated."""

    document: Document
    meaning: Meaning
    now: datetime | None

    def node(self, triggered: Triggered, key: str) -> Node | None:
        """The value of a key of a schedule."""
        found_key, node = self.document.at((*triggered.path, key))
        return node if found_key is not None and found_key.text == key else None

    def report(
        self,
        code: str,
        node: Node,
        path: Sequence[PathPart],
        message: str,
        *,
        help: str,  # noqa: A002
        detail: str = "",
        notes: tuple[str, ...] = (),
        fix: Fix | None = None,
        span: tuple[int, int] | None = None,
    ) -> Problem:
        """A problem of this code at a node, with the severity its rule has."""
        start, end = token_span(self.document, node, span)
        return self.document.source.problem(
            code,
            start,
            end,
            message,
            detail=detail,
            help=help,
            notes=notes,
            fix=fix,
            severity=BY_CODE[code].severity,
            path=path_text(path),
            label=self.document.label(path),
        )


Check = Callable[[Case], Iterator[Problem]]


def _families() -> tuple[Check, ...]:
    from relayctl.templates.rules import cron, load, names, secrets, yaml, zones

    return (yaml.check, secrets.check, names.check, cron.check, zones.check, load.check)


def check_document(
    document: Document, meaning: Meaning, problems: list[Problem], now: datetime | None
) -> list[Problem]:
    """All problems of a document: those given, those of the rules, less the ignored ones."""
    from relayctl.templates.rules import ignores, secrets

    case = Case(document=document, meaning=meaning, now=now)
    taken = {(problem.place.line, problem.place.column) for problem in problems if problem.is_error}
    found = list(problems)
    for check in _families():
        for problem in check(case):
            if problem.code[3] != "6" and (problem.place.line, problem.place.column) in taken:
                continue
            found.append(problem)
    found = ignores.apply(document, found, is_complete=now is not None)
    return secrets.masked(document, found)
