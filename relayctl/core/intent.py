"""Intents to publish that did not succeed at once, as rows of the outbox: their check, their waits, their limits.

It opens no database. A row is data that a crash, a newer version or a hand may have left, so nothing in it is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from relayctl.core.names import is_name
from relayctl.core.occurrence import Occurrence, instant_from_text, instant_text, second_text

ROW_VERSION = 1
MOST_ROWS = 100
"""How many rows one schedule may have before the oldest that surely was not published is given up."""
RETRY_WAITS = (
    timedelta(seconds=5),
    timedelta(seconds=15),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=5),
    timedelta(minutes=10),
)
"""Waits between the rounds of the retrier; the last one repeats without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A firing that this machine tried to publish. `token` is that of the first try: under it a lost answer is heard.

    `attempts` counts tries, `is_ambiguous` says that the answer to one of them was lost, so that it may have won.
    """

    occurrence: Occurrence
    token: str
    is_explicit: bool = False
    attempts: int = 0
    is_ambiguous: bool = False
    first_failed_at: datetime
    last_error: str = ""

    def failed(self, error: str, *, is_ambiguous: bool) -> Intent:
        """After one more failed try."""
        return replace(
            self, attempts=self.attempts + 1, is_ambiguous=self.is_ambiguous or is_ambiguous, last_error=error
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: the intent it holds, or the `trouble` for which it is neither published nor deleted.

    `rounds` counts what the retrier did with it, `next_at` is when it is tried next, `holder` who works on it until
    `held_until`.
    """

    id: str
    intent: Intent | None
    trouble: str = ""
    rounds: int = 0
    next_at: datetime
    holder: str = ""
    held_until: datetime | None = None

    @property
    def wait(self) -> timedelta:
        """How long to wait after this round."""
        return RETRY_WAITS[min(self.rounds, len(RETRY_WAITS) - 1)]


def to_columns(intent: Intent) -> dict[str, Any]:
    """What a row keeps of the intent itself."""
    occurrence = intent.occurrence
    return {
        "id": occurrence.id,
        "v": ROW_VERSION,
        "app": occurrence.app,
        "schedule": occurrence.schedule,
        "handler": occurrence.handler,
        "scheduled_at": instant_text(occurrence.scheduled_at),
        "gen": occurrence.gen,
        "token": intent.token,
        "is_explicit": int(intent.is_explicit),
        "attempts": intent.attempts,
        "is_ambiguous": int(intent.is_ambiguous),
        "first_failed_at": second_text(intent.first_failed_at),
        "last_error": intent.last_error,
        "marks": ",".join(occurrence.marks),
    }


def from_columns(columns: Mapping[str, Any]) -> Intent | str:
    """The intent of a row, or why there is none: a newer version, a broken field, fields that name another firing."""
    version = columns.get("v")
    if not isinstance(version, int) or version < 1:
        return "its version is not a whole number from 1 up"
    if version > ROW_VERSION:
        return f"it was written by a newer relayctl (version {version}, known is {ROW_VERSION})"
    for name in ("app", "schedule", "handler", "token"):
        value = columns.get(name)
        if not isinstance(value, str) or not value:
            return f"{name} is missing or not a text"
    for name in ("app", "schedule"):
        if not is_name(columns[name]):
            return f"{name} is not a name"
    for name in ("gen", "attempts"):
        if not _is_count(columns.get(name)):
            return f"{name} is not a whole number"
    at = instant_from_text(str(columns.get("scheduled_at")))
    if at is None:
        return "scheduled_at is not of the form 2026-09-29T03:00:00Z"
    failed_at = _instant(columns.get("first_failed_at"))
    if failed_at is None:
        return "first_failed_at is not an instant"
    occurrence = Occurrence(
        app=columns["app"],
        schedule=columns["schedule"],
        handler=columns["handler"],
        scheduled_at=at,
        gen=columns["gen"],
        marks=tuple(mark for mark in str(columns.get("marks") or "").split(",") if mark),
    )
    if occurrence.id != columns.get("id"):
        return f"its fields name another firing, {occurrence.id}"
    return Intent(
        occurrence=occurrence,
        token=columns["token"],
        is_explicit=bool(columns.get("is_explicit")),
        attempts=columns["attempts"],
        is_ambiguous=bool(columns.get("is_ambiguous")),
        first_failed_at=failed_at,
        last_error=str(columns.get("last_error") or ""),
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _instant(value: object) -> datetime | None:
    return instant_from_text(value) if isinstance(value, str) else None
