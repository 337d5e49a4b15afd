"""Remembers how every schedule stands, off the publish path, and offers it to a broker that has forgotten.

A server is another one when its epoch is. What ran may not run again there, and what is owed is still owed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.definition import TOMBSTONE
from relayctl.core.facts import Emit, LoopFailed, StateRestored
from relayctl.errors import FileFailure

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.host.outbox import Outbox
    from relayctl.store.definitions import Definitions, Head
    from relayctl.store.fleet import Fleet
    from relayctl.worker.agenda import Name

KEEP_EVERY_S = 5.0
SWEEP_EVERY_S = 3600.0
PEERS_S = 5.0
"""How long a restored registry waits for what other workers remember, before anything is published."""


class Keeper:
    """Checkpoints of one worker. `keep…` are for one thread, `is_restoring` for the one that registers."""

    def __init__(
        self,
        *,
        outbox: Outbox,
        definitions: Definitions,
        fleet: Fleet,
        heads: Callable[[], Mapping[Name, Head]],
        cursors: Callable[[], Mapping[Name, int]],
        is_abreast: Callable[[], bool],
        clock: Clock,
        emit: Emit,
    ) -> None:
        """`heads` are the definitions in force as known here, `cursors` the instants up to which nothing is owed;
        `is_abreast` says that both belong to the broker's present epoch."""
        self._outbox = outbox
        self._definitions = definitions
        self._fleet = fleet
        self._heads = heads
        self._cursors = cursors
        self._is_abreast = is_abreast
        self._clock = clock
        self._emit = emit
        self._epoch = ""
        self._until: float | None = None
        self._next_at = 0.0
        self._sweep_at = 0.0
        self._written: dict[Name, Checkpoint] = {}
        self._written_epoch = ""

    @property
    def is_waiting(self) -> bool:
        """Whether peers are still waited for."""
        return self._until is not None

    def is_restoring(self, epoch: str | None, now: float) -> bool:
        """Whether registering must wait, because the broker is new and is being told what it forgot.

        `epoch` is what the last heartbeat said; None before the first, when the broker is asked.
        """
        if self._until is not None:
            if now < self._until:
                return True
            # The last heartbeat is older than the end of the wait. A server flushed meanwhile would be registered with
            # as if it were the one that has been told.
            epoch = self._fleet.begin_epoch()
            self._until = None
        if epoch is None:
            if self._epoch:
                return False
            epoch = self._fleet.begin_epoch()
        if epoch == self._epoch:
            return False
        was_known = bool(self._epoch)
        has_offered = self.offer(epoch)
        self._epoch = epoch
        if not (has_offered or was_known):
            return False
        # A worker that remembers nothing leaves its peers the time, too.
        self._until = now + PEERS_S
        return True

    def is_same(self) -> bool:
        """Ask whether the broker is still the one that is known."""
        return self._fleet.epoch() == self._epoch

    def offer(self, epoch: str) -> bool:
        """Tell a broker of that epoch what is remembered of others; whether that was anything."""
        # What is in memory is younger, and the file may know schedules that are not loaded here any more.
        offered = [*self._current().values(), *self._stored(epoch)]
        if not offered:
            return False
        restored = self._definitions.restore(offered)
        self._emit(StateRestored(offered=len({item.name for item in offered}), restored=restored))
        try:
            self._outbox.move_to(epoch)
        except FileFailure:
            # It is offered once more after a restart, which teaches the broker nothing new.
            pass
        return True

    def keep_in_time(self) -> float:
        """Keep checkpoints if it is time; the seconds until it is again. Raises FileFailure and BrokerError."""
        now = self._clock.monotonic()
        if now >= self._next_at:
            self._next_at = now + KEEP_EVERY_S
            if self._may_keep():
                self._keep()
                self._sweep_in_time(now)
        return max(0.0, self._next_at - now)

    def keep_last(self) -> None:
        """Keep checkpoints when the worker stops; a file that fails now is told and changes nothing.

        It asks no broker: one that is away must not keep a worker from stopping.
        """
        try:
            if self._may_keep():
                self._keep()
        except FileFailure as error:
            self._emit(LoopFailed(loop="retrier", reason=error.message))

    def _may_keep(self) -> bool:
        return bool(self._epoch) and not self.is_waiting and self._is_abreast()

    def _keep(self) -> None:
        epoch, current = self._epoch, self._current()
        if epoch != self._written_epoch:
            self._written, self._written_epoch = {}, epoch
        changed = [item for name, item in current.items() if self._written.get(name) != item]
        gone = self._written.keys() - current.keys()
        if changed or gone:
            self._outbox.keep(epoch, changed, gone)
            self._written = current

    def _sweep_in_time(self, now: float) -> None:
        """Forget schedules that the fleet has removed, and those that no worker here has held for long."""
        if now < self._sweep_at or not self._outbox.path.exists():
            return
        epoch, current = self._written_epoch, self._written.keys()
        others = [item.name for item in self._outbox.checkpoints() if item.name not in current]
        heads = self._definitions.look(others).heads
        self._outbox.keep(epoch, (), [name for name, head in heads.items() if head.hash == TOMBSTONE])
        self._outbox.sweep(current)
        self._sweep_at = now + SWEEP_EVERY_S

    def _current(self) -> dict[Name, Checkpoint]:
        """How the schedules stand that are armed here. What was cut off from the broker stands still, and is right."""
        heads, cursors = self._heads(), self._cursors()
        return {
            name: Checkpoint(
                app=name[0],
                schedule=name[1],
                gen=head.gen,
                hash=head.hash,
                spec=head.spec,
                from_ms=head.from_ms,
                # Before a definition came into force it owed nothing.
                floor=max(cursors[name], -(-head.from_ms // 1000) - 1),
                paused_at=head.paused_at,
                paused_until=head.paused_until,
                paused_by=head.paused_by,
                pause_reason=head.pause_reason,
                control=head.control,
            )
            for name, head in heads.items()
            if name in cursors and head.hash != TOMBSTONE
        }

    def _stored(self, epoch: str) -> list[Checkpoint]:
        if not self._outbox.path.exists():
            # No need to make a file in order to find nothing in it.
            return []
        try:
            return self._outbox.checkpoints(other_than=epoch)
        except FileFailure as error:
            self._emit(LoopFailed(loop="reconciler", reason=error.message))
            return []
