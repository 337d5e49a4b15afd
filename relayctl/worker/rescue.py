"""Makes what keeps firings from being lost, all on one file: the outbox, its two users, and the checkpoints.

It only puts parts together; the worker says what they ask of its other loops.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from relayctl.core.facts import Emit, OutboxDamaged
from relayctl.host.outbox import Outbox
from relayctl.worker.keeper import Keeper
from relayctl.worker.recovery import Recovery
from relayctl.worker.retrier import Retrier

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.closings import Closings
    from relayctl.store.definitions import Definitions
    from relayctl.store.fleet import Fleet
    from relayctl.store.stream import Stream
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.reconciler import Reconciler
    from relayctl.worker.registrar import Registrar
    from relayctl.worker.scheduler import Scheduler


class Loops(Protocol):
    """What the parts ask of the worker; its loops are made after them."""

    stream: Stream
    closings: Closings
    definitions: Definitions
    fleet: Fleet
    time: FleetTime
    registrar: Registrar
    scheduler: Scheduler
    reconciler: Reconciler


class Rescue:
    """The parts: `outbox`, `recovery` for the tick loop, `retrier` with a loop of its own, `keeper`."""

    def __init__(self, loops: Loops, *, path: Path, token: str, acks: int, clock: Clock, emit: Emit) -> None:
        """`acks` replicas must hold a publication before it counts."""
        self.outbox = Outbox(path, clock, lambda where, reason: emit(OutboxDamaged(file=where.name, reason=reason)))
        self.keeper = Keeper(
            outbox=self.outbox,
            definitions=loops.definitions,
            fleet=loops.fleet,
            heads=lambda: loops.registrar.heads,
            cursors=lambda: loops.scheduler.cursors(),  # noqa: PLW0108  it is made later
            is_abreast=lambda: loops.reconciler.is_abreast,
            clock=clock,
            emit=emit,
        )
        self.retrier = Retrier(
            outbox=self.outbox,
            stream=loops.stream,
            closings=loops.closings,
            keeper=self.keeper,
            is_current=lambda: loops.reconciler.is_abreast and self.keeper.is_same(),
            now_ms=loops.time.now_ms,
            on_settled=lambda name, at: loops.scheduler.settle(name, at),  # noqa: PLW0108  likewise
            token=token,
            clock=clock,
            emit=emit,
            acks=acks,
            by=loops.closings.by,
        )
        self.recovery = Recovery(
            outbox=self.outbox, token=token, clock=clock, emit=emit, acks=acks, on_handed=self.retrier.wake
        )

    def drain(self, is_first: bool) -> int:
        """One batch of the outbox, for the tick loop on its way back."""
        return self.retrier.drain(is_first=is_first)

    def close(self) -> None:
        """Keep the last checkpoints and close the file, once the loops have ended."""
        self.keeper.keep_last()
        self.outbox.close()
