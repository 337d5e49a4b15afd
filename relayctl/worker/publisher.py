"""Publishes what a pass takes, in pipelined batches, and says where each schedule stands afterwards.

A failed publication leaves the cursor where it is and is kept in the outbox before it is tried again; the script
decides by the token whether an earlier try, whose reply was lost, had won.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from relayctl.core.facts import Duplicate, Emit, Published, PublishedLate
from relayctl.core.occurrence import Occurrence, epoch_seconds, from_epoch, occurrence_id
from relayctl.errors import ArgumentsRefused, BrokerError
from relayctl.store.stream import PUBLISH_BATCH, Publication, PublishVerdict

if TYPE_CHECKING:
    from relayctl.core.due import Due
    from relayctl.store.stream import Stream
    from relayctl.worker.agenda import Job
    from relayctl.worker.passedover import PassedOverFirings
    from relayctl.worker.poison import Poison
    from relayctl.worker.recovery import Recovery

_LATE_MS = 1000
_DONE = frozenset({PublishVerdict.PUBLISHED, PublishVerdict.DUPLICATE, PublishVerdict.SETTLED, PublishVerdict.PAUSED})


# A server that has just lost everything knows no generation: that settles nothing.
_UNSETTLED = frozenset({PublishVerdict.EARLY, PublishVerdict.UNKNOWN})
Answers = dict[tuple[str, str, int], Publication | BrokerError]
"""By app, schedule and instant."""


class Standing(Enum):
    """How a job stands after a pass."""

    DONE = "done"
    EARLY = "early"  # the broker's clock says not yet
    SUPERSEDED = "superseded"  # the registry knows another definition; look at it before going on
    FAILED = "failed"
    HELD = "held"  # not tried: what may fail cannot be kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Where a job stands: its new cursor, and the error that stopped it."""

    job: Job
    standing: Standing
    cursor: int
    error: BrokerError | None = None


