"""Removes from the registry what no live worker has held for long enough, unless that is too much to be meant."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, RemovalHeld
from relayctl.core.removal import is_mass_removal

if TYPE_CHECKING:
    from relayctl.store.fleet import Fleet
    from relayctl.worker.registrar import Registrar


class Burial:
    """Used by the reconciler's thread. `held` is the revision whose removals wait for consent, or empty."""

    def __init__(self, registrar: Registrar, fleet: Fleet, emit: Emit) -> None:
        self._registrar = registrar
        self._fleet = fleet
        self._emit = emit
        self.held = ""

    def look(self, unclear: Collection[str], revision: str) -> None:
        """Bury the orphans there are. What an app of `unclear` would hold is not known, so nothing of it is one."""
        orphans = {name: head for name, head in self._registrar.orphans().items() if name[0] not in unclear}
        if not orphans:
            self.held = ""
            return
        total = len(orphans) + len(self._registrar.hashes)
        is_large = is_mass_removal(len(orphans), total)
        is_all = not self._registrar.hashes
        if (is_large or is_all) and not self._fleet.has_consent(revision):
            if self.held != revision:
                self.held = revision
                self._emit(RemovalHeld(revision=revision, removed=len(orphans), total=total))
            return
        self.held = ""
        self._registrar.bury(orphans)
