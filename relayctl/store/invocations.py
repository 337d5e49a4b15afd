"""Claims and ends of invocations: find due work, claim it, keep the claim alive, end it, take back what was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from relayctl.core.lifecycle import Claim, Descriptor, Slot
from relayctl.core.occurrence import VERDICT_SOURCE
from relayctl.core.output import KeptOutput, OutputLimits
from relayctl.errors import BrokerError, BrokerRefused
from relayctl.store.failure import to_broker_error, translate
from relayctl.store.keys import GROUP, Keys
from relayctl.store.scripts import Arguments, Command, Scripts

if TYPE_CHECKING:
    import redis

HISTORY_VERSION = 1
DEAD_LETTER_VERSION = 1
_MOST_COUNTED = 10_000


class ClaimRefusal(Enum):
    """Why a claim was not granted."""

    TAKEN = "taken"
    LATER = "later"
    OBSOLETE = "obsolete"
    ELSEWHERE = "elsewhere"
    WAITING = "waiting"
    SKIPPED = "skipped"
    COALESCED = "coalesced"
    NEWER = "newer"


class EndVerdict(Enum):
    """What the end of an attempt led to."""

    ENDED = "ended"
    RETRY = "retry"
    RELEASED = "released"
    LOST = "lost"
    AGAIN = "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A due invocation to claim, with what the claim would pin."""

    message: str
    app: str
    slot: Slot
    token: str
    descriptor: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How one attempt went, for the record. Instants in milliseconds since 1970.

    `output` is what is kept of its output, None for nothing; with `is_silent` only where some is kept already.
    """

    outcome: str
    reason: str
    exit: str
    started_ms: int
    finished_ms: int
    worker: str
    output: KeptOutput | None = None
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was due at one moment: the apps, and of those that were asked for the first invocations.

    `asked` says up to how many of each app.
    """

    apps: Sequence[str]
    asked: Mapping[str, int]
    due: Sequence[tuple[str, str, Slot]]


