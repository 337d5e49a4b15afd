"""A dead letter: an invocation that used up its attempts, or an entry that can never run. Values and filters only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from relayctl.core.lifecycle import Slot

DEAD_LETTER_VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One letter. `event` is the whole event of one that can be replayed, else its beginning; `size` is its length.

    `replaying` is the message of a replay that is not over. What the letter does not say is empty.
    """

    id: str
    at: datetime
    version: int
    app: str
    slot: str
    handler: str
    message: str
    scheduled_at: str
    reason: str
    detail: str
    attempts: int
    worker: str
    descriptor: str
    event: str
    size: int
    is_replayable: bool
    replaying: str = ""

    @property
    def schedule(self) -> str:
        """The schedule meant, or empty."""
        return (Slot(self.slot).schedule or "") if self.slot else ""

    @property
    def target(self) -> str:
        """What did not run: `app/schedule@instant`, `app/schedule` of a manual run, `app/handler`; empty if unknown."""
        if not self.app:
            return ""
        name = f"{self.app}/{self.schedule or self.handler or self.slot}"
        return f"{name}@{self.scheduled_at}" if self.scheduled_at else name

    @property
    def is_newer(self) -> bool:
        """Whether a newer relayctl wrote it, so that it cannot be judged here."""
        return self.version > DEAD_LETTER_VERSION


def letter_of(entry: str, fields: Mapping[str, str], replaying: str = "") -> DeadLetter:
    """Read an entry of the dead-letter stream; what is damaged in it is shown as empty."""
    event = fields.get("event") or fields.get("head", "")
    return DeadLetter(
        id=entry,
        at=_EPOCH + timedelta(milliseconds=_number(entry.partition("-")[0])),
        version=_number(fields.get("v", "")),
        app=fields.get("app", ""),
        slot=fields.get("slot", ""),
        handler=fields.get("handler", ""),
        message=fields.get("message", ""),
        scheduled_at=fields.get("scheduled_at", ""),
        reason=fields.get("reason", ""),
        detail=fields.get("detail", ""),
        attempts=_number(fields.get("attempts", "")),
        worker=fields.get("worker", ""),
        descriptor=fields.get("descriptor", ""),
        event=event,
        size=_number(fields.get("size", "")) or len(event.encode(errors="surrogateescape")),
        is_replayable=fields.get("replayable") == "1",
        replaying=replaying,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters are meant; empty and None mean any. `since` is the earliest instant of a letter."""

    app: str = ""
    schedule: str = ""
    handler: str = ""
    reason: str = ""
    since: datetime | None = None

    def accepts(self, letter: DeadLetter) -> bool:
        """Whether the letter is meant."""
        return (
            self.app in {"", letter.app}
            and self.schedule in {"", letter.schedule}
            and self.handler in {"", letter.handler}
            and self.reason in {"", letter.reason}
            and (self.since is None or letter.at >= self.since)
        )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
