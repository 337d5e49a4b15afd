"""The records of ended firings and event runs, newest first, and what else is known of a schedule's firings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from relayctl.core.account import Recorded
from relayctl.core.lifecycle import INVOCATION_VERSION, Descriptor
from relayctl.core.occurrence import ENVELOPE_VERSION, from_epoch
from relayctl.core.record import Record, read_record
from relayctl.core.running import LastRun
from relayctl.core.verdict import Evidence, Live
from relayctl.store.definitions import Definitions
from relayctl.store.failure import translate

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys

_PAGE = 200
_ALL = 2000
"""More than a stream of history holds."""


class History:
    """Reads history streams. Raises BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def last(self, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], LastRun]:
        """The newest record of each (app, schedule) that has one, in one round trip."""
        wanted = list(names)
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            for app, schedule in wanted:
                pipeline.xrevrange(self._keys.history_of_schedule(app, schedule), count=1)
            replies: list[Any] = pipeline.execute()
        found = {name: _last(reply[0]) for name, reply in zip(wanted, replies, strict=True) if reply}
        return {name: last for name, last in found.items() if last is not None}

    def of_schedule(
        self,
        app: str,
        schedule: str,
        *,
        limit: int,
        wanted: Callable[[Record], bool],
        former: Sequence[tuple[str, str]] = (),
    ) -> list[Record]:
        """The newest records of a schedule that are wanted, those under its `former` names too; what a newer version
        wrote is left out."""
        names = ((app, schedule), *former)
        found = [each for name in names for each in self._records(self._keys.history_of_schedule(*name), limit, wanted)]
        return sorted(found, key=lambda each: each.recorded_at, reverse=True)[:limit] if former else found

    def of_handler(self, app: str, handler: str, *, limit: int, wanted: Callable[[Record], bool]) -> list[Record]:
        """The same of the event runs of a handler."""
        return self._records(self._keys.history_of_handler(app, handler), limit, wanted)

    def newer(self, app: str, name: str, *, is_schedule: bool) -> int:
        """How many records of a schedule or handler a newer relayctl wrote, of those that can be read at once."""
        key = self._keys.history_of_schedule(app, name) if is_schedule else self._keys.history_of_handler(app, name)
        with translate():
            page: Any = self._client.xrevrange(key, count=_ALL)
        return sum(read_record(0, fields) is None for _, fields in page)

    def has_handler(self, app: str, handler: str) -> bool:
        """Whether any event run of this handler is on record."""
        with translate():
            return bool(self._client.exists(self._keys.history_of_handler(app, handler)))

    def evidence(
        self, app: str, schedule: str, instants: Sequence[int], *, now: datetime, workers: Sequence[str]
    ) -> Evidence | None:
        """What is known of the firings at these epoch seconds; None where there never was such a schedule."""
        definitions = Definitions(self._client, self._keys)
        heads, generations = definitions.heads([(app, schedule)]), definitions.generations(app, schedule)
        if not generations or not heads:
            return None
        former = heads[app, schedule].moved_from
        with translate():
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hmget(self._keys.schedule(app, schedule), "floor", "paused", "paused_until")
            pipeline.hgetall(self._keys.published(app, schedule))
            head, fields = pipeline.execute()
        floor, paused, until = (int(mark) if mark else None for mark in head)
        recorded = Recorded.of(fields)
        return Evidence(
            app=app,
            schedule=schedule,
            now=now,
            generations=generations,
            floor=floor,
            paused_at=None if paused is None else from_epoch(paused),
            paused_until=None if until is None else from_epoch(until),
            recorded=recorded,
            records=self.of_schedule(app, schedule, limit=_ALL, wanted=lambda _: True, former=former),
            live={
                message: live
                # What began under a former name goes on under it.
                for name in (*reversed(former), (app, schedule))
                for message, live in self._live(*name, _messages(recorded, instants)).items()
            },
            workers=workers,
            newer_records=self.newer(app, schedule, is_schedule=True),
        )

    def _records(self, key: str, limit: int, wanted: Callable[[Record], bool]) -> list[Record]:
        found: list[Record] = []
        last = "+"
        while len(found) < limit:
            with translate():
                page: Any = self._client.xrevrange(key, last, "-", count=_PAGE)
            read = (read_record(int(id_.partition("-")[0]), fields) for id_, fields in page)
            found += [record for record in read if record is not None and wanted(record)]
            if len(page) < _PAGE:
                break
            last = f"({page[-1][0]}"
        return found[:limit]

    def _live(self, app: str, schedule: str, messages: Sequence[str]) -> dict[str, Live]:
        """Where the invocations of these messages stand; of one that is gone there is nothing."""
        name = f"{app}|@{schedule}"
        found: dict[str, Live] = {}
        for message in messages:
            member = f"{message}|@{schedule}"
            with translate():
                pipeline = self._client.pipeline(transaction=True)
                pipeline.hmget(self._keys.invocations(message), f"s:{name}", f"d:{name}", "v")
                pipeline.zscore(self._keys.ready_of(app), member)
                pipeline.xrange(self._keys.events, message, message)
                pipeline.hget(self._keys.schedule(app, schedule), "waiter")
                pipeline.hmget(self._keys.stranded, app, name)
                (state, pinned, version), due, entry, waiter, marks = pipeline.execute()
            if version is not None and (not version.isdecimal() or int(version) > INVOCATION_VERSION):
                found[message] = Live(state=None, is_newer=True)
            elif state:
                live = _invocation(state, pinned, due, is_waiter=waiter == member)
                found[message] = replace(live, stranded_since=_since(due, marks))
            elif entry:
                found[message] = Live(state=None, is_newer=_is_newer(_fields(entry[0][1]).get("event", "")))
        return found