class Invocations:
    """Operations on invocations over one client. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(
        self,
        client: redis.Redis,
        keys: Keys,
        wants_verdicts: Callable[[], bool] = lambda: False,
        limits: OutputLimits | None = None,
    ) -> None:
        """`wants_verdicts` says whether a live worker has a rule for verdicts, so that they are offered as events."""
        self._limits = limits or OutputLimits()
        self._wants_verdicts = wants_verdicts
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)

    def look(self, asked: Mapping[str, int], now_ms: int) -> Look:
        """What `ready_apps` says, and `due` of these apps with up to so many each, in one round trip."""
        with translate():
            pipeline: Any = self._client.pipeline(transaction=False)
            for command in self._look_commands(asked, now_ms):
                pipeline.execute_command(*command)
            return _look(asked, pipeline.execute())

    def _look_commands(self, asked: Mapping[str, int], now_ms: int) -> list[Command]:
        due = [
            ("ZRANGEBYSCORE", self._keys.ready_of(app), "-inf", now_ms, "LIMIT", 0, count)
            for app, count in asked.items()
        ]
        return [("ZRANGEBYSCORE", self._keys.ready, "-inf", now_ms), *due]

    def ready_apps(self, now_ms: int) -> list[str]:
        """Apps that have due work, the longest waiting first."""
        with translate():
            apps: Any = self._client.zrangebyscore(self._keys.ready, "-inf", now_ms)
        return list(apps)

    def due(self, wanted: Sequence[tuple[str, int]], now_ms: int) -> list[tuple[str, str, Slot]]:
        """For each (app, count): up to that many due invocations as (app, message, slot), one round trip."""
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            for app, count in wanted:
                pipeline.zrangebyscore(self._keys.ready_of(app), "-inf", now_ms, start=0, num=count)
            replies = pipeline.execute()
        return [
            (app, *_member(member)) for (app, _), members in zip(wanted, replies, strict=True) for member in members
        ]

    def next_due_ms(self) -> int | None:
        """When the earliest work of any app becomes due."""
        with translate():
            first: Any = self._client.zrange(self._keys.ready, 0, 0, withscores=True)
        return int(first[0][1]) if first else None

    def waiting(self, apps: Iterable[str]) -> dict[tuple[str, str], int]:
        """How many occurrences of each (app, schedule) wait to be claimed, as far as the first ones of an app tell."""
        names = list(apps)
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            for app in names:
                pipeline.zrange(self._keys.ready_of(app), 0, _MOST_COUNTED - 1)
            replies = pipeline.execute()
        found: Counter[tuple[str, str]] = Counter()
        for app, members in zip(names, replies, strict=True):
            schedules = (_member(member)[1].schedule for member in members)
            found.update((app, schedule) for schedule in schedules if schedule is not None)
        return dict(found)

    def claim(
        self, wanted: Sequence[Wanted], *, lease_ms: int, now_ms: int | None = None
    ) -> list[Claim | ClaimRefusal | BrokerError]:
        """Claim each, in one round trip; the answers are in order."""
        runs = [self._claim_run(item, lease_ms, now_ms) for item in wanted]
        with translate():
            replies = self._scripts.run_many("claim", runs)
        return [_claim(item, reply) for item, reply in zip(wanted, replies, strict=True)]

    def end(
        self, ended: Sequence[tuple[Claim, Attempt]], now_ms: int | None = None
    ) -> list[tuple[EndVerdict, int | None] | BrokerError]:
        """Record each end in one round trip: what it led to, and when the next attempt is due."""
        runs = [self._end_run(claim, attempt, now_ms) for claim, attempt in ended]
        with translate():
            replies = self._scripts.run_many("finish", runs)
        return [_end_answer(reply) for reply in replies]

    def end_and_look(
        self, ended: Sequence[tuple[Claim, Attempt]], asked: Mapping[str, int], due_ms: int
    ) -> tuple[list[tuple[EndVerdict, int | None] | BrokerError], Look | None]:
        """As `end`, and in the same round trip as `look` at what is due then; None where only that was refused."""
        runs = [self._end_run(claim, attempt, None) for claim, attempt in ended]
        with translate():
            replies = self._scripts.run_many("finish", runs, then=self._look_commands(asked, due_ms))
        answers, found = replies[: len(runs)], replies[len(runs) :]
        is_refused = any(isinstance(reply, Exception) for reply in found)
        return [_end_answer(reply) for reply in answers], None if is_refused else _look(asked, found)

    def release(self, claims: Sequence[Claim], now_ms: int | None = None) -> None:
        """Give claims back uncharged: what did not start, or was cut by a drain."""
        attempt = Attempt(outcome="released", reason="", exit="", started_ms=0, finished_ms=0, worker="")
        self.end([(claim, attempt) for claim in claims], now_ms)

    def renew(self, claims: Sequence[Claim], *, lease_ms: int, now_ms: int | None = None) -> list[Claim]:
        """Renew the leases of all; those that are lost."""
        if not claims:
            return []
        keys = [self._keys.leases, *(self._keys.invocations(claim.message) for claim in claims)]
        args: list[str | int] = [lease_ms, self._scripts.instant(now_ms)]
        for claim in claims:
            args += [claim.app, claim.message, claim.slot.text, claim.token]
        with translate():
            lost: list[int] = self._scripts.run("renew", keys, args)
        return [claims[position - 1] for position in lost]

    def expired(self, now_ms: int, count: int = 100) -> list[tuple[str, str, Slot]]:
        """Claims whose lease has ended, as (app, message, slot)."""
        with translate():
            members: Any = self._client.zrangebyscore(self._keys.leases, "-inf", now_ms, start=0, num=count)
        return [_leased(member) for member in members]

    def leases(self) -> dict[tuple[str, str, Slot], int]:
        """When the lease of each claim ends, in milliseconds, as far as the first ones tell."""
        with translate():
            rows: Any = self._client.zrange(self._keys.leases, 0, _MOST_COUNTED - 1, withscores=True)
        return {_leased(member): int(ends) for member, ends in rows}

    def take_back(
        self,
        items: Sequence[tuple[str, str, Slot]],
        *,
        by: str,
        seen: Sequence[int] = (),
        now_ms: int | None = None,
    ) -> list[tuple[str, int] | BrokerError]:
        """Return claims with an ended lease to ready, the attempt charged; without budget they end as lost.

        With `seen`, the end of each lease as it was seen, also those whose lease has not ended, unless it was renewed.
        The answer of each is (ready | failed | alive | gone | newer, attempts made).
        """
        ends: Sequence[int | str] = seen or [""] * len(items)
        runs = [self._take_back_run(*item, by, end, now_ms) for item, end in zip(items, ends, strict=True)]
        with translate():
            replies = self._scripts.run_many("expire", runs)
        return [answer_of(reply) for reply in replies]

    def unadmitted_record(self, message: str) -> tuple[str, ...]:
        """The history record of an invocation that ends before anybody admitted it."""
        return (*obsolete_record(message), *offered(self._wants_verdicts))

    def history_key(self, app: str, slot: Slot, handler: str | None = None) -> str:
        """Where the ends of this invocation are recorded."""
        if slot.schedule is not None:
            return self._keys.history_of_schedule(app, slot.schedule)
        return self._keys.history_of_handler(app, handler or slot.text)

    def _schedule_key(self, app: str, slot: Slot, otherwise: str) -> str:
        return otherwise if slot.schedule is None else self._keys.schedule(app, slot.schedule)

    def _claim_run(self, item: Wanted, lease_ms: int, now_ms: int | None) -> Arguments:
        keys, inv = self._keys, self._keys.invocations(item.message)
        return (
            (
                inv,
                keys.ready,
                keys.ready_of(item.app),
                keys.leases,
                keys.pins,
                keys.events,
                self._schedule_key(item.app, item.slot, inv),
                self.history_key(item.app, item.slot),
                keys.dead_letter_marks,
                keys.stranded,
            ),
            (
                item.message,
                item.app,
                item.slot.text,
                item.token,
                item.descriptor,
                item.revision,
                lease_ms,
                GROUP,
                self._scripts.instant(now_ms),
                *self.unadmitted_record(item.message),
            ),
        )

    def _end_run(self, claim: Claim, attempt: Attempt, now_ms: int | None) -> Arguments:
        keys = self._keys
        wait = claim.descriptor.wait_after(claim.attempt)
        is_failed = attempt.outcome == "failed"
        buried = _dead_letter(claim, attempt) if is_failed and wait is None else ()
        record = () if attempt.outcome == "released" else (*_record(claim, attempt), *offered(self._wants_verdicts))
        return (
            (
                keys.invocations(claim.message),
                keys.events,
                keys.ready,
                keys.ready_of(claim.app),
                keys.leases,
                keys.dead_letters,
                self.history_key(claim.app, claim.slot, claim.descriptor.handler),
                self._schedule_key(claim.app, claim.slot, keys.invocations(claim.message)),
                keys.dead_letter_marks,
                *output_keys(keys, claim.app, claim.slot, claim.descriptor.handler),
            ),
            (
                claim.message,
                claim.app,
                claim.slot.text,
                claim.token,
                attempt.outcome,
                GROUP,
                -1 if wait is None else wait,
                self._scripts.instant(now_ms),
                claim.attempt,
                *self._output_args(attempt),
                len(buried),
                *buried,
                *record,
            ),
        )

    def _output_args(self, attempt: Attempt) -> tuple[str | int, ...]:
        limits, output = self._limits, attempt.output
        named = ("", "") if output is None else (output.name, output.to_json())
        return (*named, "1" if attempt.is_silent else "", limits.attempts, limits.total_bytes)

    def _take_back_run(
        self, app: str, message: str, slot: Slot, by: str, seen: int | str, now_ms: int | None
    ) -> Arguments:
        buried = surrendered_letter(app, message, slot, "lost", "its worker vanished on the last attempt")
        failure = (*surrendered_record(message, slot, "lost", by), *offered(self._wants_verdicts))
        args = (message, app, slot.text, GROUP, seen, self._scripts.instant(now_ms), len(buried), *buried, *failure)
        return self.surrender_keys(app, message, slot), args

    def surrender_keys(self, app: str, message: str, slot: Slot) -> tuple[str, ...]:
        """The keys of a step that may end an invocation for which no worker acts."""
        keys = self._keys
        return (
            keys.invocations(message),
            keys.events,
            keys.ready,
            keys.ready_of(app),
            keys.leases,
            keys.dead_letters,
            self.history_key(app, slot),
            self._schedule_key(app, slot, keys.invocations(message)),
            keys.dead_letter_marks,
        )


def output_keys(keys: Keys, app: str, slot: Slot, handler: str) -> tuple[str, str, str]:
    """Where the output of this invocation's attempts is kept: the texts, all their times, those of its owner."""
    owner = keys.output_of_handler(app, handler)
    if slot.schedule is not None:
        owner = keys.output_of_schedule(app, slot.schedule)
    return keys.output_texts, keys.output_times, owner


