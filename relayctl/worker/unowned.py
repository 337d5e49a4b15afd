"""The schedules of the registry that this worker's files do not hold, with their heads; read only where they changed.

It does not say whether one is an orphan: that depends on who lives. What it has may be a little old, so whoever acts
on a head names its generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from relayctl.core.definition import TOMBSTONE

if TYPE_CHECKING:
    from relayctl.store.definitions import Definitions, Head
    from relayctl.worker.agenda import Name


class Unowned:
    """Used by the reconciler's thread alone."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._heads: dict[Name, Head] | None = None
        self._changed: set[Name] = set()

    def changed(self, names: Iterable[Name]) -> None:
        """These are to be read again before anybody is answered."""
        if self._heads is not None:
            self._changed.update(names)

    def forget(self) -> None:
        """All is to be read again: nobody knows what changed, or it is time to look whether all changes were heard."""
        self._heads = None
        self._changed.clear()

    def heads(self, own: Collection[Name]) -> dict[Name, Head]:
        """The definitions in force that are not the worker's `own`. Raises BrokerError and forgets nothing."""
        if self._heads is None:
            self._heads = self._definitions.look(self._definitions.all_names() - set(own)).heads
        elif self._changed:
            changed = self._changed - set(own)
            found = self._definitions.look(changed).heads if changed else {}
            for name in self._changed:
                self._heads.pop(name, None)
            self._heads |= {name: head for name, head in found.items() if head.hash != TOMBSTONE}
        self._changed.clear()
        return {name: head for name, head in self._heads.items() if name not in own}
