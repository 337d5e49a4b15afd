"""What this process signs its claims with; whether a claim stands under a token, the broker's steps decide."""

from __future__ import annotations

import itertools


class Tokens:
    """Claim tokens of one process: never the same twice."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """A new token."""
        return f"{self._process}.{next(self._numbers)}"
