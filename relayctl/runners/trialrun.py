"""A trial as the pool takes it, and how it ended as a document: the same with and without a worker."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from relayctl.core.lifecycle import run_variables
from relayctl.core.occurrence import instant_text, second_text
from relayctl.core.trial import Trial
from relayctl.runners.invocation import Ended, Run


def run_of_trial(trial: Trial, message: str, now: datetime, cap: timedelta) -> Run:
    """The run; `message` stands where other runs name their entry of the stream, `cap` bounds the timeout."""
    contract = trial.contract
    timeout = min(contract.timeout, cap)
    own = "template" if contract.has_own_timeout else "default"
    firing = trial.occurrence
    return Run(
        key=f"{message}|{contract.handler}",
        app=trial.app.name,
        handler=contract.handler,
        stdin=trial.event.encode(),
        variables=run_variables(
            app=trial.app.name,
            handler=contract.handler,
            attempt=1,
            message=message,
            deadline=second_text(now + timeout),
            schedule=None if firing is None else firing.schedule,
            firing=None if firing is None else (firing.id, instant_text(firing.scheduled_at)),
        ),
        timeout_s=timeout.total_seconds(),
        label=f"{trial.label}@{message}",
        timeout_from=own if timeout == contract.timeout else "cap",
    )


def trial_document(trial: Trial, ended: Ended) -> dict[str, Any]:
    """How it ended, for programs."""
    return {
        "v": 1,
        "app": trial.app.name,
        "handler": trial.contract.handler,
        "occurrence_id": trial.occurrence.id if trial.occurrence else None,
        "outcome": ended.outcome.value,
        "reason": ended.reason,
        "exit_code": ended.exit_code,
        "duration_s": round(ended.duration_s, 3),
        "output": ended.output_tail.decode("utf-8", "replace"),
    }
