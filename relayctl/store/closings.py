"""Closes firings that nobody will publish, and raises the floor under what is accounted for.

It decides nothing: which firings, and why, is the caller's to say; whoever wrote an instant's state first has won.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relayctl.core.account import Closing, Span
from relayctl.core.occurrence import from_epoch, instant_text
from relayctl.core.record import RECORD_VERSION
from relayctl.errors import BrokerRefused
from relayctl.store.failure import refusal_of_key, translate
from relayctl.store.invocations import offered
from relayctl.store.scripts import Arguments, Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys

DROP_BATCH = 500
_BATCH = 200
_ACCOUNT_FIELDS = ("gen", "floor", "hw", "paused", "paused_until")

Narrow = Callable[[int, int], Span | None]
"""The firings later than the first and not later than the second instant, as one span; None if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Firings of one schedule to close. `narrow` is asked where part of the span turns out to be settled."""

    app: str
    schedule: str
    closing: Closing
    narrow: Narrow


_Own = tuple[int, int]
"""How many instants of a range have fields of their own, and how many of these are firings."""
_NOTHING_OWN: _Own = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the broker has of one schedule for an audit; `fields` counts its published set. Epoch seconds."""

    gen: int
    floor: int | None
    highest_published: int | None
    paused_at: int | None
    fields: int
    paused_until: int | None = None


class Closings:
    """Operations on the account over one client. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(
        self, client: redis.Redis, keys: Keys, by: str, wants_verdicts: Callable[[], bool] = lambda: False
    ) -> None:
        """`by` is who closes, for the record; `wants_verdicts` says whether a live worker has a rule for verdicts."""
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)
        self.by = by
        self._wants_verdicts = wants_verdicts

    def close(self, wishes: Sequence[Wish], *, now_ms: int) -> list[int | BrokerRefused]:
        """Close each; how many firings that closed, in order, or a refusal where a key of that schedule holds something
        else. `now_ms` is for the record."""
        closed = [0] * len(wishes)
        refused: dict[int, BrokerRefused] = {}
        pending = [(place, wish, wish.closing.span, _NOTHING_OWN) for place, wish in enumerate(wishes)]
        while pending:
            batch, pending = pending[:_BATCH], pending[_BATCH:]
            with translate():
                runs = [self._run(wish, span, own, now_ms) for _, wish, span, own in batch]
                replies = self._scripts.run_many("close", runs)
            for (place, wish, span, _), reply in zip(batch, replies, strict=True):
                refusal = refusal_of_key(reply, *self._keys_of(wish))
                if refusal is not None:
                    refused[place] = refusal
                    continue
                if reply[0] == "closed":
                    closed[place] += int(reply[1])
                pending += [(place, wish, rest, own) for rest, own in _rest(wish, span, reply)]
        return [refused.get(place, count) for place, count in enumerate(closed)]

    def accounts(self, names: Sequence[tuple[str, str]]) -> list[Account | BrokerRefused | None]:
        """What an audit compares first, as of one moment each; None where there is no such schedule, and a refusal
        where a key of it holds something else."""
        found: list[Account | BrokerRefused | None] = []
        for start in range(0, len(names), _BATCH):
            with translate():
                # In one transaction, or a publication in between would look like a difference.
                pipeline = self._client.pipeline(transaction=True)
                for app, schedule in names[start : start + _BATCH]:
                    pipeline.hmget(self._keys.schedule(app, schedule), *_ACCOUNT_FIELDS)
                    pipeline.hlen(self._keys.published(app, schedule))
                replies = pipeline.execute(raise_on_error=False)
            found += [
                refusal_of_key(head, self._keys.schedule(*name))
                or refusal_of_key(count, self._keys.published(*name))
                or _account(head, count)
                for name, head, count in zip(names[start:], replies[::2], replies[1::2], strict=False)
            ]
        return found

    def recorded(self, app: str, schedule: str) -> tuple[Account | None, dict[str, str]]:
        """The same for one schedule, with its whole published set."""
        with translate():
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hmget(self._keys.schedule(app, schedule), *_ACCOUNT_FIELDS)
            pipeline.hgetall(self._keys.published(app, schedule))
            head, fields = pipeline.execute()
        return _account(head, len(fields)), dict(fields)

    def raise_floor(self, app: str, schedule: str, read: Account, floor: int, dropped: Sequence[str]) -> bool:
        """Raise the floor over firings that are all accounted for and drop these fields; False where the account moved.

        What is left of a long list of fields when it moves is dropped by the next audit.
        """
        keys = [self._keys.schedule(app, schedule), self._keys.published(app, schedule)]
        before = read.floor
        for start in range(0, max(len(dropped), 1), DROP_BATCH):
            args: list[str | int] = ["" if before is None else before, read.gen, floor]
            with translate():
                answer, _ = self._scripts.run("audit", keys, [*args, *dropped[start : start + DROP_BATCH]])
            if answer != "raised":
                return False
            before = floor
        return True

    def _run(self, wish: Wish, span: Span, own: _Own, now_ms: int) -> Arguments:
        app, schedule, closing = wish.app, wish.schedule, wish.closing
        first, last = instant_text(from_epoch(span.first)), instant_text(from_epoch(span.last))
        record = (
            *("v", str(RECORD_VERSION), "kind", "schedule", "scheduled_at", last),
            *(("from", first) if span.first != span.last else ()),
            *("finished", str(now_ms), "verdict", closing.verdict.value, "reason", closing.reason, "worker", self.by),
            *offered(self._wants_verdicts),
        )
        return (
            (*self._keys_of(wish), self._keys.events),
            (span.first, span.last, span.count, closing.verdict.value, closing.reason, app, schedule, *own, *record),
        )

    def _keys_of(self, wish: Wish) -> tuple[str, str, str]:
        keys, name = self._keys, (wish.app, wish.schedule)
        return keys.schedule(*name), keys.published(*name), keys.history_of_schedule(*name)


def _rest(wish: Wish, span: Span, reply: Sequence[Any]) -> list[tuple[Span, _Own]]:
    """What is still to be asked for."""
    match reply[0]:
        case "judge":
            firings = sum(wish.narrow(int(at) - 1, int(at)) is not None for at in reply[1:])
            return [(span, (len(reply) - 1, firings))]
        case "again":
            parts = [wish.narrow(int(reply[1]), span.last)]
        case "split":
            parts = [wish.narrow(span.first - 1, int(reply[1])), wish.narrow(int(reply[1]), span.last)]
        case _:
            return []
    return [(part, _NOTHING_OWN) for part in parts if part is not None]


def _account(head: Sequence[Any], fields: int) -> Account | None:
    gen, floor, highest, paused, until = head
    if not gen:
        return None
    return Account(
        gen=int(gen),
        floor=int(floor) if floor else None,
        highest_published=int(highest) if highest else None,
        paused_at=int(paused) if paused else None,
        paused_until=int(until) if until else None,
        fields=fields,
    )
