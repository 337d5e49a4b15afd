"""The retrier: publishes the rows of the outbox again, without end, until an answer settles them; keeps checkpoints.

The token of the first attempt goes with every later one, so an attempt whose answer was lost is heard as published.
No row is held over more than one call, and a holder whose lease ended changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count, groupby
from typing import TYPE_CHECKING

from relayctl.core.account import Closing, Span
from relayctl.core.facts import Duplicate, Emit, LoopFailed, OutboxGivenUp, OutboxRowBad, Published, PublishedLate
from relayctl.core.lifecycle import Verdict
from relayctl.core.occurrence import Occurrence, epoch_seconds
from relayctl.errors import BrokerError, BrokerRefused, FileFailure, ReplyLost
from relayctl.store.closings import Wish
from relayctl.store.stream import Publication, PublishVerdict

if TYPE_CHECKING:
    from relayctl.core.intent import Intent, Row
    from relayctl.host.clock import Clock
    from relayctl.host.outbox import Outbox
    from relayctl.store.closings import Closings
    from relayctl.store.stream import Stream
    from relayctl.worker.agenda import Name
    from relayctl.worker.keeper import Keeper

LEASE = timedelta(seconds=30)
"""Longer than one call to the broker may take."""
BATCH = 100
CROWDED = "outbox full"
"""The reason for which a firing is closed that has too many younger ones beside it in the outbox."""
_LATE_MS = 1000
_LOOK_S = 5.0
_LOOK_CLOSELY_S = 1.0
_TELL_AGAIN_S = 3600.0
_MOST_TOLD = 1000


class Retrier:
    """Works on the outbox of one state directory, together with the retriers of other processes on it."""

    def __init__(
        self,
        *,
        outbox: Outbox,
        stream: Stream,
        closings: Closings,
        keeper: Keeper | None,
        is_current: Callable[[], bool],
        now_ms: Callable[[], int],
        on_settled: Callable[[Name, int], None],
        token: str,
        clock: Clock,
        emit: Emit,
        acks: int = 0,
        by: str = "",
    ) -> None:
        """`is_current` asks whether the broker is the one whose registry is known here; `now_ms` is fleet time;
        `on_settled` hears which instant of which schedule has its answer; `by` is the worker that publishes."""
        self._outbox = outbox
        self._stream = stream
        self._closings = closings
        self._keeper = keeper
        self._is_current = is_current
        self._now_ms = now_ms
        self._on_settled = on_settled
        self._token = token
        self._clock = clock
        self._emit = emit
        self._acks = acks
        self._by = by
        self._claims = count(1)
        self._wake = threading.Event()
        self._told: dict[str, float] = {}
        self._trouble = ""
        self.last_pass_at = clock.monotonic()

    def wake(self) -> None:
        """Make the loop come round now."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; whoever sets it also calls `wake`."""
        while not stop.is_set():
            wait_s = self.step()
            self._clock.wait(self._wake, wait_s)
            self._wake.clear()

    def drain(self, *, is_first: bool = False) -> int:
        """Work on one batch of what is due now; how many rows that were. `is_first` makes every row due.

        Raises FileFailure, and BrokerError once what was held is free again.
        """
        if is_first:
            self._outbox.hasten()
        self._give_up_surplus()
        holder = f"{self._token}-{next(self._claims)}"
        rows = self._outbox.claim(holder, limit=BATCH, lease=LEASE)
        intents = []
        for row in rows:
            if row.intent is None:
                self._outbox.reschedule(row.id, holder, row.wait, row.trouble, is_try=False)
                self._tell_bad(row)
            else:
                intents.append((row, row.intent))
        intents.sort(key=lambda pair: (pair[1].token, pair[1].is_explicit, pair[1].occurrence.scheduled_at))
        groups = [list(group) for _, group in groupby(intents, key=lambda pair: (pair[1].token, pair[1].is_explicit))]
        for place, group in enumerate(groups):
            error = self._publish(group, holder)
            if error is not None:
                left = [row.id for later in groups[place + 1 :] for row, _ in later]
                self._outbox.release(left, holder)
                raise error
        return len(rows)

    def step(self) -> float:
        """One pass: rows that are due, checkpoints in time; how many seconds may go by until the next. Never raises."""
        wait_s = _LOOK_S
        try:
            while self._may_go_on() and self.drain() == BATCH:
                self.last_pass_at = self._clock.monotonic()
            if self._keeper is not None:
                wait_s = min(wait_s, self._keeper.keep_in_time())
            if self._outbox.count():
                wait_s = min(wait_s, _LOOK_CLOSELY_S)
            self._trouble = ""
        except BrokerError:
            # The tick loop tells of it; the rows wait.
            wait_s = _LOOK_CLOSELY_S
        except FileFailure as error:
            self._tell_trouble(error.message)
        except Exception as error:  # noqa: BLE001  a loop that dies leaves its rows for ever
            self._tell_trouble(f"{type(error).__name__}: {error}")
        self.last_pass_at = self._clock.monotonic()
        return wait_s

    def _may_go_on(self) -> bool:
        is_current = self._is_current()
        # Both this question and the work can wait for a broker; between them is a sign of life.
        self._clock.monotonic()
        return is_current

    def _publish(self, group: Sequence[tuple[Row, Intent]], holder: str) -> BrokerError | None:
        """Publish intents of one token, and do with each row what its answer says; the error that stopped it."""
        first = group[0][1]
        answers: dict[str, Publication | BrokerError] = {}
        stopped: BrokerError | None = None
        try:
            for item, answer in self._stream.publish(
                [self._marked(intent.occurrence) for _, intent in group],
                first.token,
                is_explicit=first.is_explicit,
                acks=self._acks,
            ):
                answers[item.id] = answer
        except BrokerError as error:
            stopped = error
        settled: list[str] = []
        for row, intent in group:
            heard = answers.get(row.id, stopped)
            if isinstance(heard, Publication) and self._is_settled(heard):
                settled.append(row.id)
                self._tell(intent.occurrence, heard)
            else:
                self._put_off(row, heard, holder)
        # Only now: a row that goes before its answer is told would be lost to a crash in between.
        self._outbox.resolve(settled, holder)
        return stopped

    def _marked(self, item: Occurrence) -> Occurrence:
        """With its publisher, and marked as late unless its first attempt had another mark."""
        is_late = self._now_ms() - epoch_seconds(item.scheduled_at) * 1000 > _LATE_MS
        return replace(item, by=self._by, marks=item.marks or (("late",) if is_late else ()))

    def _is_settled(self, answer: Publication) -> bool:
        if answer.verdict is PublishVerdict.EARLY or not answer.is_safe:
            return False
        # A server that has just lost everything knows no generation; what this one owes is not settled by that.
        return answer.verdict is not PublishVerdict.UNKNOWN or self._is_current()

    def _put_off(self, row: Row, answer: Publication | BrokerError | None, holder: str) -> None:
        is_error = isinstance(answer, BrokerError)
        reason = answer.message if isinstance(answer, BrokerError) else _why_not(answer)
        self._outbox.reschedule(
            row.id, holder, row.wait, reason, is_ambiguous=isinstance(answer, ReplyLost), is_try=is_error
        )

    def _give_up_surplus(self) -> None:
        for app, schedule in self._outbox.crowded():
            intents = self._outbox.surplus(app, schedule)
            instants = [epoch_seconds(intent.occurrence.scheduled_at) for intent in intents]
            counts = self._closings.close([_wish(app, schedule, at) for at in instants], now_ms=self._now_ms())
            if any(isinstance(closed, BrokerRefused) for closed in counts):
                # One key stands for all of them; they stay until it is mended.
                continue
            for intent, closed in zip(intents, counts, strict=True):
                if closed:
                    at = intent.occurrence.scheduled_at
                    self._emit(OutboxGivenUp(app=app, schedule=schedule, scheduled_at=at))
            self._outbox.give_up([intent.occurrence.id for intent in intents])

    def _tell(self, item: Occurrence, answer: Publication) -> None:
        at = epoch_seconds(item.scheduled_at)
        name: Name = (item.app, item.schedule)
        self._on_settled(name, at)
        if answer.verdict is PublishVerdict.DUPLICATE:
            self._emit(
                Duplicate(app=item.app, schedule=item.schedule, scheduled_at=item.scheduled_at, entry=answer.entry)
            )
        if answer.verdict is not PublishVerdict.PUBLISHED:
            return
        late = timedelta(milliseconds=max(0, self._now_ms() - at * 1000))
        app, schedule, scheduled_at = item.app, item.schedule, item.scheduled_at
        marks = self._marked(item).marks
        self._emit(
            Published(app=app, schedule=schedule, scheduled_at=scheduled_at, entry=answer.entry, late=late, marks=marks)
        )
        if marks:
            is_catch_up = "caught_up" in marks
            self._emit(
                PublishedLate(app=app, schedule=schedule, scheduled_at=scheduled_at, late=late, is_catch_up=is_catch_up)
            )

    def _tell_bad(self, row: Row) -> None:
        now = self._clock.monotonic()
        if now - self._told.get(row.id, -_TELL_AGAIN_S) < _TELL_AGAIN_S:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[row.id] = now
        self._emit(OutboxRowBad(row=row.id, reason=row.trouble))

    def _tell_trouble(self, reason: str) -> None:
        if reason != self._trouble:
            self._trouble = reason
            self._emit(LoopFailed(loop="retrier", reason=reason))


def _wish(app: str, schedule: str, at: int) -> Wish:
    span = Span(first=at, last=at, count=1)
    closing = Closing(span=span, verdict=Verdict.MISSED, reason=CROWDED)
    return Wish(
        app=app, schedule=schedule, closing=closing, narrow=lambda after, until: span if after < at <= until else None
    )


def _why_not(answer: Publication | None) -> str:
    if answer is None:
        return "it was not tried"
    if not answer.is_safe:
        return "too few replicas have it"
    return f"the broker says: {answer.verdict.value}"
