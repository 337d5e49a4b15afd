"""Entries of the stream that are left where they are for a while, since nothing could be made of them, and why.

They stay pending, so peers try them too. One that breaks its classification again and again is given up at last: it
would come back for ever, and enough of its like would hide what died readers left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from relayctl.core.facts import LoopFailed

if TYPE_CHECKING:
    from relayctl.core.facts import Emit

LEFT_FOR_S = 60.0
"""What the broker refuses is looked at again after that."""
BROKEN_FOR_S = 5.0
"""What cannot be classified is looked at again after that: a peer of another version may know better meanwhile."""
MOST_TRIES = 3
_MOST_COUNTED = 10_000


class SetAside:
    """Used by the consumer's thread. Instants are monotonic seconds."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._until: dict[str, float] = {}
        self._tries: dict[str, int] = {}

    def still(self, now: float) -> Collection[str]:
        """The entries that are left alone now."""
        self._until = {entry: until for entry, until in self._until.items() if until > now}
        return self._until.keys()

    def leave(self, reasons: Mapping[str, str], now: float) -> None:
        """The broker refuses these for good, by id with the reason."""
        self._leave(reasons, now + LEFT_FOR_S)

    def broken(self, reasons: Mapping[str, str], now: float) -> frozenset[str]:
        """These cannot be classified; those of them that have been tried often enough are answered, not left."""
        if len(self._tries) + len(reasons) > _MOST_COUNTED:
            # Peers have taken most of these since.
            self._tries.clear()
        for entry in reasons:
            self._tries[entry] = self._tries.get(entry, 0) + 1
        hopeless = frozenset(entry for entry in reasons if self._tries[entry] >= MOST_TRIES)
        self._leave({entry: why for entry, why in reasons.items() if entry not in hopeless}, now + BROKEN_FOR_S)
        return hopeless

    def _leave(self, reasons: Mapping[str, str], until: float) -> None:
        if not reasons:
            return
        self._until |= dict.fromkeys(reasons, until)
        first = next(iter(reasons))
        others = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        self._emit(LoopFailed(loop="consumer", reason=f"entry {first} cannot be routed: {reasons[first]}{others}"))
