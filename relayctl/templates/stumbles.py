"""What would stop a parser next, and after that: further values without their quotes and further tabs, found by lines.

A line alone does not tell whether a token begins in it, so a text with all of them mended is parsed, and only what a
token of it begins with counts. It mends nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from relayctl.core.problem import Edit, Problem
from relayctl.templates.document import Source
from relayctl.templates.fixes.edits import applied
from relayctl.templates.syntax import FLOW_LEAD, NAME, tab_problem, tab_width, unquoted_problem, value_start

Token = tuple[int, int]
"""Line and column of its first character, both from 1."""

_KEPT = "*@%`"
_SUSPICIOUS = re.compile(r"^(?: *\t|[^\r\n]*?[*@%`])[^\r\n]*", re.MULTILINE)
_ALIAS = re.compile(r"\*([^\s,\[\]{}]+)[ \t]*(?:[,\]}]|#|$)")
_DASHES = re.compile(r"(?:- +)*")


def with_further(source: Source, first: Problem, tokens: Callable[[str], set[Token]]) -> list[Problem]:
    """The problem that stopped the parser, and those behind it that would do the same once it is mended.

    `tokens` gives where tokens begin in a text, as far as it can be read.
    """
    if first.fix is None:
        return [first]
    guesses = [problem for problem in _guesses(source, first.place.line) if _place(problem) != _place(first)]
    if not guesses:
        return [first]
    mended, taken = applied(source.text.encode(), [first, *guesses])
    there = tokens(mended.decode())
    sure = {id(problem) for problem, token in _tokens_of(source, taken) if token in there}
    return [first, *(problem for problem in guesses if id(problem) in sure)]


def _guesses(source: Source, line: int) -> Iterator[Problem]:
    """Lines from `line` on that look like it, whatever they stand in."""
    width = tab_width(source) if "\t" in source.text else 0
    for found in _SUSPICIOUS.finditer(source.text, source.line_bounds(line)[0]):
        number = source.lines_before(found.start())
        if found[0].lstrip().startswith("#"):
            continue
        if "\t" in found[0] and (tab := tab_problem(source, number, width)) is not None:
            yield tab
        for start in _starts(source, *found.span()):
            if not _may_be_alias(source, start, found.end()):
                problem = unquoted_problem(source, start)
                if problem.fix is not None:
                    yield problem


def _starts(source: Source, begin: int, end: int) -> Iterator[int]:
    """Where a value on a line begins with a character that YAML keeps for itself."""
    text = source.text
    start = value_start(source, begin, end)
    if text[start : start + 1] in ("{", "["):
        leads = (lead.end() for lead in FLOW_LEAD.finditer(text, start, end))
        yield from (place for place in leads if place < end and text[place] in _KEPT)
    elif start < end and text[start] in _KEPT:
        yield start


def _may_be_alias(source: Source, start: int, end: int) -> bool:
    """Whether a value refers to an anchor, or reads as if it were meant to."""
    found = _ALIAS.match(source.text, start, end)
    return found is not None and (NAME.fullmatch(found[1]) is not None or f"&{found[1]}" in source.text)


def _tokens_of(source: Source, problems: Sequence[Problem]) -> Iterator[tuple[Problem, Token]]:
    """By problem, the token that its fix makes, where it stands when all of them are put in; none adds a line."""
    edits = sorted(
        ((edit, problem) for problem in problems if problem.fix is not None for edit in problem.fix.edits),
        key=lambda each: (each[0].line, each[0].column),
    )
    for line, group in groupby(edits, key=lambda each: each[0].line):
        shift, told = 0, set[int]()
        for edit, problem in group:
            if id(problem) not in told:
                told.add(id(problem))
                column = edit.column + shift
                yield problem, (line, column + _behind_indent(source, edit))
            shift += len(edit.text) - (edit.end_column - edit.column)


def _behind_indent(source: Source, edit: Edit) -> int:
    """How far behind an edit its token begins: at once, or where it is an indentation, behind that and its dashes."""
    if edit.text.strip():
        return 0
    dashes = _DASHES.match(source.line_text(edit.line), edit.end_column - 1)
    return len(edit.text) + (len(dashes[0]) if dashes is not None else 0)


def _place(problem: Problem) -> tuple[int, int]:
    return problem.place.line, problem.place.column
