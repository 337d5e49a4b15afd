"""The stream: publish occurrences and events, read batches through the consumer group, route them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from relayctl.core.names import split_name
from relayctl.core.occurrence import ENVELOPE_VERSION, Occurrence, epoch_seconds
from relayctl.errors import BrokerError, BrokerRefused
from relayctl.store.failure import refusal_of_key, to_broker_error, translate
from relayctl.store.keys import GROUP, HANDED_OVER, PARKED, ROUTED, Keys
from relayctl.store.replicas import confirmation, is_confirmed
from relayctl.store.scripts import Arguments, Scripts

if TYPE_CHECKING:
    import redis

PUBLISH_BATCH = 500
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_HIGHEST_VERSION = 999_999
"""A forged version may have thousands of digits."""
_PUBLISH_STEP = 50
_MOST_MOVES = 8
_HANDED_OVER_IDLE_MS = 100
"""Of several that look at the same moment one takes what was handed over."""


class PublishVerdict(Enum):
    """What became of a publication."""

    PUBLISHED = "published"
    DUPLICATE = "duplicate"
    SETTLED = "settled"
    EARLY = "early"
    STALE = "stale"
    PAUSED = "paused"
    UNKNOWN = "unknown"
    MOVED = "moved"  # its schedule has another name, and so often that this was not followed any further


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The answer to one intent; `is_safe` says that as many replicas hold it as were asked for."""

    verdict: PublishVerdict
    entry: str
    is_safe: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the stream as it was read."""

    id: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A claim made while routing: the reader holds a slot and a child for it."""

    token: str
    descriptor: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedInvocation:
    """One invocation to create; `schedule` where its registry decides whether it is obsolete."""

    app: str
    slot: str
    schedule: str | None = None
    history: str = ""
    obsolete_record: tuple[str, ...] = ()
    grant: Grant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOrder:
    """What to do with one entry: bury it (`dead` has the flat fields), drop it, or create what it owes.

    `replay` is the dead letter that it stands for.
    """

    id: str
    event: str = ""
    kind: str = ""
    replay: str = ""
    dead: tuple[str, ...] = ()
    is_dropped: bool = False
    owed: tuple[OwedInvocation, ...] = field(default=())


