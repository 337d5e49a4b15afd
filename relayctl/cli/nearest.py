"""The nearest of the names there are, for an error that offers it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one most like `name`, or None where nothing is like it."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)
