"""What a claim made now would pin, as text. Made once for each slot of a revision, since most claims are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relayctl.core.lifecycle import Slot, descriptor_of

if TYPE_CHECKING:
    from datetime import timedelta

    from relayctl.worker.snapshot import LiveApp

_MOST_KEPT = 10_000


class Contracts:
    """Used by the loops that claim; two that make the same at once make it equal."""

    def __init__(self, cap: timedelta) -> None:
        """`cap` is the longest timeout this worker grants."""
        self._cap = cap
        self._texts: dict[tuple[str, str], tuple[LiveApp, str | None]] = {}

    def text(self, live: LiveApp, slot: Slot) -> str | None:
        """The descriptor's text; None where the template has no such slot."""
        key = (live.app.name, slot.text)
        known = self._texts.get(key)
        if known is not None and known[0] is live:
            return known[1]
        item = live.resolve(slot)
        made = None
        if item is not None:
            made = descriptor_of(live.app.name, item, cap=self._cap, revision=live.revision).to_json()
        if len(self._texts) >= _MOST_KEPT:
            self._texts.clear()
        self._texts[key] = (live, made)
        return made
