"""A run of a handler on this machine, with no worker and no broker: what event it gets, and how its output is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayctl.core.model import App, Contract, Schedule
from relayctl.core.occurrence import Occurrence, instant_text

if TYPE_CHECKING:
    from relayctl.runners.invocation import Ended
    from relayctl.settings import Settings

MESSAGE = "local"
"""Stands where a worker gives the id of the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is run: a handler with its contract, for a schedule's occurrence or for an event as such."""

    app: App
    directory: Path
    contract: Contract
    event: str
    occurrence: Occurrence | None = None

    @property
    def label(self) -> str:
        """`app/handler`."""
        return f"{self.app.name}/{self.contract.handler}"


def trial_of(app: App, directory: Path, name: str, event: str | None, now: datetime) -> Trial | None:
    """The trial of a schedule or a handler by that name; None when the app has neither."""
    schedule = app.schedule(name)
    if schedule is not None:
        occurrence = _occurrence(app, schedule, now)
        payload = event if event is not None else occurrence.to_payload(schedule.input)
        return Trial(app=app, directory=directory, contract=schedule.contract, event=payload, occurrence=occurrence)
    named: list[Contract] = [rule.contract for rule in app.events] + [item.contract for item in app.schedules]
    contracts = [contract for contract in named if contract.handler == name]
    if not contracts:
        return None
    return Trial(app=app, directory=directory, contract=contracts[0], event=event if event is not None else "{}")


def run_trial(trial: Trial, settings: Settings, show: Callable[[str, str], None]) -> Ended:
    """Run it to its end; `show(stream, line)` gets each line of output, made harmless and with secrets masked."""
    from relayctl.host.clock import SystemClock
    from relayctl.host.secrets import SecretStore
    from relayctl.host.state import StateDir
    from relayctl.runners.build import Build
    from relayctl.runners.environ import base_environ
    from relayctl.runners.invocation import Run
    from relayctl.runners.once import run_once

    clock = SystemClock()
    contract = trial.contract
    timeout = min(contract.timeout, settings.max_timeout)
    own = "template" if contract.has_own_timeout else "default"
    run = Run(
        key=f"{MESSAGE}|{contract.handler}",
        app=trial.app.name,
        handler=contract.handler,
        stdin=trial.event.encode(),
        variables=_variables(trial, clock.now() + timeout),
        timeout_s=timeout.total_seconds(),
        label=f"{trial.label}@{MESSAGE}",
        timeout_from=own if timeout == contract.timeout else "cap",
    )
    return run_once(
        Build.of(trial.app, trial.directory.resolve(), MESSAGE),
        run,
        clock=clock,
        secrets=SecretStore(settings.secrets_dir, StateDir(settings.state_dir).secrets).resolve,
        on_line=lambda _run, stream, line: show(stream, line),
        base_environ=base_environ(),
    )


def as_document(trial: Trial, ended: Ended) -> dict[str, Any]:
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


def _occurrence(app: App, schedule: Schedule, now: datetime) -> Occurrence:
    # The firing that a worker would be at: the latest one, or the next where there was none yet.
    at = schedule.trigger.latest_at_or_before(now) or schedule.trigger.next_after(now) or now.replace(microsecond=0)
    return Occurrence(app=app.name, schedule=schedule.name, handler=schedule.contract.handler, scheduled_at=at, gen=0)


def _variables(trial: Trial, deadline: datetime) -> dict[str, str]:
    found = {
        "RELAY_APP": trial.app.name,
        "RELAY_HANDLER": trial.contract.handler,
        "RELAY_ATTEMPT": "1",
        "RELAY_MESSAGE_ID": MESSAGE,
        "RELAY_DEADLINE": instant_text(deadline.replace(microsecond=0)),
    }
    if trial.occurrence is not None:
        found["RELAY_SCHEDULE"] = trial.occurrence.schedule
        found["RELAY_OCCURRENCE_ID"] = trial.occurrence.id
        found["RELAY_SCHEDULED_AT"] = instant_text(trial.occurrence.scheduled_at)
    return found