def _fields(answer: Any) -> dict[str, str]:
    # Inside a transaction the client of a Cluster hands over what the server sent: names and values in turn.
    return answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))


def _messages(recorded: Recorded, instants: Sequence[int]) -> list[str]:
    values = (recorded.value_at(at) or "" for at in instants)
    return [value.split("|")[2] for value in values if value.startswith("p|")]


def _invocation(text: str, pinned: str | None, due: float | None, *, is_waiter: bool) -> Live:
    state, attempts, token = text.split("|", 2)
    try:
        allowed = Descriptor.from_json(pinned).attempts if pinned else 0
    except ValueError:
        return Live(state=None, is_newer=True)
    return Live(
        # Only its schedule says of a run that it waits for another one; its own record has it as ready.
        state="waiting" if is_waiter and state == "ready" else state,
        attempts=int(attempts),
        attempts_allowed=allowed,
        due_at=None if due is None else from_epoch(0) + timedelta(milliseconds=int(due)),
        token=token,
    )


def _since(due: float | None, marks: Sequence[str | None]) -> datetime | None:
    """Since when nobody can run what is due; a mark may be older than that."""
    known = [int(mark) for mark in marks if mark]
    if due is None or not known:
        return None
    return from_epoch(0) + timedelta(milliseconds=max(int(due), min(known)))


def _is_newer(envelope: str) -> bool:
    try:
        version = json.loads(envelope).get("v")
    except (ValueError, AttributeError):
        return False
    return isinstance(version, int) and version > ENVELOPE_VERSION


def _last(entry: tuple[str, Mapping[str, str]]) -> LastRun | None:
    """What the newest record says; None where a newer relayctl wrote it."""
    entry_id, fields = entry
    record = read_record(int(entry_id.partition("-")[0]), fields)
    if record is None:
        return None
    return LastRun(
        verdict=record.verdict,
        reason=record.reason,
        scheduled_at=fields.get("scheduled_at", ""),
        attempts=record.attempts,
        took_ms=0 if record.took is None else record.took // timedelta(milliseconds=1),
    )
