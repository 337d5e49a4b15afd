"""Whether rules for events exist that this worker cannot read and a live peer has: then it judges no external event.

It decides nothing about entries that name their app and slot themselves: these need no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from relayctl.core.facts import EventsHandedOver

if TYPE_CHECKING:
    from relayctl.core.facts import Emit
    from relayctl.host.clock import Clock
    from relayctl.worker.peers import Peers

AGAIN_AFTER_S = 600.0


class Blindspot:
    """Used by the consumer's thread."""

    def __init__(
        self,
        *,
        unread: Callable[[], Collection[str] | None],
        known: Callable[[], Collection[str]],
        peers: Peers,
        clock: Clock,
        emit: Emit,
        is_partial: bool = False,
    ) -> None:
        """`unread` are the apps that cannot be read here and of which no version is known; None where any may be.

        `known` are those whose rules are known. With `is_partial` this worker is for some apps only: what its tree
        lacks may well exist, and a peer that is for all knows better.
        """
        self._is_partial = is_partial
        self._unread = unread
        self._known = known
        self._peers = peers
        self._clock = clock
        self._emit = emit
        self._told: tuple[str, ...] | None = None
        self._told_at = 0.0

    def look(self) -> tuple[str, ...] | None:
        """What of its peers' apps this worker cannot read, or None where it sees all rules; empty: nobody can say."""
        unread = self._unread()
        if unread is not None and not unread:
            if not (self._is_partial and self._peers.has_whole()):
                return None
            unread = None
        # Before it has seen the fleet, and beside a worker of a higher version, it does not know who has what.
        if not self._peers.records or self._peers.newer:
            return tuple(sorted(unread or ()))
        held = self._peers.apps - frozenset(self._known())
        found = held if unread is None else held & frozenset(unread)
        return tuple(sorted(found)) if found else None

    def tell(self, apps: tuple[str, ...], count: int) -> None:
        """So many events were handed over for that reason; told at once, then now and then."""
        now = self._clock.monotonic()
        if apps == self._told and now - self._told_at < AGAIN_AFTER_S:
            return
        self._told, self._told_at = apps, now
        self._emit(EventsHandedOver(unread=apps, count=count))
