"""Which definitions in force no live worker has held for long enough that another may replace or remove them.

It changes nothing. What a newer worker holds cannot be known here, so beside one everything counts as held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from relayctl.core.definition import TOMBSTONE

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.definitions import Head
    from relayctl.worker.agenda import Name
    from relayctl.worker.peers import Peers

ADOPT_AFTER_S = 30.0


class Unheld:
    """Since when each head is held by nobody, as this `worker` saw it. Used by the reconciler's thread alone."""

    def __init__(self, peers: Peers, clock: Clock, worker: str) -> None:
        self._peers = peers
        self._clock = clock
        self._worker = worker
        self._since: dict[Name, float] = {}

    def forget(self, names: Iterable[Name]) -> None:
        """This worker holds these itself, or has nothing to do with them any more."""
        for name in names:
            self._since.pop(name, None)

    def ripe(self, heads: Mapping[Name, Head], *, any_hash: bool = False) -> dict[Name, Head]:
        """Those of `heads` that nobody else has held for long enough; with `any_hash` in whatever definition."""
        now = self._clock.monotonic()
        ripe: dict[Name, Head] = {}
        for name, head in heads.items():
            if self._is_held(name, head, any_hash=any_hash):
                self._since.pop(name, None)
            elif now - self._since.setdefault(name, now) >= ADOPT_AFTER_S:
                ripe[name] = head
        return ripe

    def _is_held(self, name: Name, head: Head, *, any_hash: bool) -> bool:
        """Whether a live peer holds the head. A removal is held by whoever could have the schedule and has not."""
        if self._peers.newer:
            return True
        if head.hash == TOMBSTONE and not any_hash:
            return any(worker != self._worker for worker in self._peers.lacking(*name))
        holders = self._peers.holders(f"{name[0]}/{name[1]}")
        return any(any_hash or held == head.hash for worker, held in holders.items() if worker != self._worker)
