"""Claims and ends of invocations: find due work, claim it, keep the claim alive, end it, take back what was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from relayctl.core.lifecycle import Claim, Descriptor, Slot
from relayctl.core.occurrence import VERDICT_SOURCE
from relayctl.core.output import KeptOutput, OutputLimits
from relayctl.errors import BrokerError, BrokerRefused
from relayctl.store.endrecords import (
    end_record,
    exhausted_letter,
    obsolete_record,
    surrendered_letter,
    surrendered_record,
)
from relayctl.store.failure import to_broker_error, translate
from relayctl.store.keys import GROUP, Keys
from relayctl.store.scripts import Arguments, Command, Run, Scripts

if TYPE_CHECKING:
    import redis

_MOST_COUNTED = 10_000
_SCAN_STEP = 1000


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
    LEFT = "left"


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


@dataclass(frozen=True, slots=True)
class Bid:
    """Due invocations of one app under one revision, and how many of them may be claimed: the first that are there.

    `places` of them can begin at once; up to `in_hand` more wait for these to end, none of them on its last attempt.
    `is_again` says that it was sent before and no answer came, so that some of it may be granted.
    """

    wanted: Sequence[Wanted]
    places: int
    in_hand: int = 0
    is_again: bool = False

    @property
    def app(self) -> str:
        """Whose places it is for."""
        return self.wanted[0].app


Answer = Claim | ClaimRefusal | BrokerError
"""What became of one invocation that was to be claimed."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The answers to one turn, in the order of what was asked; no `look` where only that was refused."""

    ends: Sequence[tuple[EndVerdict, int | None] | BrokerError]
    bids: Sequence[Sequence[Answer]]
    look: Look | None


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

    def claim(self, wanted: Sequence[Wanted], *, lease_ms: int, now_ms: int | None = None) -> list[Answer]:
        """Claim each, in one round trip; the answers are in order."""
        answers = self.answers(bids_for(wanted), lease_ms=lease_ms, now_ms=now_ms)
        return [answer for answered in answers for answer in answered]

    def answers(self, bids: Sequence[Bid], *, lease_ms: int, now_ms: int | None = None) -> list[list[Answer]]:
        """Claim what is bid for, in one round trip; the answers to each bid are in its order."""
        with translate():
            replies = self._scripts.run_all([self._claim_run(bid, lease_ms, now_ms) for bid in bids])
        return [self._bid_answers(*pair, lease_ms, now_ms) for pair in zip(bids, replies, strict=True)]

    def turn(
        self,
        ended: Sequence[tuple[Claim, Attempt]],
        bids: Sequence[Bid],
        asked: Mapping[str, int],
        *,
        lease_ms: int,
        due_ms: int,
    ) -> Turn:
        """Record each end, then claim, then look at what is due: the apps, and up to so many of those that are
        `asked`; all in one round trip."""
        runs: list[Run] = [("finish", *self._end_run(claim, attempt, None)) for claim, attempt in ended]
        runs += [self._claim_run(bid, lease_ms, None) for bid in bids]
        look = self._look_commands(asked, due_ms)
        with translate():
            replies = self._scripts.run_all(runs, then=look) if runs else self._scripts.send(self._keys.ready, look)
        ends, claims, found = replies[: len(ended)], replies[len(ended) : len(runs)], replies[len(runs) :]
        is_refused = any(isinstance(reply, Exception) for reply in found)
        return Turn(
            ends=[_end_answer(reply) for reply in ends],
            bids=[self._bid_answers(*pair, lease_ms, None) for pair in zip(bids, claims, strict=True)],
            look=None if is_refused else _look(asked, found),
        )

    def _bid_answers(self, bid: Bid, reply: Any, lease_ms: int, now_ms: int | None) -> list[Answer]:
        if not isinstance(reply, Exception):
            answered = [_claim(item, answer) for item, answer in zip(bid.wanted, reply, strict=False)]
            return [*answered, *[ClaimRefusal.LEFT] * (len(bid.wanted) - len(answered))]
        if len(bid.wanted) == 1:
            return [to_broker_error(reply)]
        # One of them stopped the step: which, only each by itself can tell. Those before it are granted again.
        answers: list[Answer] = []
        for item in bid.wanted:
            granted = sum(isinstance(answer, Claim) for answer in answers)
            places = max(0, bid.places - granted)
            one = Bid([item], places, min(bid.in_hand, bid.places + bid.in_hand - granted), is_again=True)
            with translate():
                [alone] = self._scripts.run_all([self._claim_run(one, lease_ms, now_ms)])
            answers += self._bid_answers(one, alone, lease_ms, now_ms)
        return answers

    def end(
        self, ended: Sequence[tuple[Claim, Attempt]], now_ms: int | None = None
    ) -> list[tuple[EndVerdict, int | None] | BrokerError]:
        """Record each end in one round trip: what it led to, and when the next attempt is due."""
        runs = [self._end_run(claim, attempt, now_ms) for claim, attempt in ended]
        with translate():
            replies = self._scripts.run_many("finish", runs)
        return [_end_answer(reply) for reply in replies]

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
        """When the lease of each claim ends, in milliseconds.

        A scan, since renewals reorder them meanwhile: it misses none that is there all the time.
        """
        with translate():
            return {
                _leased(member): int(ends)
                for member, ends in self._client.zscan_iter(self._keys.leases, count=_SCAN_STEP)
            }

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

    def _claim_run(self, bid: Bid, lease_ms: int, now_ms: int | None) -> Run:
        keys, first = self._keys, bid.wanted[0]
        record = self.unadmitted_record("")
        named = [keys.ready, keys.ready_of(first.app), keys.leases, keys.pins, keys.events]
        named += [keys.dead_letter_marks, keys.stranded]
        args: list[str | int] = [first.app, first.revision, lease_ms, GROUP, self._scripts.instant(now_ms)]
        args += [bid.places, bid.in_hand, "1" if bid.is_again else "", len(record), *record]
        descriptor = None
        for item in bid.wanted:
            inv = keys.invocations(item.message)
            named += (inv, self._schedule_key(item.app, item.slot, inv), self.history_key(item.app, item.slot))
            args += (item.message, item.slot.text, item.token)
            args.append("=" if item.descriptor == descriptor else item.descriptor)
            descriptor = item.descriptor
        return "claim", named, args

    def _end_run(self, claim: Claim, attempt: Attempt, now_ms: int | None) -> Arguments:
        keys = self._keys
        wait = claim.descriptor.wait_after(claim.attempt)
        is_failed = attempt.outcome == "failed"
        buried = exhausted_letter(claim, attempt) if is_failed and wait is None else ()
        record = () if attempt.outcome == "released" else (*end_record(claim, attempt), *offered(self._wants_verdicts))
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


def bids_for(wanted: Sequence[Wanted]) -> list[Bid]:
    """All of these, in order, with a place for each."""
    groups = groupby(wanted, lambda item: (item.app, item.revision))
    return [Bid(items, len(items)) for items in (list(group) for _, group in groups)]


@lru_cache(maxsize=256)
def pinned(text: str) -> Descriptor:
    """`Descriptor.from_json`, remembered: most claims pin what the one before them did."""
    return Descriptor.from_json(text)


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
    return message, _slot(slot)


_slot = lru_cache(maxsize=1024)(Slot)


def _claim(item: Wanted, reply: Any) -> Answer:
    if reply[0] != "claimed":
        return ClaimRefusal(reply[0])
    try:
        descriptor = pinned(reply[2])
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
