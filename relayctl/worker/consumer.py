"""The intake loop: reads the stream in batches, classifies each entry once, routes the batch in one step.

What this worker can run at once is claimed in that same step; the rest goes to the ready sets, for any worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from relayctl.core.definition import Firing
from relayctl.core.facts import Emit, EventUnmatched, Fact, IntakeRemade, LoopFailed, MessageRejected
from relayctl.core.lifecycle import Claim, Kind, Slot
from relayctl.core.occurrence import from_epoch
from relayctl.core.routing import (
    Dead,
    ForNewer,
    Owed,
    Routing,
    Unmatched,
    firing_objection,
    route_entry,
    unclassified,
)
from relayctl.errors import BrokerError
from relayctl.store.endrecords import dead_entry
from relayctl.store.invocations import Wanted, pinned
from relayctl.store.stream import Entry, OwedInvocation, RouteOrder
from relayctl.worker.claimer import LEASE_MS, Claimer
from relayctl.worker.executor import Executor
from relayctl.worker.newer import NewerTold
from relayctl.worker.setaside import SetAside

if TYPE_CHECKING:
    from relayctl.core.model import App
    from relayctl.core.occurrence import Occurrence
    from relayctl.host.clock import Clock
    from relayctl.store.definitions import Definitions
    from relayctl.store.invocations import Invocations
    from relayctl.store.stream import Stream
    from relayctl.worker.agenda import Name
    from relayctl.worker.blindspot import Blindspot
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.snapshot import Snapshot

BATCH = 64
BLOCK_MS = 1000
UNROUTED_IDLE_MS = 5000
_SWEEP_S = 5.0
_BROKEN_WAIT_S = 1.0
_KNOWN_GENERATIONS = 10_000
_LOOK_WAIT_S = 0.1
_AT_HOME: Mapping[str, Name] = MappingProxyType({})
_MOST_MOVES = 5
_MOST_ROUNDS = 5
"""A batch of which nothing can be routed is tried so often before it is taken for the entries' own fault."""


