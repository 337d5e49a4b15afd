"""Tells dead claims by this machine's own clock: a lease that its owner keeps alive changes every two seconds.

The broker's time usually judges. But one that goes back, or that of another primary, would keep the leases of dead
workers for as long as it went back. It asks nobody; the claimer looks, and takes back what is told here.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

STILL_AFTER_S = 15.0
"""A lease that has not changed for so long has no living owner."""
LOOK_S = 3.0
_LONGEST_STEP_S = 2 * LOOK_S
"""How much of the time between two looks counts: a machine that slept has not seen a lease stand still meanwhile."""


Name = TypeVar("Name", bound=Hashable)


class LeaseWatch(Generic[Name]):
    """For how long each lease has stood still, in looks that follow each other."""

    def __init__(self) -> None:
        self._seen: dict[Name, tuple[int, float]] = {}
        self._looked_at: float | None = None

    def look(self, leases: Mapping[Name, int], now: float) -> dict[Name, int]:
        """Those that have not changed for long, of all leases and their ends at `now` (monotonic seconds)."""
        step = 0.0 if self._looked_at is None else min(max(now - self._looked_at, 0.0), _LONGEST_STEP_S)
        self._looked_at = now
        seen: dict[Name, tuple[int, float]] = {}
        for name, ends in leases.items():
            before = self._seen.get(name)
            seen[name] = (ends, before[1] + step) if before is not None and before[0] == ends else (ends, 0.0)
        self._seen = seen
        return {name: ends for name, (ends, still_s) in seen.items() if still_s >= STILL_AFTER_S}

    def forget(self) -> None:
        """The broker was away, so that nobody could renew: begin anew."""
        self._seen.clear()
        self._looked_at = None
