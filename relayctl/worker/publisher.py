"""Publishes what a pass takes, in pipelined batches, and says where each schedule stands afterwards.

A failed publication leaves the cursor where it is, so the same occurrence is tried again; the script decides by the
token whether an earlier try, whose reply was lost, had won.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from relayctl.core.facts import Duplicate, Emit, PassedOver, Published, PublishedLate
from relayctl.core.occurrence import Occurrence, epoch_seconds, from_epoch
from relayctl.errors import BrokerError
from relayctl.store.stream import Publication, PublishVerdict

if TYPE_CHECKING:
    from relayctl.core.due import Due
    from relayctl.store.stream import Stream
    from relayctl.worker.agenda import Job

_LATE = timedelta(seconds=1)
_DONE = frozenset({PublishVerdict.PUBLISHED, PublishVerdict.DUPLICATE, PublishVerdict.SETTLED, PublishVerdict.PAUSED})


class Standing(Enum):
    """How a job stands after a pass."""

    DONE = "done"
    EARLY = "early"  # the broker's clock says not yet
    SUPERSEDED = "superseded"  # the registry knows another definition; look at it before going on
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Where a job stands: its new cursor, and the error that stopped it."""

    job: Job
    standing: Standing
    cursor: int
    error: BrokerError | None = None


class Publisher:
    """Turns due firings into stream entries."""

    def __init__(self, stream: Stream, token: str, emit: Emit) -> None:
        """`token` names this process in the published set: the same one hears `published` again."""
        self._stream = stream
        self._token = token
        self._emit = emit

    def publish(self, passes: Sequence[tuple[Job, Due]], now_ms: int) -> list[Outcome]:
        """Publish the firings of each job in order; never raises a BrokerError, but says whom it stopped."""
        answers = self._answers(passes)
        outcomes = []
        for job, due in passes:
            outcome = self._settle(job, due, answers, now_ms)
            outcomes.append(outcome)
            if outcome.standing is Standing.DONE:
                self._tell_passed_over(job, due)
        return outcomes

    def _answers(self, passes: Sequence[tuple[Job, Due]]) -> dict[tuple[str, str, int], Publication | BrokerError]:
        occurrences = [
            Occurrence(
                app=job.app, schedule=job.schedule, handler=job.handler, scheduled_at=from_epoch(at), gen=generation.gen
            )
            for job, due in passes
            for at, generation in due.firings
        ]
        answers: dict[tuple[str, str, int], Publication | BrokerError] = {}
        try:
            for item, answer in self._stream.publish(occurrences, self._token):
                answers[item.app, item.schedule, epoch_seconds(item.scheduled_at)] = answer
        except BrokerError as error:
            for item in occurrences:
                answers.setdefault((item.app, item.schedule, epoch_seconds(item.scheduled_at)), error)
        return answers

    def _settle(
        self, job: Job, due: Due, answers: dict[tuple[str, str, int], Publication | BrokerError], now_ms: int
    ) -> Outcome:
        cursor = job.cursor
        for at, _ in due.firings:
            answer = answers[job.app, job.schedule, at]
            if isinstance(answer, BrokerError):
                return Outcome(job=job, standing=Standing.FAILED, cursor=cursor, error=answer)
            if answer.verdict is PublishVerdict.EARLY:
                return Outcome(job=job, standing=Standing.EARLY, cursor=cursor)
            if answer.verdict not in _DONE:
                return Outcome(job=job, standing=Standing.SUPERSEDED, cursor=cursor)
            self._tell(job, at, answer, due, now_ms)
            cursor = at
        return Outcome(job=job, standing=Standing.DONE, cursor=max(cursor, due.cursor))

    def _tell(self, job: Job, at: int, answer: Publication, due: Due, now_ms: int) -> None:
        scheduled_at = from_epoch(at)
        if answer.verdict is PublishVerdict.DUPLICATE:
            self._emit(Duplicate(app=job.app, schedule=job.schedule, scheduled_at=scheduled_at, entry=answer.entry))
        if answer.verdict is not PublishVerdict.PUBLISHED:
            return
        late = timedelta(milliseconds=max(0, now_ms - job.due_ms(at)))
        marks = ("caught_up",) if due.is_catch_up else ("late",) if late > _LATE else ()
        self._emit(
            Published(
                app=job.app,
                schedule=job.schedule,
                scheduled_at=scheduled_at,
                entry=answer.entry,
                late=late,
                marks=marks,
            )
        )
        if marks:
            self._emit(
                PublishedLate(
                    app=job.app,
                    schedule=job.schedule,
                    scheduled_at=scheduled_at,
                    late=late,
                    is_catch_up=due.is_catch_up,
                )
            )

    def _tell_passed_over(self, job: Job, due: Due) -> None:
        for first, last in due.passed_over:
            self._emit(
                PassedOver(
                    app=job.app,
                    schedule=job.schedule,
                    first_at=from_epoch(first),
                    last_at=from_epoch(last),
                    policy=job.catch_up.value,
                )
            )