class FiringChecks:
    """Judges claims by the generation in their envelope, remembering the generations it has read."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._known: dict[tuple[str, str, int], str] = {}

    def __call__(self, claim: Occurrence) -> str | None:
        """Why the claim is no firing; None also where that cannot be judged here."""
        if self._objection(claim) is None:
            return None
        # A registry that was lost numbers anew, and what is remembered of this number may be another definition.
        self._known.pop((claim.app, claim.schedule, claim.gen), None)
        return self._objection(claim)

    def _objection(self, claim: Occurrence) -> str | None:
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
        blindspot: Blindspot | None = None,
        has_looked: Callable[[], bool] = lambda: True,
        elsewhere: Callable[[], Mapping[str, App]] = dict,
        homes: Callable[[Iterable[Name]], Mapping[Name, Name]] = lambda _: {},
    ) -> None:
        """`reader` may block in the broker, `stream` is for everything else; nothing is read before the worker
        `has_looked` at its tree, and no event is judged that peers may have rules for beyond the `blindspot`.
        The apps `elsewhere` have rules too, and others run them. `homes` has the new names of schedules."""
        self._homes = homes
        self._elsewhere = elsewhere
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
        self._blindspot = blindspot
        self._has_looked = has_looked
        self._check = FiringChecks(definitions)
        self._newer = NewerTold(clock, emit)
        self._sweep_at = 0.0
        self._is_broken = False
        self._unrouted: list[Entry] = []
        self._aside = SetAside(emit)
        self._rounds = 0
        self._is_group_known = False
        self.last_pass_at = clock.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; at most a second later it has ended."""
        while not stop.is_set():
            try:
                if not self._has_looked():
                    self._clock.wait(stop, _LOOK_WAIT_S)
                self.step()
                self._is_broken = False
            except Exception as error:  # noqa: BLE001  what nobody thought of must not end the intake
                self._tell_broken(_words(error))
                self._clock.wait(stop, _BROKEN_WAIT_S)

    def step(self, block_ms: int = BLOCK_MS) -> None:
        """One batch: first what an earlier failure left, then what dead readers left, then what is new.

        For what is new it waits up to `block_ms`, which must not be 0: that is for ever.
        """
        if not self._has_looked():
            # Without its rules it would take every event for one that nobody wants.
            return
        if not self._is_group_known:
            self._stream.ensure_group()
            self._is_group_known = True
        now = self._clock.monotonic()
        if not self._unrouted and now >= self._sweep_at:
            self._unrouted = self._stream.take_unrouted(
                self._worker, idle_ms=UNROUTED_IDLE_MS, with_handed_over=self._unseen() is None
            )
            # There may be more of it than one look takes.
            self._sweep_at = now if self._unrouted else now + _SWEEP_S
        if not self._unrouted:
            self._unrouted = self._reader.read(
                self._worker, count=BATCH, block_ms=block_ms, on_remade=lambda: self._emit(IntakeRemade())
            )
        left = self._aside.still(now)
        self._unrouted = [entry for entry in self._unrouted if entry.id not in left]
        if self._unrouted:
            self._route_all(self._unrouted)
            self._unrouted = []
            self._rounds = 0
        self.last_pass_at = self._clock.monotonic()

    def _route_all(self, entries: Sequence[Entry]) -> None:
        """Route a batch in one step, or where that fails for good each entry by itself: one must not hold up others."""
        try:
            self._route(entries)
        except Exception as error:
            # Whatever it is, it may be about one entry alone.
            if _is_passing(error):
                raise
            reasons = self._route_one_by_one(entries) if len(entries) > 1 else {entries[0].id: _words(error)}
            self._rounds += 1
            if len(reasons) == len(entries) > 1 and self._rounds < _MOST_ROUNDS:
                # Then it is hardly about any of them.
                raise
            self._aside.leave(reasons, self._clock.monotonic())

    def _route_one_by_one(self, entries: Sequence[Entry]) -> dict[str, str]:
        """The ids of those for which it fails for good, and why."""
        reasons: dict[str, str] = {}
        for entry in entries:
            try:
                self._route([entry])
            except Exception as error:
                if _is_passing(error):
                    raise
                reasons[entry.id] = _words(error)
        return reasons

    def _route(self, entries: Sequence[Entry], homes: Mapping[str, Name] = _AT_HOME, tries: int = _MOST_MOVES) -> None:
        """`homes` has the names that schedules of some entries go on under."""
        reserved: dict[str, int] = {}
        newer: dict[str, int] = {}
        news: list[Fact] = []
        handed: list[str] = []
        # Before the rules are taken: an app that goes live in between was still unseen, which is the safe side.
        unseen = self._unseen()
        try:
            orders = self._orders(entries, reserved, newer, news, None if unseen is None else handed, homes)
            self._hand_over(handed, unseen)
            if newer:
                # Pending under this worker's name they would stand before everything else each time it looks.
                self._stream.park(newer)
                self._newer.tell("entry", newer)
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
        # Only now: while the broker is away the same batch is classified again and again.
        for fact in news:
            self._emit(fact)
        claims = self._claims(orders, answers)
        for claim in claims:
            reserved[claim.app] -= 1
        self._give_back(reserved)
        self._executor.submit(claims)
        if len(claims) < sum(len(order.owed) for order in orders):
            self._claimer.wake()
        moved = {
            order.id: (item.app, item.schedule)
            for order, answer in zip(orders, answers, strict=True)
            for item, verdict in zip(order.owed, answer, strict=False)
            if verdict == "moved" and item.schedule is not None
        }
        # What is renamed again and again stays with its reader, and is taken up later as what nobody routed.
        if moved and tries:
            found = self._homes(moved.values())
            homes = {entry: found.get(name, name) for entry, name in moved.items()}
            self._route([entry for entry in entries if entry.id in moved], homes, tries - 1)

    def _unseen(self) -> tuple[str, ...] | None:
        return None if self._blindspot is None else self._blindspot.look()

    def _hand_over(self, entries: Sequence[str], unseen: tuple[str, ...] | None) -> None:
        if entries and unseen is not None and self._blindspot is not None:
            self._stream.hand_over(entries)
            self._blindspot.tell(unseen, len(entries))

    def _orders(
        self,
        entries: Sequence[Entry],
        reserved: dict[str, int],
        newer: dict[str, int],
        news: list[Fact],
        handed: list[str] | None,
        homes: Mapping[str, Name],
    ) -> list[RouteOrder]:
        """What to do with each entry; `newer` gets the versions of those that cannot be judged here, `handed` the ids
        of those for which not all rules can be seen, unless it is None.

        `reserved` counts the places taken for it by app, also where this fails; `news` is to be told once it is done.
        """
        snapshot = self._snapshot()
        orders: list[RouteOrder] = []
        for entry, routing in self._classified(entries, snapshot):
            if handed is not None and _rests_on_rules(routing):
                handed.append(entry.id)
                continue
            match routing:
                case Dead(reason=reason, detail=detail, size=size, head=head):
                    letter = dead_entry(reason, detail, size, head, entry.id)
                    orders.append(RouteOrder(id=entry.id, dead=letter, replay=entry.fields.get("replay", "")))
                    news.append(MessageRejected(message=entry.id, reason=f"{reason}: {detail}"))
                case Unmatched():
                    orders.append(RouteOrder(id=entry.id, is_dropped=True))
                    news.append(EventUnmatched(message=entry.id))
                case ForNewer(version=version):
                    newer[entry.id] = version
                case Owed() as owed:
                    orders.append(self._order(entry, _at_home(owed, homes.get(entry.id)), snapshot, reserved))
        return orders

    def _classified(self, entries: Sequence[Entry], snapshot: Snapshot) -> list[tuple[Entry, Routing]]:
        """What each entry is. One that breaks its classification is set aside by itself: a rule or an entry may do
        what nobody thought of, and the others of its batch must not wait for it."""
        apps, now = {**self._elsewhere(), **snapshot.apps}, from_epoch(self._time.now_ms() // 1000)
        found: list[tuple[Entry, Routing]] = []
        refused: dict[str, str] = {}
        broken: dict[str, str] = {}
        for entry in entries:
            try:
                found.append(
                    (entry, route_entry(entry.fields, apps, now=now, max_bytes=self._max_bytes, check=self._check))
                )
            except BrokerError as error:
                if error.is_retryable:
                    raise
                refused[entry.id] = _words(error)
            except Exception as error:  # noqa: BLE001  whatever it is, it is about this entry
                broken[entry.id] = _words(error)
        now_s = self._clock.monotonic()
        hopeless = self._aside.broken(broken, now_s)
        self._aside.leave(refused, now_s)
        found += [(entry, unclassified(entry.fields, broken[entry.id])) for entry in entries if entry.id in hopeless]
        return found

    def _give_back(self, reserved: Mapping[str, int]) -> None:
        for app, count in reserved.items():
            self._executor.give_back(app, count)

    def _order(self, entry: Entry, owed: Owed, snapshot: Snapshot, reserved: dict[str, int]) -> RouteOrder:
        items: list[OwedInvocation] = []
        for app, slot in owed.invocations:
            live = snapshot.live.get(app)
            grant, schedule = None, slot.schedule
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
                    schedule=schedule,
                    history=self._invocations.history_key(app, slot),
                    # Only a schedule can be gone, or have another run in the way.
                    obsolete_record=() if schedule is None else self._invocations.unadmitted_record(entry.id),
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
                descriptor=pinned(item.grant.descriptor),
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


def _is_passing(error: Exception) -> bool:
    return isinstance(error, BrokerError) and error.is_retryable


def _words(error: Exception) -> str:
    return error.message if isinstance(error, BrokerError) else f"{type(error).__name__}: {error}"


def _at_home(owed: Owed, home: Name | None) -> Owed:
    """What is owed, by the schedule under the name that it has by now, if it has another one."""
    if home is None:
        return owed
    [(_, slot)] = owed.invocations
    own = Slot.of_manual(home[1]) if slot.kind is Kind.MANUAL else Slot.of_schedule(home[1])
    return replace(owed, invocations=((home[0], own),))


def _rests_on_rules(routing: Routing) -> bool:
    """Whether other rules would have made something else of it. A replay names what it is for."""
    if isinstance(routing, Owed):
        return routing.kind is Kind.EVENT and not routing.replay
    return isinstance(routing, Unmatched)


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
