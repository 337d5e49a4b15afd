"""Holds back what a worker's files would remove at once, where that is too much to be meant and nobody has consented.

It looks at schedules, since these are what is missed. What the registry has and nobody holds is `burial`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, RemovalHeld
from relayctl.core.removal import is_mass_removal
from relayctl.errors import BrokerError
from relayctl.worker.treenews import schedules_of

if TYPE_CHECKING:
    from relayctl.store.fleet import Fleet
    from relayctl.worker.agenda import Name
    from relayctl.worker.registrar import Registrar
    from relayctl.worker.snapshot import LiveApp


class RemovalGuard:
    """Used by the reconciler's thread. `held` is the revision whose removals wait for consent, or empty."""

    def __init__(self, registrar: Registrar, fleet: Fleet, emit: Emit) -> None:
        self._registrar = registrar
        self._fleet = fleet
        self._emit = emit
        self._was_emptied = False
        self.held = ""

    @property
    def has_consent(self) -> bool:
        """Whether somebody has agreed to what is held. Raises BrokerError."""
        return bool(self.held) and self._fleet.has_consent(self.held)

    def emptied(self, revision: str, *, is_bare: bool, has_more_kept: Callable[[], bool]) -> str:
        """Why a tree that can be read counts as lost: from the start it has nothing of what ran; empty if it does not.

        A mount that comes up late looks like this, and so does an intended end, which waits for consent. `is_bare` says
        that the tree has nothing, `has_more_kept` that this is a start at which something is remembered.
        """
        was_emptied, self._was_emptied = self._was_emptied, False
        if not is_bare or not (was_emptied or has_more_kept()):
            return ""
        if was_emptied and self._fleet.has_consent(revision):
            return ""
        self._was_emptied = True
        self.held = revision
        return f"it has none of the apps that ran; if intended: relayctl reconcile --accept-removals {revision}"

    def guarded(self, live: Mapping[str, LiveApp], following: dict[str, LiveApp], revision: str) -> dict[str, LiveApp]:
        """`following` without its removals, where these are too many to be meant and nobody has consented."""
        before, after = names_of(live), names_of(following)
        removed = len(before - after)
        if removed:
            with suppress(BrokerError):
                # What goes on under another name is not removed.
                removed -= len(
                    set(self._registrar.renames.pairs(schedules_of(following), before, ()).values()) & (before - after)
                )
        is_emptied = bool(live) and not following
        is_large = is_mass_removal(removed, len(before))
        if not (is_emptied or is_large) or self._fleet.has_consent(revision):
            self.held = ""
            return following
        if self.held != revision:
            self.held = revision
            self._emit(RemovalHeld(revision=revision, removed=removed, total=len(before)))
        losing = {name for name in live if names_of({name: live[name]}) - after or name not in following}
        return {**following, **{name: live[name] for name in losing}}


def names_of(live: Mapping[str, LiveApp]) -> set[Name]:
    """The schedules of these apps by name."""
    return set(schedules_of(live))
