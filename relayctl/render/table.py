"""Plain columns of text. No frames, no colour: the first row is the head."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], *, gap: int = 3, width: int | None = None) -> str:
    """Rows as lines with aligned columns; beyond `width` a line's last column is cut with an ellipsis."""
    if not rows:
        return ""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        line = (" " * gap).join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip()
        lines.append(line if width is None or len(line) <= width else line[: width - 1].rstrip() + "…")
    return "\n".join(lines) + "\n"
