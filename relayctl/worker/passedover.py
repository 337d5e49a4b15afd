"""Closes what catch-up passes over as missed, with its reason, before the rest of the gap is published.

Before, because a later firing in the stream would tell every peer that the gap is done with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relayctl.core.account import Closing, span_between
from relayctl.core.facts import Emit, PassedOver
from relayctl.core.lifecycle import Verdict
from relayctl.core.occurrence import from_epoch
from relayctl.errors import BrokerError, BrokerRefused
from relayctl.store.closings import Wish

if TYPE_CHECKING:
    from relayctl.core.due import Due
    from relayctl.store.closings import Closings
    from relayctl.worker.agenda import Job, Name


class PassedOverFirings:
    """Used by the tick loop alone."""

    def __init__(self, closings: Closings, emit: Emit) -> None:
        self._closings = closings
        self._emit = emit
        self.by = closings.by
        """The worker for which this publishes and closes."""

    def close(self, passes: Sequence[tuple[Job, Due]], now_ms: int) -> dict[Name, BrokerError]:
        """Close what these passes leave out, and tell what was not closed before; whose was not closed, and why."""
        wishes = [(job, wish) for job, due in passes if due.passed_over for wish in _wishes(job, due)]
        if not wishes:
            return {}
        try:
            counts = self._closings.close([wish for _, wish in wishes], now_ms=now_ms)
        except BrokerError as error:
            return {job.name: error for job, due in passes if due.passed_over}
        failed: dict[Name, BrokerError] = {}
        for (job, wish), count in zip(wishes, counts, strict=True):
            if isinstance(count, BrokerRefused):
                failed[job.name] = count
            elif count:
                self._tell(job, wish.closing, count)
        return failed

    def _tell(self, job: Job, closing: Closing, count: int) -> None:
        self._emit(
            PassedOver(
                app=job.app,
                schedule=job.schedule,
                first_at=from_epoch(closing.span.first),
                last_at=from_epoch(closing.span.last),
                policy=job.catch_up.value,
                count=count,
                reason=closing.reason,
            )
        )


def _wishes(job: Job, due: Due) -> list[Wish]:
    timeline = job.timeline
    found = []
    for (first, last), reason in zip(due.passed_over, due.passed_because, strict=True):
        span = span_between(timeline, first - 1, last)
        if span is not None:
            found.append(
                Wish(
                    app=job.app,
                    schedule=job.schedule,
                    closing=Closing(span=span, verdict=Verdict.MISSED, reason=reason),
                    narrow=lambda after, until: span_between(timeline, after, until),
                )
            )
    return found
