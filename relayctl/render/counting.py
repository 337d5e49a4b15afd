"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`: the noun takes an s unless there is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