class Stream:
    """Operations on the stream over one client. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)

    def publish(
        self,
        occurrences: Sequence[Occurrence],
        token: str,
        *,
        is_explicit: bool = False,
        now_ms: int | None = None,
        acks: int = 0,
    ) -> Iterator[tuple[Occurrence, Publication | BrokerError]]:
        """Publish each that is new, in pipelined batches; a connection that fails ends the iteration with its error.

        With `acks` each batch also waits until that many replicas hold it, for a second at most.
        """
        order = (token, "1" if is_explicit else "", self._scripts.instant(now_ms))
        for start in range(0, len(occurrences), PUBLISH_BATCH):
            for item, answer in self._publish(occurrences[start : start + PUBLISH_BATCH], order, acks, _PUBLISH_STEP):
                yield item, self._followed(item, answer, order, acks)

    def _followed(
        self, item: Occurrence, answer: Publication | BrokerError, order: tuple[str, str, int | str], acks: int
    ) -> Publication | BrokerError:
        """The answer that its schedule's new name gives, where it was moved: generations keep their numbers there."""
        for _ in range(_MOST_MOVES):
            if not (isinstance(answer, Publication) and answer.verdict is PublishVerdict.MOVED):
                break
            app, schedule = split_name(answer.entry)
            item = replace(item, app=app, schedule=schedule)
            [(_, answer)] = self._publish([item], order, acks, 1)
        return answer

    def _publish(
        self, batch: Sequence[Occurrence], order: tuple[str, str, int | str], acks: int, step: int
    ) -> Iterator[tuple[Occurrence, Publication | BrokerError]]:
        parts = [batch[start : start + step] for start in range(0, len(batch), step)]
        then = confirmation(self._keys, acks) if acks else ()
        with translate():
            replies = self._scripts.run_many("publish", (self._publish_run(part, order) for part in parts), then=then)
        is_safe = not acks or is_confirmed(replies[len(parts) :], acks)
        for part, reply in zip(parts, replies[: len(parts)], strict=True):
            if not isinstance(reply, Exception):
                yield from ((item, _publication(answer, is_safe)) for item, answer in zip(part, reply, strict=True))
            elif len(part) > 1:
                # One of them stopped the step: which, only each by itself can tell. Those before it are answered again.
                yield from self._publish(part, order, acks, 1)
            else:
                yield part[0], to_broker_error(reply)

    def _publish_run(self, part: Sequence[Occurrence], order: tuple[str, str, int | str]) -> Arguments:
        keys, args = [self._keys.events], list[str | int | float](order)
        for item in part:
            keys += (self._keys.schedule(item.app, item.schedule), self._keys.published(item.app, item.schedule))
            args += (epoch_seconds(item.scheduled_at), item.gen, item.to_envelope())
        return keys, args

    def highest_published(self, names: Sequence[tuple[str, str]]) -> list[int | None]:
        """The highest instant published of each (app, schedule), in one round trip per batch; None before the first,
        and where the key holds something else."""
        marks: list[int | None] = []
        for start in range(0, len(names), PUBLISH_BATCH):
            with translate():
                pipeline = self._client.pipeline(transaction=False)
                for app, schedule in names[start : start + PUBLISH_BATCH]:
                    pipeline.hget(self._keys.schedule(app, schedule), "hw")
                replies = pipeline.execute(raise_on_error=False)
            marks += [int(mark) if refusal_of_key(mark) is None and mark else None for mark in replies]
        return marks

    def emit(self, event: str, extra: Mapping[str, str] | None = None) -> str:
        """Append an external event (the text of a JSON object); its entry id."""
        fields: dict[Any, Any] = {"event": event, **(extra or {})}
        with translate():
            return str(self._client.xadd(self._keys.events, fields))

    def ensure_group(self) -> bool:
        """Create the stream and its group if missing, from the stream's beginning; whether it was made."""
        from redis.exceptions import ResponseError

        with translate():
            try:
                self._client.xgroup_create(self._keys.events, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if str(error).startswith("BUSYGROUP"):
                    return False
                raise
        return True

    def read(
        self, consumer: str, *, count: int, block_ms: int, on_remade: Callable[[], None] | None = None
    ) -> list[Entry]:
        """New entries for this consumer, waiting up to `block_ms`.

        A lost group is made again, and nothing is read; `on_remade` is called where this call made it.
        """
        try:
            with translate():
                answer: Any = self._client.xreadgroup(
                    GROUP, consumer, {self._keys.events: ">"}, count=count, block=block_ms
                )
        except BrokerRefused as error:
            if "NOGROUP" not in error.message:
                raise
            if self.ensure_group() and on_remade is not None:
                on_remade()
            return []
        return [Entry(id, fields or {}) for _, entries in (answer or {}).items() for id, fields in entries]  # noqa: A001

    def take_unrouted(
        self, consumer: str, *, idle_ms: int, count: int = 100, with_handed_over: bool = True
    ) -> list[Entry]:
        """Entries that another consumer read and never routed, now pending under `consumer`; those that a
        reader handed over only `with_handed_over`.

        Whatever was deleted meanwhile is gone from the pending list too, and is not returned. A lost group holds none.
        """
        try:
            return self._take_unrouted(consumer, idle_ms, count, with_handed_over=with_handed_over)
        except BrokerRefused as error:
            if "NOGROUP" not in error.message and "no such key" not in error.message:
                raise
            return []

    def park(self, entries: Mapping[str, int]) -> None:
        """Put entries of higher versions (by id) out of the way of what can be routed, for whoever knows them."""
        by_version: dict[int, list[Any]] = {}
        for entry, version in entries.items():
            by_version.setdefault(min(version, _HIGHEST_VERSION), []).append(entry)
        with translate():
            for version, ids in by_version.items():
                self._client.xclaim(self._keys.events, GROUP, f"{PARKED}{version}", 0, ids, justid=True)

    def hand_over(self, entries: Sequence[str]) -> None:
        """Put these entries where a peer that can judge them takes them over."""
        ids: list[Any] = list(entries)
        with translate():
            self._client.xclaim(self._keys.events, GROUP, HANDED_OVER, 0, ids, justid=True)

    def parked(self) -> int:
        """How many entries only a newer worker can route."""
        from redis.exceptions import ResponseError

        with translate():
            try:
                consumers: Any = self._client.xinfo_consumers(self._keys.events, GROUP)
            except ResponseError:
                # Without a stream or a group nothing was ever read.
                return 0
        return sum(int(item["pending"]) for item in consumers if _is_for_newer(item["name"]))

    def _take_unrouted(self, consumer: str, idle_ms: int, count: int, *, with_handed_over: bool) -> list[Entry]:
        with translate():
            others: list[Any] = self._client.xinfo_consumers(self._keys.events, GROUP)
            taken: list[Entry] = []
            for other in others:
                if other["pending"] == 0 or other["name"] == ROUTED or _is_for_newer(other["name"]):
                    continue
                if len(taken) >= count:
                    # All of it becomes one step, which must not be long however many readers have died.
                    break
                if other["name"] == HANDED_OVER and not with_handed_over:
                    continue
                idle = _idle_of(other["name"], idle_ms)
                pending: list[Any] = self._client.xpending_range(
                    self._keys.events, GROUP, "-", "+", count - len(taken), other["name"], idle=idle
                )
                ids = [item["message_id"] for item in pending]
                if ids:
                    claimed: Any = self._client.xclaim(self._keys.events, GROUP, consumer, idle, ids)
                    taken += [Entry(id, fields) for id, fields in claimed if fields]  # noqa: A001
            return taken

    def route(self, orders: Sequence[RouteOrder], *, lease_ms: int, now_ms: int | None = None) -> list[list[str]]:
        """Carry out the orders of one batch in one step; the answers of each, in order."""
        plan = _RoutePlan(self._keys)
        request = {
            "group": GROUP,
            "routed": ROUTED,
            "lease_ms": lease_ms,
            "now": str(self._scripts.instant(now_ms)),
            "entries": [plan.entry(order) for order in orders],
        }
        with translate():
            [answer] = self._scripts.run_many("route", [(plan.keys, [_encode(request)])])
        if isinstance(answer, Exception):
            raise to_broker_error(answer) from answer
        answers: list[list[str]] = answer
        return answers

    def is_all_routed(self) -> bool:
        """Whether every entry of the stream has been read and routed, as far as this version can."""
        with translate():
            length = int(self._client.xlen(self._keys.events))
            consumers: Any = self._client.xinfo_consumers(self._keys.events, GROUP) if length else []
        names = ((str(item["name"]), int(item["pending"])) for item in consumers)
        return length == sum(pending for name, pending in names if name == ROUTED or _is_for_newer(name))

    def backlog(self) -> int:
        """Entries in the stream: what is not finished."""
        with translate():
            return int(self._client.xlen(self._keys.events))


class _RoutePlan:
    """Collects the keys of a batch, each once, and spells orders with their indexes."""

    def __init__(self, keys: Keys) -> None:
        self._names = keys
        self.keys = [keys.events, keys.ready, keys.leases, keys.dead_letters, keys.pins, keys.dead_letter_marks]
        self.keys.append(keys.stranded)
        self._index: dict[str, int] = {}

    def entry(self, order: RouteOrder) -> dict[str, Any]:
        if order.dead:
            # Anybody can write that field, and bytes that are no text would stop the batch. No letter is named so.
            return {"id": order.id, "dead": order.dead, "replay": order.replay if order.replay.isascii() else ""}
        if order.is_dropped:
            return {"id": order.id, "drop": True}
        return {
            "id": order.id,
            "inv": self._place(self._names.invocations(order.id)),
            "event": order.event,
            "kind": order.kind,
            "replay": order.replay,
            "owed": [self._owed(item) for item in order.owed],
        }

    def _owed(self, item: OwedInvocation) -> dict[str, Any]:
        spelled: dict[str, Any] = {
            "app": item.app,
            "slot": item.slot,
            "ready": self._place(self._names.ready_of(item.app)),
            "sch": 0 if item.schedule is None else self._place(self._names.schedule(item.app, item.schedule)),
            "hist": self._place(item.history) if item.history else 0,
            "obsolete": item.obsolete_record,
        }
        if item.grant is not None:
            spelled |= {
                "token": item.grant.token,
                "descriptor": item.grant.descriptor,
                "revision": item.grant.revision,
            }
        return spelled

    def _place(self, key: str) -> int:
        if key not in self._index:
            self.keys.append(key)
            self._index[key] = len(self.keys)
        return self._index[key]


def _idle_of(consumer: str, idle_ms: int) -> int:
    """How long what a consumer holds must have been idle before others take it."""
    if consumer == HANDED_OVER:
        return _HANDED_OVER_IDLE_MS
    return 0 if consumer.startswith(PARKED) else idle_ms


def _is_for_newer(consumer: str) -> bool:
    version = consumer.removeprefix(PARKED)
    return version != consumer and version.isdecimal() and int(version) > ENVELOPE_VERSION


def _publication(reply: Sequence[Any], is_safe: bool) -> Publication:
    verdict, entry = reply
    return Publication(verdict=PublishVerdict(verdict), entry=entry, is_safe=is_safe)
