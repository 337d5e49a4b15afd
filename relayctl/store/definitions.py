"""The registry: which definition of each schedule is in force. Files propose, Redis decides, every worker follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.definition import TOMBSTONE, Generation
from relayctl.core.names import split_name
from relayctl.errors import BrokerRefused
from relayctl.store.failure import alien_record, refusal_of_key, translate
from relayctl.store.scripts import Arguments, Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys

_BATCH = 500
HEAD_FIELDS = (
    *("gen", "hash", "spec", "from", "floor", "hw"),
    *("paused", "paused_until", "paused_by", "paused_why", "failures", "last_error", "shut", "control", "untold"),
    *("moved_from", "moved_to"),
)  # fmt: skip
_T = TypeVar("_T")
Name = tuple[str, str]
"""App and schedule."""


class Mode(Enum):
    """How a worker comes to propose a definition."""

    START = "start"  # found on starting, or at a first load
    EDIT = "edit"  # this worker saw its own readable tree change
    ADOPT = "adopt"  # no live worker has held the head for long enough


class Verdict(Enum):
    """What the registry made of a proposal."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    REMOVED = "removed"
    BEHIND = "behind"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A definition that a worker's files hold; `held_gen` is the generation it held before (0: none)."""

    app: str
    schedule: str
    mode: Mode
    hash: str
    spec: str
    held_gen: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The definition in force. Seconds since 1970 where not said otherwise; None where there is none yet."""

    app: str
    schedule: str
    gen: int
    hash: str
    spec: str
    from_ms: int
    floor: int | None
    highest_published: int | None
    paused_at: int | None
    paused_until: int | None = None
    paused_by: str = ""
    pause_reason: str = ""
    refusals: int = 0
    last_error: str = ""
    closed_until: int | None = None
    control: int = 0
    """The number of the last act of an operator: of two that are known, the higher is the later one."""
    is_untold: bool = False
    """Whether no worker has told of an act yet."""
    moved_from: tuple[Name, ...] = ()
    """Its former names, the last one first."""
    moved_to: Name | None = None
    """The name under which it goes on, where this one is not in use any more."""

    @property
    def generation(self) -> Generation:
        """The head as a generation that is in force."""
        return Generation(gen=self.gen, hash=self.hash, spec=self.spec, from_ms=self.from_ms)

    @property
    def settled_mark(self) -> int | None:
        """The highest instant that was published or closed, None before the first. Earlier ones may be owed."""
        return _highest(self.floor, self.highest_published, self.closed_until)

    @property
    def settled_until(self) -> int:
        """The instant up to which nothing is owed any more, as far as the registry's own fields tell."""
        # A closing is no such mark: what catch-up leaves out is closed before an earlier firing is published.
        mark = _highest(self.floor, self.highest_published)
        return -(1 << 62) if mark is None else mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look at some schedules found. Those without a record are in neither."""

    heads: dict[Name, Head]
    unreadable: dict[Name, BrokerRefused]
    """Where the key holds something that is no record of a schedule: of these nothing is known."""


class Definitions:
    """Operations on the registry. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)

    def register(
        self, proposals: Sequence[Proposal], now_ms: int | None = None
    ) -> list[tuple[Verdict, Head | None] | BrokerRefused]:
        """Propose each; the answers are in the same order, with the head now in force (None: there is none).

        A refusal where a key of that schedule holds something else than it should.
        """
        keys = self._keys
        answers: list[tuple[Verdict, Head | None] | BrokerRefused] = []
        for batch in _batches(proposals):
            runs = [register_run(keys, item, self._scripts.instant(now_ms)) for item in batch]
            with translate():
                replies = self._scripts.run_many("register", runs)
            for item, reply in zip(batch, replies, strict=True):
                answers.append(read_registered(keys, item, reply))
        return answers

    def restore(self, checkpoints: Sequence[Checkpoint], now_ms: int | None = None) -> int:
        """Offer what is remembered to a registry that has lost it; how many schedules it did not know at all."""
        keys, restored = self._keys, 0
        for batch in _batches(checkpoints):
            runs: list[Arguments] = [
                (
                    [
                        keys.schedule(item.app, item.schedule),
                        keys.definitions_seq,
                        keys.definitions_log,
                        keys.definitions,
                    ],
                    [
                        item.gen,
                        item.hash,
                        item.spec,
                        item.from_ms,
                        item.floor,
                        "" if item.paused_at is None else item.paused_at,
                        "" if item.paused_until is None else item.paused_until,
                        f"{item.app}/{item.schedule}",
                        self._scripts.instant(now_ms),
                        item.control,
                        item.paused_by,
                        item.pause_reason,
                    ],
                )
                for item in batch
            ]
            with translate():
                replies = self._scripts.run_many("restore", runs)
            # One that is refused is told when it is registered, which follows.
            restored += sum(not refusal_of_key(reply) and reply == "restored" for reply in replies)
        return restored

    def heads(self, names: Iterable[Name]) -> dict[Name, Head]:
        """The heads of these schedules; those without a record are left out. Raises where one cannot be read."""
        found = self.look(names)
        for error in found.unreadable.values():
            raise error
        return found.heads

    def look(self, names: Iterable[Name]) -> Found:
        """The heads of these schedules, as far as they can be read."""
        found = Found(heads={}, unreadable={})
        for batch in _batches(list(names)):
            with translate():
                pipeline = self._client.pipeline(transaction=False)
                for app, schedule in batch:
                    pipeline.hmget(self._keys.schedule(app, schedule), *HEAD_FIELDS)
                replies = pipeline.execute(raise_on_error=False)
            for (app, schedule), reply in zip(batch, replies, strict=True):
                head = read_head(self._keys, app, schedule, reply)
                if isinstance(head, BrokerRefused):
                    found.unreadable[app, schedule] = head
                elif head is not None:
                    found.heads[app, schedule] = head
        return found

    def all_names(self) -> set[Name]:
        """Every schedule in the registry that is not removed."""
        with translate():
            members: Any = self._client.smembers(self._keys.definitions)
        return set(map(split_name, members))

    def removed_names(self) -> list[Name]:
        """The removed schedules of which a firing may still be without a verdict, the oldest removal first."""
        with translate():
            members: Any = self._client.zrange(self._keys.definitions_gone, 0, -1)
        return [split_name(member) for member in members]

    def settle_removed(self, app: str, schedule: str, gen: int) -> None:
        """All that a removed schedule owed up to that generation has its verdict."""
        keys = [self._keys.schedule(app, schedule), self._keys.definitions_gone, self._keys.published(app, schedule)]
        with translate():
            self._scripts.run("settle", keys, [f"{app}/{schedule}", gen])

    def generations(self, app: str, schedule: str) -> list[Generation]:
        """All kept generations, oldest first, the head last."""
        with translate():
            record: Any = self._client.hgetall(self._keys.schedule(app, schedule))
        if "gen" not in record:
            return []
        past = [_past(int(name[2:]), text) for name, text in record.items() if name.startswith("g:")]
        head = Generation(
            gen=int(record["gen"]),
            hash=record["hash"],
            spec=record.get("spec", ""),
            from_ms=int(record["from"]),
        )
        return sorted((*past, head), key=lambda item: item.gen)

    def seq(self) -> int:
        """The change counter."""
        with translate():
            return int(self._client.get(self._keys.definitions_seq) or 0)

    def changes_since(self, seq: int) -> list[Name] | None:
        """The schedules changed after that count, or None when the log does not reach back so far: look at all."""
        with translate():
            entries: Any = self._client.xrange(self._keys.definitions_log, min=f"{seq + 1}-0")
        if not entries and self.seq() == seq:
            return []
        if not entries or int(entries[0][0].partition("-")[0]) != seq + 1:
            return None
        names = {fields["s"] for _, fields in entries}
        return sorted(map(split_name, names))


