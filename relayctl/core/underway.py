"""One run that has not ended yet, as history shows it ahead of its records. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from relayctl.core.record import message_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Underway:
    """A run whose end is not on record. `state` is running, retrying (its last attempt failed) or waiting.

    `scheduled_at` is None for an event's run, `due_at` for one that runs. `started_at`, `reason` and `worker` are of
    its last attempt, as far as anything of it is kept.
    """

    state: str
    kind: str
    message: str
    handler: str = ""
    scheduled_at: datetime | None = None
    attempts: int = 0
    attempts_allowed: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    due_at: datetime | None = None
    reason: str = ""
    worker: str = ""

    @property
    def published_at(self) -> datetime | None:
        """When its message was appended."""
        return message_time(self.message)

    def took(self, now: datetime) -> timedelta | None:
        """How long its last attempt ran, or has run up to `now`; never negative."""
        if self.started_at is None:
            return None
        return max((self.finished_at or now) - self.started_at, timedelta(0))