def offered(wants_verdicts: Callable[[], bool]) -> tuple[str, ...]:
    """What asks a script, among a record's fields, to offer the verdict as an event too; nothing if nobody wants it."""
    return ("offer", VERDICT_SOURCE) if wants_verdicts() else ()


def obsolete_record(message: str) -> tuple[str, ...]:
    """The history record of an occurrence whose schedule was removed before anybody admitted it."""
    return (
        *("v", str(HISTORY_VERSION), "message", message, "verdict", "obsolete"),
        *("reason", "the schedule was removed before the occurrence was admitted"),
    )


def dead_entry(reason: str, detail: str, size: int, head: str, message: str) -> tuple[str, ...]:
    """The dead letter of an entry that can never run: a summary, not replayable."""
    return (
        *("v", str(DEAD_LETTER_VERSION), "message", message, "reason", reason, "detail", detail),
        *("size", str(size), "head", head, "replayable", "0"),
    )


def surrendered_letter(app: str, message: str, slot: Slot, reason: str, detail: str) -> tuple[str, ...]:
    """The dead letter of an invocation that ended without a worker; the step adds contract and event."""
    return (
        *("v", str(DEAD_LETTER_VERSION), "app", app, "slot", slot.text, "message", message),
        *("reason", reason, "detail", detail, "replayable", "1"),
    )


