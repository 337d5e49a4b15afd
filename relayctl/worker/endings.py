"""The end of a run as the broker records it, and as the fact that is told of it. It asks and decides nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.facts import Fact, LeaseLost, RunEnded, RunFailed, RunInterrupted
from relayctl.core.output import look_command
from relayctl.runners.invocation import Outcome
from relayctl.store.invocations import Attempt, EndVerdict
from relayctl.worker.beginning import scheduled_at
from relayctl.worker.ledger import Finished, is_charged

if TYPE_CHECKING:
    from relayctl.worker.printing import Printing


def attempt_of(item: Finished, worker: str, printing: Printing) -> Attempt:
    """What goes on record of an attempt that this worker made."""
    ended = item.ended
    exit_text = f"signal {ended.signal}" if ended.signal else "" if ended.exit_code is None else str(ended.exit_code)
    outcome = "released" if not is_charged(ended) else "succeeded" if ended.outcome is Outcome.SUCCEEDED else "failed"
    return Attempt(
        outcome=outcome,
        reason=ended.reason,
        exit=exit_text,
        started_ms=item.started_ms,
        finished_ms=item.finished_ms,
        worker=worker,
        output=printing.at_end(item, outcome, exit_text),
        is_silent=outcome == "succeeded" and not ended.output_bytes,
    )


def fact_of(item: Finished, verdict: EndVerdict, retry_in: timedelta | None) -> Fact:
    """What to tell of an end that the broker has answered."""
    claim, ended = item.claim, item.ended
    handler, schedule = claim.descriptor.handler, claim.descriptor.schedule
    if verdict is EndVerdict.RELEASED:
        return RunInterrupted(app=claim.app, handler=handler, message=claim.message, attempt=claim.attempt)
    if verdict is EndVerdict.LOST:
        return LeaseLost(app=claim.app, handler=handler, message=claim.message, attempt=claim.attempt)
    took = timedelta(seconds=ended.duration_s)
    if ended.outcome is Outcome.SUCCEEDED:
        return RunEnded(
            app=claim.app,
            handler=handler,
            message=claim.message,
            attempt=claim.attempt,
            took=took,
            schedule=schedule,
            scheduled_at=scheduled_at(claim),
        )
    return RunFailed(
        app=claim.app,
        handler=handler,
        message=claim.message,
        attempt=claim.attempt,
        attempts=claim.descriptor.attempts,
        reason=ended.reason,
        took=took,
        look=look_command(claim.app, claim.slot, claim.message, claim.scheduled_at),
        retry_in=retry_in,
        schedule=schedule,
        scheduled_at=scheduled_at(claim),
    )
