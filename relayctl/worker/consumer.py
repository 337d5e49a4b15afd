"""The intake loop: reads the stream in batches, classifies each entry once, routes the batch in one step.

What this worker can run at once is claimed in that same step; the rest goes to the ready sets, for any worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from relayctl.core.definition import Firing
from relayctl.core.facts import Emit, EventUnmatched, IntakeRemade, LoopFailed, MessageRejected
from relayctl.core.lifecycle import Claim, Descriptor, Slot
from relayctl.core.occurrence import from_epoch
from relayctl.core.routing import Dead, ForNewer, Owed, Unmatched, firing_objection, route_entry
from relayctl.errors import BrokerError
from relayctl.store.invocations import Wanted, dead_entry
from relayctl.store.stream import Entry, OwedInvocation, RouteOrder
from relayctl.worker.claimer import LEASE_MS, Claimer
from relayctl.worker.executor import Executor

if TYPE_CHECKING:
    from relayctl.core.occurrence import Occurrence
    from relayctl.host.clock import Clock
    from relayctl.store.definitions import Definitions
    from relayctl.store.invocations import Invocations
    from relayctl.store.stream import Stream
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.snapshot import Snapshot

BATCH = 64
BLOCK_MS = 1000
UNROUTED_IDLE_MS = 5000
_SWEEP_S = 5.0
_BROKEN_WAIT_S = 1.0
_KNOWN_GENERATIONS = 10_000


class FiringChecks:
    """Judges claims by the generation in their envelope, remembering the generations it has read."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._known: dict[tuple[str, str, int], str] = {}

    def __call__(self, claim: Occurrence) -> str | None:
        """Why the claim is no firing; None also where that cannot be judged here."""
        spec = self._spec(claim.app, claim.schedule, claim.gen)
        if spec is None:
            return None
        firing = Firing.from_spec(spec)
        if not firing.is_comparable:
            return None
        trigger = firing.trigger
        return firing_objection(claim, lambda at: trigger is not None and trigger.is_firing_s(at))

    def _spec(self, app: str, schedule: str, gen: int) -> str | None:
        key = (app, schedule, gen)
        if key not in self._known:
            if len(self._known) >= _KNOWN_GENERATIONS:
                self._known.clear()
            for item in self._definitions.generations(app, schedule):
                self._known[app, schedule, item.gen] = item.spec
        return self._known.get(key)


