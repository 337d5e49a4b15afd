"""Puts the edits of fixes into a text. It does not ask whether the result is any better (see `rounds`)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass

from relayctl.core.problem import Fix, Problem
from relayctl.templates.document import Source

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """One edit by offsets."""

    start: int
    end: int
    text: str


def text_of(data: bytes) -> tuple[bytes, str]:
    """The byte order mark, if there is one, and the text behind it. Bytes that are not UTF-8 are a ValueError."""
    mark = _MARK if data.startswith(_MARK) else b""
    return mark, data[len(mark) :].decode("utf-8")


def applied(data: bytes, problems: Iterable[Problem]) -> tuple[bytes, list[Problem]]:
    """The bytes with the fixes of these problems put in, and whose they were.

    A fix is put in whole or not at all. Of two that touch each other the first in the text goes in; the other is left
    for another round, in which it may look different.
    """
    mark, text = text_of(data)
    source = Source(file="", text=text)
    wanted = [(_cuts(source, problem.fix), problem) for problem in problems if problem.fix is not None]
    wanted.sort(key=lambda each: (each[0][0].start, each[0][0].end))
    cuts: list[_Cut] = []
    taken: list[Problem] = []
    for each, problem in wanted:
        if not any(_touches_one(cut, cuts) for cut in each):
            for cut in each:
                insort(cuts, cut, key=_place)
            taken.append(problem)
    parts: list[str] = []
    at = 0
    for cut in cuts:
        parts += text[at : cut.start], cut.text
        at = cut.end
    return mark + ("".join(parts) + text[at:]).encode("utf-8"), taken


def _cuts(source: Source, fix: Fix) -> list[_Cut]:
    found = [
        _Cut(
            start=source.offset(edit.line, edit.column),
            end=source.offset(edit.end_line, edit.end_column),
            text=edit.text,
        )
        for edit in fix.edits
    ]
    return sorted(found, key=_place)


def _place(cut: _Cut) -> tuple[int, int]:
    return cut.start, cut.end


def _touches_one(cut: _Cut, others: list[_Cut]) -> bool:
    """Whether a cut touches one of others, which are in order and, but for those of one fix, apart."""
    at = bisect_right(others, (cut.end, cut.end), key=_place)
    behind = at < len(others) and others[at].start <= cut.end
    return behind or (at > 0 and others[at - 1].end >= cut.start)
