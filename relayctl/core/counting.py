"""Numbers with their nouns, and names of which there may be too many to list."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`: the noun takes an s unless there is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int, noun: str = "") -> str:
    """`a, b and 3 more`, or with a noun `a, b and 3 more apps`: the first ones, and how many are left out."""
    left = len(names) - most
    if left <= 0:
        return ", ".join(names)
    more = counted(left, f"more {noun}") if noun else f"{left:,} more"
    return f"{', '.join(names[:most])} and {more}"
