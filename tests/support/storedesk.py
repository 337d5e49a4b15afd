"""The store's operations on one client with short spellings, and views of what the broker holds, for tests only."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from relayctl.core import lifecycle
from relayctl.core.account import Closing, Span
from relayctl.core.lifecycle import Claim, Descriptor, Kind, Slot
from relayctl.core.occurrence import Occurrence, from_epoch
from relayctl.core.routing import Dead, Owed, Routing, Unmatched
from relayctl.errors import BrokerError
from relayctl.store.closings import Closings, Wish
from relayctl.store.definitions import Definitions, Head, Mode, Proposal, Verdict
from relayctl.store.endrecords import dead_entry, obsolete_record
from relayctl.store.fleet import Fleet, WorkerRecord
from relayctl.store.invocations import (
    Answer,
    Attempt,
    Bid,
    ClaimRefusal,
    EndVerdict,
    Invocations,
    Wanted,
)
from relayctl.store.keys import GROUP, ROUTED, Keys
from relayctl.store.stream import Entry, Grant, OwedInvocation, Publication, RouteOrder, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

# A round number of milliseconds is where a careless number format turns to an exponent.
T0 = 1_800_000_000
T0_MS = T0 * 1000
EVERY_10_S = '{"v":1,"evaluator":"1","enabled":true,"every":10}'
RECORD = WorkerRecord(
    id="w1",
    host="host",
    pid=1,
    version="0",
    started_at="2027-01-15T08:00:00Z",
    is_publishing=True,
    holdings_seq=1,
    evaluator="1",
    tzdata="2026.1",
)
LEASE_MS = 7000
APP = "shop"
SCHEDULE = "nightly"
HANDLER = "jobs.nightly.run"


def descriptor(
    *,
    app: str = APP,
    schedule: str | None = SCHEDULE,
    retries: int = 2,
    handler: str = HANDLER,
    revision: str = "r1",
    overlap: str = "allow",
) -> Descriptor:
    """A descriptor with waits of 1 s and 2 s, the last repeated."""
    return Descriptor(
        app=app,
        schedule=schedule,
        handler=handler,
        timeout_ms=6000,
        timeout_from="default",
        retries=retries,
        backoff_ms=(1000, 2000),
        input=None,
        overlap=overlap,
        revision=revision,
    )


def without_budget(claim: Claim) -> Claim:
    """The same claim as if its contract allowed no further attempt."""
    return replace(claim, descriptor=replace(claim.descriptor, retries=claim.attempt - 1))


def attempt(outcome: str = "succeeded", *, worker: str = "w1") -> Attempt:
    return Attempt(
        outcome=outcome,
        reason="",
        exit="0",
        started_ms=T0_MS,
        finished_ms=T0_MS + 5,
        worker=worker,
    )


def occurrence(at: int = T0, gen: int = 1, *, app: str = APP, schedule: str = SCHEDULE) -> Occurrence:
    return Occurrence(app=app, schedule=schedule, handler=HANDLER, scheduled_at=from_epoch(at), gen=gen)


def order_of(entry: Entry, routing: Routing, keys: Keys, grant: Grant | None = None) -> RouteOrder:
    """What a worker makes of a routing."""
    if isinstance(routing, Dead):
        fields = dead_entry(routing.reason, routing.detail, routing.size, routing.head, entry.id)
        return RouteOrder(id=entry.id, dead=fields, replay=entry.fields.get("replay", ""))
    if isinstance(routing, Unmatched):
        return RouteOrder(id=entry.id, is_dropped=True)
    assert isinstance(routing, Owed)
    owed = tuple(
        OwedInvocation(
            app=app,
            slot=slot.text,
            schedule=slot.schedule,
            history=keys.history_of_schedule(app, slot.schedule)
            if slot.schedule is not None
            else keys.history_of_handler(app, slot.text),
            obsolete_record=obsolete_record(entry.id),
            grant=grant,
        )
        for app, slot in routing.invocations
    )
    return RouteOrder(id=entry.id, event=routing.event, kind=routing.kind.value, replay=routing.replay, owed=owed)


class Desk:
    """One client's operations on one namespace. All times are the caller's."""

    def __init__(self, client: redis.Redis, namespace: str = "relay") -> None:
        self.client = client
        self.keys = Keys(namespace)
        self.definitions = Definitions(client, self.keys)
        self.stream = Stream(client, self.keys)
        self.invocations = Invocations(client, self.keys)
        self.closings = Closings(client, self.keys, "w1")
        self.fleet = Fleet(client, self.keys)

    # --- the registry and publication ---

    def register(
        self,
        hash: str = "h1",  # noqa: A002
        *,
        mode: Mode = Mode.START,
        held: int = 0,
        now_ms: int = T0_MS - 60_000,
        spec: str | None = None,
        schedule: str = SCHEDULE,
    ) -> tuple[Verdict, Head | None]:
        proposal = Proposal(
            app=APP,
            schedule=schedule,
            mode=mode,
            hash=hash,
            spec=f"spec of {hash}" if spec is None else spec,
            held_gen=held,
        )
        [answer] = self.definitions.register([proposal], now_ms)
        return answer

    def remove(self, held: int, now_ms: int = T0_MS - 30_000, *, mode: Mode = Mode.EDIT) -> Verdict:
        return self.register("tombstone", mode=mode, held=held, now_ms=now_ms, spec="")[0]

    def publish(
        self,
        at: int = T0,
        *,
        gen: int = 1,
        token: str = "w1",
        now_ms: int | None = None,
        is_explicit: bool = False,
        schedule: str = SCHEDULE,
    ) -> Publication:
        [(_, answer)] = self.stream.publish(
            [occurrence(at, gen, schedule=schedule)],
            token,
            is_explicit=is_explicit,
            now_ms=at * 1000 if now_ms is None else now_ms,
        )
        assert isinstance(answer, Publication), answer
        return answer

    # --- closing and the audit ---

    def close(
        self,
        first: int,
        last: int | None = None,
        *,
        step: int = 60,
        verdict: lifecycle.Verdict = lifecycle.Verdict.MISSED,
        reason: str = "horizon",
        schedule: str = SCHEDULE,
    ) -> int:
        """Close every `step` seconds from `first` to `last`; how many that closed."""

        def narrow(after: int, until: int) -> Span | None:
            found = [at for at in range(first, until + 1, step) if at > after]
            return Span(first=found[0], last=found[-1], count=len(found)) if found else None

        span = narrow(first - 1, first if last is None else last)
        assert span is not None
        closing = Closing(span=span, verdict=verdict, reason=reason)
        [closed] = self.closings.close([Wish(app=APP, schedule=schedule, closing=closing, narrow=narrow)], now_ms=T0_MS)
        return closed

    def recorded(self, schedule: str = SCHEDULE) -> dict[str, str]:
        found: dict[str, str] = self.client.hgetall(self.keys.published(APP, schedule))  # type: ignore[assignment]
        return found

    def raise_floor(self, floor: int, *dropped: str) -> bool:
        read, _ = self.closings.recorded(APP, SCHEDULE)
        assert read is not None
        return self.closings.raise_floor(APP, SCHEDULE, read, floor, dropped)

    # --- from the stream to invocations ---

    def read(self, consumer: str = "w1", count: int = 100) -> list[Entry]:
        self.stream.ensure_group()
        return self.stream.read(consumer, count=count, block_ms=1)

    def order(
        self, entry: Entry, *slots: tuple[str, str], kind: Kind = Kind.SCHEDULE, grant: Grant | None = None
    ) -> RouteOrder:
        """An order for these (app, slot); by default the test schedule's."""
        owed = tuple((app, Slot(slot)) for app, slot in slots or ((APP, "@" + SCHEDULE),))
        return order_of(
            entry, Owed(kind=kind, event=entry.fields.get("event", "{}"), invocations=owed), self.keys, grant
        )

    def route(self, *orders: RouteOrder, now_ms: int = T0_MS) -> list[list[str]]:
        return self.stream.route(orders, lease_ms=LEASE_MS, now_ms=now_ms)

    def enter(self, *slots: tuple[str, str], kind: Kind = Kind.EVENT, event: str = '{"a":1}') -> str:
        """Emit, read and route one external event for these (app, handler); its message id."""
        self.stream.emit(event)
        [entry] = self.read()
        self.route(self.order(entry, *slots, kind=kind))
        return entry.id

    def wanted(
        self,
        message: str,
        *,
        app: str = APP,
        slot: str = HANDLER,
        token: str = "t1",
        retries: int = 2,
        revision: str = "r1",
        overlap: str = "allow",
    ) -> Wanted:
        schedule = Slot(slot).schedule
        handler = slot if schedule is None else HANDLER
        pinned = descriptor(
            app=app, schedule=schedule, retries=retries, handler=handler, revision=revision, overlap=overlap
        )
        return Wanted(
            message=message,
            app=app,
            slot=Slot(slot),
            token=token,
            descriptor=pinned.to_json(),
            revision=revision,
        )

    def claim(self, message: str, *, now_ms: int = T0_MS, **options: Any) -> Claim | ClaimRefusal | BrokerError:
        [answer] = self.invocations.claim([self.wanted(message, **options)], lease_ms=LEASE_MS, now_ms=now_ms)
        return answer

    def bid(self, bid: Bid, *, now_ms: int) -> Sequence[Answer]:
        """One bid by itself, at that time."""
        [answers] = self.invocations.answers([bid], lease_ms=LEASE_MS, now_ms=now_ms)
        return answers

    def claimed(self, message: str, **options: Any) -> Claim:
        answer = self.claim(message, **options)
        assert isinstance(answer, Claim), answer
        return answer

    def end(
        self, claim: Claim, outcome: str = "succeeded", *, now_ms: int = T0_MS + 10, is_retryable: bool = True
    ) -> tuple[EndVerdict, int | None]:
        told = claim if is_retryable else without_budget(claim)
        [answer] = self.invocations.end([(told, attempt(outcome))], now_ms)
        assert not isinstance(answer, BrokerError), answer
        return answer

    def take_back(self, message: str, *, now_ms: int, app: str = APP, slot: str = HANDLER) -> tuple[str, int]:
        [answer] = self.invocations.take_back([(app, message, Slot(slot))], by="w9", now_ms=now_ms)
        assert not isinstance(answer, BrokerError), answer
        return answer

    # --- what the broker holds ---

    def state(self, message: str, app: str = APP, slot: str = HANDLER) -> tuple[str, int, str] | None:
        """State, attempts and token of one invocation."""
        text: Any = self.client.hget(self.keys.invocations(message), f"s:{app}|{slot}")
        if text is None:
            return None
        state, made, token = text.split("|", 2)
        return state, int(made), token

    def entries(self) -> dict[str, dict[str, str]]:
        return dict(self.client.xrange(self.keys.events))  # type: ignore[arg-type]

    def envelopes(self) -> list[dict[str, Any]]:
        return [json.loads(fields["event"]) for fields in self.entries().values()]

    def dead_letters(self) -> list[dict[str, str]]:
        return [fields for _, fields in self.client.xrange(self.keys.dead_letters)]  # type: ignore[union-attr]

    def history(self, *, handler: str = "", schedule: str = "", app: str = APP) -> list[dict[str, str]]:
        key = self.keys.history_of_schedule(app, schedule) if schedule else self.keys.history_of_handler(app, handler)
        return [fields for _, fields in self.client.xrange(key)]  # type: ignore[union-attr]

    def pending(self) -> dict[str, str]:
        """Entry id to the consumer it is pending under."""
        rows: Any = self.client.xpending_range(self.keys.events, GROUP, "-", "+", 1000)
        return {row["message_id"]: row["consumer"] for row in rows}

    def contents(self) -> dict[str, Any]:
        """Everything in the database, delivery counters and times aside, to see that a repetition changes nothing."""
        found: dict[str, Any] = {}
        for key in sorted(self.client.scan_iter(count=1000)):
            found[key] = (self.contents_of(key), self.client.pttl(key) >= 0)  # type: ignore[operator]
        if self.keys.events in found:
            groups: Any = self.client.xinfo_groups(self.keys.events)
            found["pending"] = self.pending() if groups else {}
        return found

    def contents_of(self, key: str) -> Any:
        match self.client.type(key):
            case "hash":
                return self.client.hgetall(key)
            case "zset":
                return self.client.zrange(key, 0, -1, withscores=True)
            case "stream":
                return self.client.xrange(key)
            case "set":
                return self.client.smembers(key)
            case _:
                return self.client.get(key)


def check_indexes(desk: Desk, apps: Sequence[str]) -> None:
    """`ready` names exactly the apps with work, each under its earliest due time."""
    expected = {}
    for app in apps:
        first: Any = desk.client.zrange(desk.keys.ready_of(app), 0, 0, withscores=True)
        if first:
            expected[app] = first[0][1]
    rows: Any = desk.client.zrange(desk.keys.ready, 0, -1, withscores=True)
    assert dict(rows) == expected


__all__ = ["APP", "GROUP", "HANDLER", "LEASE_MS", "ROUTED", "SCHEDULE", "T0", "T0_MS", "Desk", "check_indexes"]
