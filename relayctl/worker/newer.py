"""Says what was left because a newer relayctl wrote it: at once, then every ten minutes at most for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relayctl.core.facts import NewerLeft

if TYPE_CHECKING:
    from collections.abc import Collection

    from relayctl.core.facts import Emit
    from relayctl.host.clock import Clock

AGAIN_AFTER_S = 600.0


class NewerTold:
    """Used by one thread."""

    def __init__(self, clock: Clock, emit: Emit) -> None:
        self._clock = clock
        self._emit = emit
        self._told_at: dict[str, float] = {}

    def tell(self, kind: str, names: Collection[str]) -> None:
        """These were left; names the first of them, and counts all."""
        now = self._clock.monotonic()
        if not names or now - self._told_at.get(kind, -AGAIN_AFTER_S) < AGAIN_AFTER_S:
            return
        self._told_at[kind] = now
        self._emit(NewerLeft(kind=kind, name=min(names), count=len(names)))
