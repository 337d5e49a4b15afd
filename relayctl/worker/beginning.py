"""What a claim becomes when it begins: the run for the pool, and the fact that is told of it. It starts nothing."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from relayctl.core.facts import RunStarted
from relayctl.core.lifecycle import Claim, run_variables
from relayctl.core.occurrence import from_epoch, instant_from_text, instant_text
from relayctl.runners.invocation import Run


def run_of(claim: Claim, now_s: float) -> Run:
    """The run of a claim that begins now, in seconds since 1970: its deadline counts from here."""
    descriptor = claim.descriptor
    timeout_s = descriptor.timeout_ms / 1000
    return Run(
        key=claim.key,
        app=claim.app,
        handler=descriptor.handler,
        stdin=claim.payload().encode(),
        variables=run_variables(
            app=claim.app,
            handler=descriptor.handler,
            attempt=claim.attempt,
            message=claim.message,
            deadline=_instant_text(int(now_s + timeout_s)),
            schedule=descriptor.schedule,
            firing=claim.occurrence,
        ),
        timeout_s=timeout_s,
        label=f"{claim.app}/{descriptor.handler}@{claim.message}",
        timeout_from=descriptor.timeout_from,
    )


def started_fact(claim: Claim) -> RunStarted:
    """What to tell of it."""
    return RunStarted(
        app=claim.app,
        handler=claim.descriptor.handler,
        message=claim.message,
        attempt=claim.attempt,
        schedule=claim.descriptor.schedule,
        scheduled_at=scheduled_at(claim),
    )


def scheduled_at(claim: Claim) -> datetime | None:
    """The instant that an occurrence's claim is for."""
    text = claim.scheduled_at
    return instant_from_text(text) if text else None


@lru_cache(maxsize=64)
def _instant_text(second: int) -> str:
    """RFC 3339; the deadlines of runs that begin in the same second are alike."""
    return instant_text(from_epoch(second))