class Consumer:
    """The loop from stream to ready sets and claims."""

    def __init__(
        self,
        *,
        reader: Stream,
        stream: Stream,
        definitions: Definitions,
        invocations: Invocations,
        executor: Executor,
        claimer: Claimer,
        snapshot: Callable[[], Snapshot],
        time: FleetTime,
        clock: Clock,
        worker: str,
        max_bytes: int,
        emit: Emit,
    ) -> None:
        """`reader` may block in the broker, `stream` is for everything else."""
        self._reader = reader
        self._stream = stream
        self._invocations = invocations
        self._executor = executor
        self._claimer = claimer
        self._snapshot = snapshot
        self._time = time
        self._clock = clock
        self._worker = worker
        self._max_bytes = max_bytes
        self._emit = emit
        self._check = FiringChecks(definitions)
        self._sweep_at = 0.0
        self._is_broken = False
        self._unrouted: list[Entry] = []
        self._is_group_known = False
        self.last_pass_at = clock.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; at most a second later it has ended."""
        while not stop.is_set():
            try:
                self.step()
                self._is_broken = False
            except BrokerError as error:
                self._tell_broken(error.message)
                self._clock.wait(stop, _BROKEN_WAIT_S)
            except Exception as error:  # noqa: BLE001  one entry nobody thought of must not end the intake
                self._tell_broken(f"{type(error).__name__}: {error}")
                self._clock.wait(stop, _BROKEN_WAIT_S)

    def step(self) -> None:
        """One batch: first what an earlier failure left, then what dead readers left, then what is new."""
        if not self._is_group_known:
            self._stream.ensure_group()
            self._is_group_known = True
        now = self._clock.monotonic()
        if not self._unrouted and now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_S
            self._unrouted = self._stream.take_unrouted(self._worker, idle_ms=UNROUTED_IDLE_MS)
        if not self._unrouted:
            self._unrouted = self._reader.read(
                self._worker, count=BATCH, block_ms=BLOCK_MS, on_remade=lambda: self._emit(IntakeRemade())
            )
        if self._unrouted:
            self._route(self._unrouted)
            self._unrouted = []
        self.last_pass_at = self._clock.monotonic()

    def _route(self, entries: Sequence[Entry]) -> None:
        reserved: dict[str, int] = {}
        try:
            orders = self._orders(entries, reserved)
        except BaseException:
            # The batch is classified again and reserves anew, so nobody would ever come for these places.
            self._give_back(reserved)
            raise
        if not orders:
            return
        try:
            answers = self._stream.route(orders, lease_ms=LEASE_MS)
        except BrokerError:
            # It may have been done all the same: what it granted must run now, not when its lease has ended.
            self._claimer.ask_again(_granted(orders))
            raise
        claims = self._claims(orders, answers)
        for claim in claims:
            reserved[claim.app] -= 1
        self._give_back(reserved)
        self._executor.submit(claims)
        if len(claims) < sum(len(order.owed) for order in orders):
            self._claimer.wake()

    def _orders(self, entries: Sequence[Entry], reserved: dict[str, int]) -> list[RouteOrder]:
        """What to do with each entry; `reserved` counts the places taken for it by app, also where this fails."""
        snapshot = self._snapshot()
        apps, now = snapshot.apps, from_epoch(self._time.now_ms() // 1000)
        orders: list[RouteOrder] = []
        for entry in entries:
            routing = route_entry(entry.fields, apps, now=now, max_bytes=self._max_bytes, check=self._check)
            match routing:
                case Dead(reason=reason, detail=detail, size=size, head=head):
                    letter = dead_entry(reason, detail, size, head, entry.id)
                    orders.append(RouteOrder(id=entry.id, dead=letter, replay=entry.fields.get("replay", "")))
                    self._emit(MessageRejected(message=entry.id, reason=f"{reason}: {detail}"))
                case Unmatched():
                    orders.append(RouteOrder(id=entry.id, is_dropped=True))
                    self._emit(EventUnmatched(message=entry.id))
                case ForNewer():
                    # Left pending: a newer peer takes it over after a while.
                    continue
                case Owed() as owed:
                    orders.append(self._order(entry, owed, snapshot, reserved))
        return orders

    def _give_back(self, reserved: Mapping[str, int]) -> None:
        for app, count in reserved.items():
            self._executor.give_back(app, count)

    def _order(self, entry: Entry, owed: Owed, snapshot: Snapshot, reserved: dict[str, int]) -> RouteOrder:
        items: list[OwedInvocation] = []
        for app, slot in owed.invocations:
            live = snapshot.live.get(app)
            grant = None
            if live is not None and self._executor.reserve(app, 1):
                grant = self._claimer.grant(live, slot)
                if grant is None:
                    self._executor.give_back(app, 1)
                else:
                    reserved[app] = reserved.get(app, 0) + 1
            items.append(
                OwedInvocation(
                    app=app,
                    slot=slot.text,
                    schedule=slot.schedule,
                    history=self._invocations.history_key(app, slot),
                    obsolete_record=self._invocations.unadmitted_record(entry.id),
                    grant=grant,
                )
            )
        return RouteOrder(id=entry.id, event=owed.event, kind=owed.kind.value, replay=owed.replay, owed=tuple(items))

    def _claims(self, orders: Sequence[RouteOrder], answers: Sequence[Sequence[str]]) -> list[Claim]:
        return [
            Claim(
                message=order.id,
                app=item.app,
                slot=Slot(item.slot),
                token=item.grant.token,
                attempt=1,
                descriptor=Descriptor.from_json(item.grant.descriptor),
                event=order.event,
            )
            for order, answer in zip(orders, answers, strict=True)
            for item, verdict in zip(order.owed, answer, strict=False)
            if verdict == "claimed" and item.grant is not None
        ]

    def _tell_broken(self, reason: str) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._emit(LoopFailed(loop="consumer", reason=reason))


def _granted(orders: Sequence[RouteOrder]) -> list[Wanted]:
    """The claims that these orders made."""
    return [
        Wanted(
            message=order.id,
            app=item.app,
            slot=Slot(item.slot),
            token=item.grant.token,
            descriptor=item.grant.descriptor,
            revision=item.grant.revision,
        )
        for order in orders
        for item in order.owed
        if item.grant is not None
    ]
