"""Runs the rule families over what was read, and applies the ignores. Each family judges; nothing here does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from relayctl.core.problem import Fix, Problem
from relayctl.templates.deprecation import DEPRECATED_KEYS, DeprecatedKey
from relayctl.templates.document import Document, Node, PathPart, path_text
from relayctl.templates.fields import token_span
from relayctl.templates.meaning import Meaning, Triggered
from relayctl.templates.rules.registry import BY_CODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How strictly to look: how far ahead clock changes matter, whether comments may silence a rule,
    whether anything but errors is wanted, and which keys are on their way out."""

    tz_horizon: timedelta = timedelta(days=370)
    with_ignores: bool = True
    only_errors: bool = False
    deprecated_keys: tuple[DeprecatedKey, ...] = DEPRECATED_KEYS


USUAL = Manner()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a rule looks at. `now` is an aware instant, or None where no dates may be stated; `directory` is the
    app's, where the text came from one."""

    document: Document
    meaning: Meaning
    now: datetime | None
    directory: Path | None = None
    manner: Manner = USUAL

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


def _families(manner: Manner, *, is_sound: bool) -> tuple[Check, ...]:
    from relayctl.templates.rules import cron, habits, load, names, secrets, versions, yaml, zones

    if manner.only_errors:
        return (versions.check, secrets.check, cron.check)
    whole = (yaml.check, versions.check, secrets.check, names.check)
    # A misspelt timeout is one mistake, and no habit of going without.
    return (*whole, cron.check, zones.check, load.check, *((habits.check,) if is_sound else ()))


def check_document(
    document: Document,
    meaning: Meaning,
    problems: list[Problem],
    now: datetime | None,
    *,
    directory: Path | None = None,
    manner: Manner = USUAL,
) -> list[Problem]:
    """All problems of a document: those given, those of the rules, less the ignored ones."""
    from relayctl.templates.rules import ignores, secrets

    case = Case(document=document, meaning=meaning, now=now, directory=directory, manner=manner)
    taken = {(problem.place.line, problem.place.column) for problem in problems if problem.is_error}
    found = list(problems)
    for check in _families(manner, is_sound=not taken):
        for problem in check(case):
            if problem.code[3] != "6" and (problem.place.line, problem.place.column) in taken:
                continue
            found.append(problem)
    if manner.with_ignores:
        found = ignores.apply(document, found, needed=meaning.problems, is_complete=now is not None)
    if manner.only_errors:
        found = [problem for problem in found if problem.is_error]
    return secrets.masked(document, found)