def register_run(keys: Keys, item: Proposal, instant: int | str) -> Arguments:
    """KEYS and ARGV of `register.lua` for one proposal; `instant` as of `Scripts.instant`."""
    return (
        [
            keys.schedule(item.app, item.schedule),
            keys.definitions_seq,
            keys.definitions_log,
            keys.definitions,
            keys.published(item.app, item.schedule),
            keys.definitions_gone,
        ],
        [item.mode.value, item.hash, item.spec, item.held_gen, f"{item.app}/{item.schedule}", instant],
    )


def read_registered(keys: Keys, item: Proposal, reply: Any) -> tuple[Verdict, Head | None] | BrokerRefused:
    """What `register.lua` answered to one proposal."""
    app, schedule = item.app, item.schedule
    refusal = refusal_of_key(reply, keys.schedule(app, schedule), keys.published(app, schedule))
    if refusal is not None:
        return refusal
    head = read_head(keys, app, schedule, reply[1:])
    return head if isinstance(head, BrokerRefused) else (Verdict(reply[0]), head)


def read_head(keys: Keys, app: str, schedule: str, fields: Any) -> Head | BrokerRefused | None:
    """The head in the values of `HEAD_FIELDS`, None where there is no record; a refusal where it is not ours."""
    key = keys.schedule(app, schedule)
    refusal = refusal_of_key(fields, key)
    if refusal is not None:
        return refusal
    try:
        return _head(app, schedule, fields)
    except (TypeError, ValueError) as error:
        return alien_record(str(error), key)


def _highest(*marks: int | None) -> int | None:
    return max((mark for mark in marks if mark is not None), default=None)


def _batches(items: Sequence[_T]) -> Iterable[Sequence[_T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def _head(app: str, schedule: str, fields: Sequence[Any]) -> Head | None:
    gen, hash_, spec, from_ms, floor, highest, *rest = fields
    if not gen:
        return None
    paused, paused_until, paused_by, pause_reason, refusals, last_error, closed, control, untold, *names = rest
    moved_from, moved_to = names
    return Head(
        app=app,
        schedule=schedule,
        gen=int(gen),
        hash=hash_,
        spec=spec or "",
        from_ms=int(from_ms),
        floor=int(floor) if floor else None,
        highest_published=int(highest) if highest else None,
        paused_at=int(paused) if paused else None,
        paused_until=int(paused_until) if paused_until else None,
        paused_by=paused_by or "",
        pause_reason=pause_reason or "",
        refusals=int(refusals or 0),
        last_error=last_error or "",
        closed_until=int(closed) if closed else None,
        control=int(control or 0),
        is_untold=bool(untold),
        moved_from=tuple(split_name(text) for text in (moved_from or "").split(",") if text),
        moved_to=split_name(moved_to) if moved_to and hash_ == TOMBSTONE else None,
    )


def _past(gen: int, text: str) -> Generation:
    from_ms, to_ms, hash_, spec = text.split("|", 3)
    return Generation(gen=gen, hash=hash_, spec=spec, from_ms=int(from_ms), to_ms=int(to_ms))
