"""Which line is indented wrongly where YAML cannot be read: the parser stops at the first line that does not fit, and
that is often the next one. It tries which line has to move, and changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from relayctl.core.counting import counted
from relayctl.core.problem import Problem
from relayctl.templates.document import Source

Reads = Callable[[str], int]
"""How well a text can be read: 0 for not at all, more where it also looks like what is expected."""

_LINES_ABOVE = 6
_MOST_CHARS = 300_000
"""To be read in all tries together; beyond them the likeliest have been tried."""
_SMALL = 4_000
"""Up to so many characters a file may not show all indentations that it could have."""
_ENOUGH = 3
_MOST_PLACES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """A line, and the indentation with which the file can be read."""

    line: int
    indent: int
    worth: tuple[int, bool, int, bool]
    """How well the file can be read then, whether the line stands where none does by whole steps, how many lines stand
    at the new place already, up to a few, and whether that is one step behind the line that it belongs to."""


def misplaced(source: Source, at: int, reads: Reads) -> Problem | None:
    """The problem of the line that has to move, at the offset where the parser gave up or above it; None where no
    single one helps."""
    common: Counter[int] = Counter(
        _indent(text) for text in map(source.line_text, range(1, _last(source) + 1)) if _counts(text)
    )
    tries = _MOST_CHARS // max(len(source.text), 1)
    moves = [
        move
        for line, indent in islice(_places(source, at, common), tries)
        if (move := _move(source, line, indent, common, reads)) is not None
    ]
    if not moves:
        return None
    best = max(moves, key=lambda move: (move.worth, move.line))
    text = source.line_text(best.line)
    start = source.line_bounds(best.line)[0] + _indent(text)
    return source.problem(
        "RLY002",
        start,
        start + len(text.strip()),
        f"this line is indented by {counted(_indent(text), 'space')}, its neighbours by {best.indent}",
        detail="YAML tells by the indentation what belongs together",
        help=f"indent it by {counted(best.indent, 'space')}",
    )


def _candidates(source: Source, at: int) -> list[int]:
    """The line where the parser gave up, and some above it."""
    line = source.lines_before(min(at, len(source.text)))
    found: list[int] = []
    while line >= 1 and len(found) <= _LINES_ABOVE:
        if _counts(source.line_text(line)):
            found.append(line)
        line -= 1
    return found


def _places(source: Source, at: int, common: Counter[int]) -> Iterator[tuple[int, int]]:
    """Lines with the indentations that they might have instead, the likeliest lines first."""
    for line in _candidates(source, at):
        own = _indent(source.line_text(line))
        near = {own + by for by in (-2, -1, 1, 2) if own + by >= 0} if len(source.text) <= _SMALL else set()
        places = sorted(set(common) - {own})[:_MOST_PLACES]
        yield from ((line, indent) for indent in [*places, *sorted(near - set(places))])


def _move(source: Source, line: int, indent: int, common: Counter[int], reads: Reads) -> _Move | None:
    start, end = source.line_bounds(line)
    text = source.text[start:end].lstrip(" ")
    well = reads(f"{source.text[:start]}{' ' * indent}{text}{source.text[end:]}")
    if not well:
        return None
    step = _step(source)
    is_off = _indent(source.text[start:end]) % step != 0 and indent % step == 0
    is_usual = indent - _above(source, line, indent) == (step if indent else 0)
    return _Move(line=line, indent=indent, worth=(well, is_off, min(common[indent], _ENOUGH), is_usual))


def _above(source: Source, line: int, indent: int) -> int:
    """The indentation of the line that one at this place would belong to."""
    texts = (source.line_text(number) for number in range(line - 1, 0, -1))
    return next((_indent(text) for text in texts if _counts(text) and _indent(text) < indent), 0)


def _step(source: Source) -> int:
    """How much further lines of this file mostly stand than what they belong to."""
    indents = [_indent(text) for text in map(source.line_text, range(1, _last(source) + 1)) if _counts(text)]
    steps = Counter(later - earlier for earlier, later in pairwise(indents) if later > earlier)
    step, times = steps.most_common(1)[0] if steps else (2, 0)
    return step if times > 1 else 2


def _counts(text: str) -> bool:
    return bool(text.strip()) and not text.lstrip().startswith("#")


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _last(source: Source) -> int:
    return source.lines_before(len(source.text))