def surrendered_record(message: str, slot: Slot, reason: str, by: str) -> tuple[str, ...]:
    """The history record of the same."""
    return (
        *("v", str(HISTORY_VERSION), "message", message, "kind", slot.kind.value),
        *("verdict", "failed", "reason", reason, "worker", by),
    )


def _look(asked: Mapping[str, int], replies: Sequence[Any]) -> Look:
    due = [(app, *_member(member)) for app, members in zip(asked, replies[1:], strict=True) for member in members]
    return Look(apps=replies[0], asked=asked, due=due)


def _end_answer(reply: Any) -> tuple[EndVerdict, int | None] | BrokerError:
    if isinstance(reply, Exception):
        return to_broker_error(reply)
    return EndVerdict(reply[0]), int(reply[1]) if len(reply) > 1 else None


def answer_of(reply: Any) -> tuple[str, int] | BrokerError:
    """A step's word and number, or the error that it answered."""
    if isinstance(reply, Exception):
        return to_broker_error(reply)
    return reply[0], int(reply[1]) if len(reply) > 1 else 0


def _leased(member: str) -> tuple[str, str, Slot]:
    app, _, rest = member.partition("|")
    return app, *_member(rest)


def _member(member: str) -> tuple[str, Slot]:
    message, _, slot = member.partition("|")
    return message, Slot(slot)


def _claim(item: Wanted, reply: Any) -> Claim | ClaimRefusal | BrokerError:
    if isinstance(reply, Exception):
        return to_broker_error(reply)
    if reply[0] != "claimed":
        return ClaimRefusal(reply[0])
    try:
        descriptor = Descriptor.from_json(reply[2])
    except ValueError as error:
        # Pinned by a newer peer, say: it must not take the other claims of this round trip with it.
        return BrokerRefused(f"the descriptor pinned for {item.message} cannot be read here: {error}")
    return Claim(
        message=item.message,
        app=item.app,
        slot=item.slot,
        token=item.token,
        attempt=int(reply[1]),
        descriptor=descriptor,
        event=reply[3],
    )


def _record(claim: Claim, attempt: Attempt) -> tuple[str, ...]:
    return (
        *("v", str(HISTORY_VERSION), "message", claim.message, "kind", claim.slot.kind.value),
        *("handler", claim.descriptor.handler, "scheduled_at", claim.scheduled_at),
        *("attempts", str(claim.attempt), "of", str(claim.descriptor.attempts)),
        *("started", str(attempt.started_ms), "finished", str(attempt.finished_ms)),
        *("verdict", attempt.outcome, "reason", attempt.reason, "exit", attempt.exit, "worker", attempt.worker),
    )


def _dead_letter(claim: Claim, attempt: Attempt) -> tuple[str, ...]:
    return (
        *("v", str(DEAD_LETTER_VERSION), "app", claim.app, "slot", claim.slot.text, "message", claim.message),
        *("handler", claim.descriptor.handler, "scheduled_at", claim.scheduled_at),
        *("reason", "exhausted", "detail", attempt.reason, "attempts", str(claim.attempt)),
        *("descriptor", claim.descriptor.to_json(), "worker", attempt.worker, "replayable", "1"),
    )
