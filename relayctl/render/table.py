"""Plain columns of text. No frames, no colour: the first row is the head. Nothing is cut: it goes below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

_ROOM = 20
"""Columns that a text needs to be read in its place."""


def columns(rows: Sequence[Sequence[str]], *, gap: int = 3, width: int | None = None) -> str:
    """Rows as lines with aligned columns.

    Beyond `width` the last column is wrapped in its place, or stands below its row where it has little room there. Of
    columns in front of it those that do not fit follow below as well, with their heads.
    """
    if not rows:
        return ""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    if width is None or sum(widths) + gap * (len(widths) - 1) <= width:
        return "".join(f"{_line(row, widths, gap)}\n" for row in rows)
    kept = len(widths) - 1
    while kept > 1 and sum(widths[:kept]) + gap * (kept - 1) > width:
        kept -= 1
    at = sum(widths[:kept]) + gap * kept
    if kept == len(widths) - 1 and _fits(rows, width - at):
        return "".join(f"{line}\n" for row in rows for line in _wrapped(row, widths, gap, width - at))
    lines = [_line(rows[0][:kept], widths, gap)]
    for row in rows[1:]:
        lines += _line(row[:kept], widths, gap), *_below(rows[0][kept:], row[kept:], width)
    return "".join(f"{line}\n" for line in lines)


def _fits(rows: Sequence[Sequence[str]], room: int) -> bool:
    """Whether the last column can be wrapped in its place without breaking a word."""
    return room >= _ROOM and all(len(word) <= room for row in rows for word in row[-1].split())


def _wrapped(row: Sequence[str], widths: Sequence[int], gap: int, room: int) -> Iterator[str]:
    first, *others = wrap(row[-1], room, break_on_hyphens=False) or [""]
    yield _line([*row[:-1], first], widths, gap)
    yield from (" " * (sum(widths[:-1]) + gap * (len(widths) - 1)) + other for other in others)


def _below(heads: Sequence[str], cells: Sequence[str], width: int) -> list[str]:
    """The cells that have no place in their row; several are told apart by their heads."""
    said = [(head, cell) for head, cell in zip(heads, cells, strict=True) if cell not in {"", "-"}]
    text = ", ".join(f"{head.lower()} {cell}" for head, cell in said) if len(heads) > 1 else "".join(cells)
    if not said:
        return []
    return wrap(text, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _line(row: Sequence[str], widths: Sequence[int], gap: int) -> str:
    return (" " * gap).join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=False)).rstrip()
