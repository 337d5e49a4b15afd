"""A run of a handler that somebody asks for by name: which contract it is, and what event it gets.

It belongs to no message and leaves nothing in the account; where it runs is decided by others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from relayctl.core.jsontext import parse_json
from relayctl.core.model import App, Contract, Schedule
from relayctl.core.occurrence import Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is run: a handler with its contract, for a schedule's occurrence or for an event as such."""

    app: App
    contract: Contract
    event: str = field(repr=False)
    occurrence: Occurrence | None = None

    @property
    def label(self) -> str:
        """`app/handler`."""
        return f"{self.app.name}/{self.contract.handler}"


def trial_of(app: App, name: str, event: str | None, now: datetime) -> Trial | None:
    """The trial of a schedule or a handler by that name; None when the app has neither."""
    schedule = app.schedule(name)
    if schedule is not None:
        occurrence = _occurrence(app, schedule, now)
        payload = event if event is not None else occurrence.to_payload(schedule.input)
        return Trial(app=app, contract=schedule.contract, event=payload, occurrence=occurrence)
    named: list[Contract] = [rule.contract for rule in app.events] + [item.contract for item in app.schedules]
    contracts = [contract for contract in named if contract.handler == name]
    if not contracts:
        return None
    return Trial(app=app, contract=contracts[0], event=event if event is not None else "{}")


def trial_names(app: App) -> list[str]:
    """What `trial_of` knows by name: schedules first, then handlers."""
    return [*(schedule.name for schedule in app.schedules), *sorted(app.handlers())]


def is_event(text: str) -> bool:
    """Whether the text can be an event: one JSON object, with nothing in it that JSON does not have."""
    try:
        return isinstance(parse_json(text), dict)
    except (ValueError, RecursionError):
        return False


def _occurrence(app: App, schedule: Schedule, now: datetime) -> Occurrence:
    # The firing that a worker would be at: the latest one, or the next where there was none yet.
    at = schedule.trigger.latest_at_or_before(now) or schedule.trigger.next_after(now) or now.replace(microsecond=0)
    return Occurrence(app=app.name, schedule=schedule.name, handler=schedule.contract.handler, scheduled_at=at, gen=0)
