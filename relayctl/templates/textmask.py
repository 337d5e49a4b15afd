"""Hides secrets in the line a problem shows where the file could not be read into a tree: by indentation and by shape.

It hides rather too much than too little; lengths are kept, so that carets stay right.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from relayctl.core.problem import Problem
from relayctl.templates.document import Source
from relayctl.templates.secretshapes import keeps_values, promises_secret, secret_in, starred

_ENTRY = re.compile(r"^([ \t]*(?:-[ \t]+)*)([^\s:#][^:#]*?)[ \t]*:(?:[ \t]+|$)")
_KEY = re.compile(r"([A-Za-z0-9_.-]{2,80})[\"']?[ \t]*[:=,]")
"""A key anywhere in a line, or a word of a command with its value behind it."""
_HIDING = frozenset({"env", "secrets", '"env"', '"secrets"', "'env'", "'secrets'"})
_HEAD = re.compile(r"(?:\A|(?<=[\r\n]))[^\s#]")
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY")


def without_secrets(source: Source, problems: Sequence[Problem]) -> list[Problem]:
    """The problems with their lines made safe to show."""
    mask = LineMask(source)
    return [
        worded(
            problem
            if problem.excerpt is None
            else replace(problem, excerpt=mask.safe(problem.place.line, problem.excerpt))
        )
        for problem in problems
    ]


def worded(problem: Problem) -> Problem:
    """The problem without tokens in its words: a rule quotes what it found, and the key, too, may be a secret."""
    place = replace(problem.place, path=starred(problem.place.path), label=starred(problem.place.label))
    return replace(
        problem,
        place=place,
        message=starred(problem.message),
        detail=starred(problem.detail),
        help=starred(problem.help),
        notes=tuple(starred(note) for note in problem.notes),
        excerpt=None if problem.excerpt is None else starred(problem.excerpt),
    )


class LineMask:
    """Hides in the lines of one text; what a line belongs to is found once for all of them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @cached_property
    def _heads(self) -> list[int]:
        """The lines that stand at the left margin and say something."""
        return [self._source.lines_before(found.start()) for found in _HEAD.finditer(self._source.text)]

    @cached_property
    def _keys(self) -> list[tuple[int, int]]:
        """First and last line of each private key; one without an end goes on to that of the text."""
        text, found = self._source.text, []
        for begin in _BEGIN.finditer(text):
            end = _END.search(text, begin.start())
            last = len(text) if end is None else end.start()
            found.append((self._source.lines_before(begin.start()), self._source.lines_before(last)))
        return found

    def safe(self, line: int, text: str) -> str:
        """A line of the source, with stars for what may be secret."""
        if any(first <= line <= last for first, last in self._keys):
            return _stars(text, 0)
        entry = _ENTRY.match(text)
        if entry is not None and entry[2] in _HIDING:
            return _stars(text, entry.end())
        if self._is_in_hiding_block(line, text):
            return _stars(text, entry.end() if entry is not None else len(text) - len(text.lstrip()))
        told = next((found for found in _KEY.finditer(text) if _tells(found[1])), None)
        if told is not None:
            return _stars(text, told.end())
        return _stars(text, 0) if secret_in("", text) is not None else text

    def _is_in_hiding_block(self, line: int, text: str) -> bool:
        at = bisect_left(self._heads, line) - 1
        head = _ENTRY.match(self._source.line_text(self._heads[at])) if at >= 0 else None
        is_inside = text[:1].isspace() or _ENTRY.match(text) is None
        return head is not None and head[2] in _HIDING and is_inside


def _tells(word: str) -> bool:
    return keeps_values(word) or promises_secret(word)


def _stars(text: str, start: int) -> str:
    return text[:start] + re.sub(r"\S", "*", text[start:])
