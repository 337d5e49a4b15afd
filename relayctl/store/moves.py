"""Schedules under new names: the step that moves one, and the work of a former name that is put under the new one.

Whether a schedule may be moved is the caller's to say; the script makes sure of what is in force, once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from relayctl.core.definition import TOMBSTONE
from relayctl.core.names import split_name
from relayctl.store.failure import to_broker_error, translate
from relayctl.store.scripts import Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.errors import BrokerError
    from relayctl.store.definitions import Mode, Name
    from relayctl.store.keys import Keys

_BATCH = 500
_MOST_MOVES = 16
_MARKS = "@!"
"""How the slots of occurrences and of manual runs begin."""


class MoveVerdict(Enum):
    """What became of a move. Only the first changed anything."""

    MOVED = "moved"
    NOTHING = "nothing"  # the old name is not in force
    TAKEN = "taken"  # the new one is
    BEHIND = "behind"  # the new name was removed, and this may be content of before


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One schedule under a new name, with the definition that it has there.

    `held_gen` is the generation of the old name that the caller held, `tombstone_gen` that of the removal of the new
    name that it saw; 0 where there is none.
    """

    old: Name
    new: Name
    mode: Mode
    hash: str
    spec: str
    held_gen: int = 0
    tombstone_gen: int = 0


class Moves:
    """Operations over one client. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)

    def move(self, moves: Sequence[Move], now_ms: int | None = None) -> list[MoveVerdict | BrokerError]:
        """Give schedules their new names, with their past, their pauses and all that they owe; the answers in order."""
        runs = [(self._keys_of(item), self._args_of(item, now_ms)) for item in moves]
        with translate():
            replies = self._scripts.run_many("move", runs)
        return [to_broker_error(each) if isinstance(each, Exception) else MoveVerdict(each) for each in replies]

    def _keys_of(self, move: Move) -> list[str]:
        keys = self._keys
        return [
            *(keys.schedule(*move.old), keys.published(*move.old)),
            *(keys.schedule(*move.new), keys.published(*move.new)),
            *(keys.definitions_seq, keys.definitions_log, keys.definitions, keys.definitions_gone),
        ]

    def _args_of(self, move: Move, now_ms: int | None) -> list[str | int | float]:
        args: list[str | int | float] = [move.mode.value, move.hash, move.spec, move.held_gen, move.tombstone_gen]
        return [*args, "/".join(move.old), "/".join(move.new), self._scripts.instant(now_ms)]

    def homes(self, names: Iterable[Name]) -> dict[Name, Name]:
        """The names under which schedules go on, for those that were moved."""
        found: dict[Name, Name] = {}
        asked = {name: name for name in names}
        for _ in range(_MOST_MOVES):
            moved = self._moved_to(sorted(set(asked.values())))
            asked = {name: moved[at] for name, at in asked.items() if at in moved}
            found |= asked
            if not asked:
                break
        return found

    def _moved_to(self, names: Sequence[Name]) -> dict[Name, Name]:
        found: dict[Name, Name] = {}
        for start in range(0, len(names), _BATCH):
            batch = names[start : start + _BATCH]
            with translate():
                pipeline = self._client.pipeline(transaction=False)
                for name in batch:
                    pipeline.hmget(self._keys.schedule(*name), "hash", "moved_to")
                # What cannot be read was moved nowhere, as far as anybody can tell.
                replies: Any = pipeline.execute(raise_on_error=False)
            for name, reply in zip(batch, replies, strict=True):
                if not isinstance(reply, Exception) and reply[0] == TOMBSTONE and reply[1]:
                    found[name] = split_name(reply[1])
        return found

    def rehome(self, former: Mapping[Name, Iterable[Name]], now_ms: int | None = None) -> int:
        """Put what stands under the former names of these schedules, and is in nobody's hands, under their own."""
        pairs = [(old, new) for new, names in former.items() for old in names if old != new]
        members = self._members({old for old, _ in pairs})
        return sum(
            self._rehome(old, new, members[old][start : start + _BATCH], now_ms)
            for old, new in pairs
            # Also without any: what waits under the new name may wait for one that has ended under the old name.
            for start in range(0, len(members[old]) or 1, _BATCH)
        )

    def _rehome(self, old: Name, new: Name, members: Sequence[str], now_ms: int | None) -> int:
        keys = self._keys
        names = [keys.schedule(*old), keys.schedule(*new), keys.ready, keys.ready_of(old[0]), keys.ready_of(new[0])]
        names += [keys.leases, *(keys.invocations(member.partition("|")[0]) for member in members)]
        args = [old[0], *new, self._scripts.instant(now_ms), *members]
        with translate():
            return int(self._scripts.run("rehome", names, args))

    def _members(self, names: set[Name]) -> dict[Name, list[str]]:
        """What is ready or waits under each of these names."""
        found: dict[Name, list[str]] = defaultdict(list)
        client: Any = self._client
        with translate():
            for app in {app for app, _ in names}:
                for member, _ in client.zscan_iter(self._keys.ready_of(app), match="*|[@!]*", count=1000):
                    name = (app, member.partition("|")[2].lstrip(_MARKS))
                    if name in names:
                        found[name].append(member)
            ordered = sorted(names)
            pipeline = self._client.pipeline(transaction=False)
            for name in ordered:
                pipeline.hget(self._keys.schedule(*name), "waiter")
            waiters = pipeline.execute()
        for name, waiter in zip(ordered, waiters, strict=True):
            if waiter and waiter not in found[name]:
                found[name].append(waiter)
        return found