class Publisher:
    """Turns due firings into stream entries."""

    def __init__(
        self,
        stream: Stream,
        token: str,
        emit: Emit,
        passed_over: PassedOverFirings,
        recovery: Recovery,
        poison: Poison | None = None,
    ) -> None:
        """`token` names this process in the published set: the same one hears `published` again. `poison` counts what
        no retry can cure."""
        self._poison = poison
        self._passed_over = passed_over
        self._recovery = recovery
        self._stream = stream
        self._token = token
        self._emit = emit

    def publish(self, passes: Sequence[tuple[Job, Due]], now_ms: int) -> list[Outcome]:
        """Publish the firings of each job in order; never raises a BrokerError, but says whom it stopped."""
        errors = self._passed_over.close(passes, now_ms)
        # The whole gap is taken again, so that what is left out of it is never forgotten.
        held = [(job, errors[job.name]) for job, _ in passes if job.name in errors]
        passes = [(job, due) for job, due in passes if job.name not in errors]
        answers = self._answers(passes, now_ms)
        outcomes = [self._settle(job, due, answers, now_ms) for job, due in passes]
        outcomes += [Outcome(job=job, standing=Standing.FAILED, cursor=job.cursor, error=error) for job, error in held]
        return outcomes

    def _answers(self, passes: Sequence[tuple[Job, Due]], now_ms: int) -> Answers:
        occurrences = [
            Occurrence(
                app=job.app,
                schedule=job.schedule,
                handler=job.handler,
                scheduled_at=from_epoch(at),
                gen=generation.gen,
                by=self._passed_over.by,
                marks=_marks(due, _late_ms(job, at, now_ms)),
            )
            for job, due in passes
            for at, generation in due.firings
        ]
        refused: Answers = {}
        if self._poison is not None:
            found = ((item, self._poison.objection(item)) for item in occurrences)
            refused = {_key(item): error for item, error in found if error is not None}
            occurrences = [item for item in occurrences if _key(item) not in refused]
        if not self._recovery.secure(occurrences):
            return refused
        answers, sent = self._sent(occurrences)
        self._keep(occurrences[:sent], answers)
        return answers | refused

    def _sent(self, occurrences: Sequence[Occurrence]) -> tuple[Answers, int]:
        """What the broker said to each, and how many it was asked about."""
        answers: Answers = {}
        try:
            for item, answer in self._stream.publish(occurrences, self._token, acks=self._recovery.acks):
                answers[_key(item)] = answer
        except BrokerError as error:
            sent = len(answers) + PUBLISH_BATCH
            for item in occurrences:
                answers.setdefault(_key(item), error)
            return answers, sent
        return answers, len(occurrences)

    def _keep(self, tried: Sequence[Occurrence], answers: Answers) -> None:
        """Tell the outbox what failed, and what needs no row any more."""
        if not self._recovery.needs_answers and not any(isinstance(answers[_key(item)], BrokerError) for item in tried):
            return
        failures: list[tuple[Occurrence, BrokerError]] = []
        settled: list[str] = []
        unsafe: list[str] = []
        for item in tried:
            answer = answers[_key(item)]
            if isinstance(answer, BrokerError):
                failures.append((item, answer))
            elif not answer.is_safe and answer.verdict is PublishVerdict.PUBLISHED:
                unsafe.append(item.id)
            elif answer.verdict not in _UNSETTLED:
                settled.append(item.id)
        self._recovery.failed(failures)
        self._recovery.settled(settled, unsafe=unsafe)

    def _settle(self, job: Job, due: Due, answers: Answers, now_ms: int) -> Outcome:
        cursor = job.cursor
        for at, _ in due.firings:
            answer = answers.get((job.app, job.schedule, at))
            if answer is None:
                return Outcome(job=job, standing=Standing.HELD, cursor=cursor)
            if isinstance(answer, BrokerError):
                if self._is_poison(job, at, answer, now_ms):
                    cursor = at
                    continue
                return Outcome(job=job, standing=Standing.FAILED, cursor=cursor, error=answer)
            if answer.verdict is PublishVerdict.EARLY:
                return Outcome(job=job, standing=Standing.EARLY, cursor=cursor)
            if answer.verdict not in _DONE:
                return Outcome(job=job, standing=Standing.SUPERSEDED, cursor=cursor)
            self._tell(job, at, answer, due, now_ms)
            cursor = at
        return Outcome(job=job, standing=Standing.DONE, cursor=max(cursor, due.cursor))

    def _is_poison(self, job: Job, at: int, error: BrokerError, now_ms: int) -> bool:
        """Whether the firing was refused so often that it is closed now, and nothing of it needs to be kept."""
        if self._poison is None or not isinstance(error, ArgumentsRefused):
            return False
        if not self._poison.refused(job.app, job.schedule, at, error.message, now_ms):
            return False
        self._recovery.settled([occurrence_id(job.app, job.schedule, from_epoch(at))])
        return True

    def _tell(self, job: Job, at: int, answer: Publication, due: Due, now_ms: int) -> None:
        if answer.verdict is PublishVerdict.DUPLICATE:
            self._emit(Duplicate(app=job.app, schedule=job.schedule, scheduled_at=from_epoch(at), entry=answer.entry))
        if answer.verdict is not PublishVerdict.PUBLISHED:
            return
        scheduled_at = from_epoch(at)
        late_ms = _late_ms(job, at, now_ms)
        late, marks = timedelta(milliseconds=late_ms), _marks(due, late_ms)
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


def _key(item: Occurrence) -> tuple[str, str, int]:
    return item.app, item.schedule, epoch_seconds(item.scheduled_at)


def _late_ms(job: Job, at: int, now_ms: int) -> int:
    return max(0, now_ms - job.due_ms(at))


def _marks(due: Due, late_ms: int) -> tuple[str, ...]:
    return ("caught_up",) if due.is_catch_up else ("late",) if late_ms > _LATE_MS else ()
