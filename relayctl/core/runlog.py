"""One run and what is kept of its output, as an operator asks for it; and what is new of it since the last look.

Values only: finding the run is the business of `store.logs`, words that of `render.logs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import Enum

from relayctl.core.lifecycle import Slot
from relayctl.core.occurrence import instant_text
from relayctl.core.output import KeptOutput
from relayctl.core.record import Record
from relayctl.core.verdict import Judgement


class Absence(Enum):
    """Why nothing is kept of a run."""

    NEVER_RAN = "never ran"
    NOT_BEGUN = "not begun"
    NOT_YET = "not yet"  # it runs, and has told nothing so far
    SILENT = "silent"  # it printed nothing, or its worker keeps nothing
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """A run by its message, empty where none was published, with the attempts of which output is kept, in order.

    `state` is awaited (not published yet), waiting, running, retrying or over. `name` is that of its schedule or
    handler, `zone` the schedule's. `older_ms` is when the oldest output that could tell of it was written, None where
    none is kept.
    """

    app: str
    name: str
    slot: Slot
    message: str
    scheduled_at: datetime | None = None
    attempts: tuple[KeptOutput, ...] = ()
    state: str = "over"
    begun: int = 0
    record: Record | None = None
    judgement: Judgement | None = None
    zone: tzinfo = UTC
    older_ms: int | None = None

    @property
    def target(self) -> str:
        """What it is asked for by: `app/name@instant`, or `app/name@message`."""
        at = None if self.scheduled_at is None or self.slot.text[0] == "!" else self.scheduled_at
        return f"{self.app}/{self.name}@{self.message if at is None else instant_text(at)}"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state == "over"

    @property
    def handler(self) -> str:
        """What ran, as far as that is known."""
        if self.attempts:
            return self.attempts[-1].handler
        return (self.record.handler if self.record else "") or ("" if self.slot.schedule else self.slot.text)

    @property
    def absence(self) -> Absence:
        """Why there are no attempts here."""
        record = self.record
        if not self.is_over:
            return Absence.NOT_YET if self.state == "running" else Absence.NOT_BEGUN
        if not self.message or (record is not None and record.started_at is None and not record.attempts):
            return Absence.NEVER_RAN
        if record is None or record.finished_at is None:
            return Absence.GONE
        is_older = self.older_ms is not None and record.finished_at.timestamp() * 1000 < self.older_ms
        return Absence.GONE if is_older or record.verdict != "succeeded" else Absence.SILENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines of one attempt: the number of the first, from 0, and how many before them are not kept."""

    kept: KeptOutput
    first: int
    texts: tuple[str, ...]
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Began:
    """An attempt is told of for the first time."""

    kept: KeptOutput


@dataclass(frozen=True, slots=True)
class Over:
    """An attempt has ended."""

    kept: KeptOutput


News = Began | Lines | Over


class Follower:
    """Remembers what was told of a run. A line is told once, when it has ended or its attempt has."""

    def __init__(self, attempt: int | None = None, *, is_only_look: bool = False) -> None:
        """With `attempt`, of the attempts of that number alone. An only look tells a line that has not ended, too."""
        self._attempt = attempt
        self._is_only_look = is_only_look
        self._told: dict[str, int] = {}
        self._over: set[str] = set()

    def news(self, run: RunLog) -> Iterator[News]:
        """What this look at the run adds to those before."""
        for kept in run.attempts:
            if kept.name in self._over or self._attempt not in {None, kept.attempt}:
                continue
            if kept.name not in self._told:
                self._told[kept.name] = 0
                yield Began(kept)
            yield from self._lines(kept)
            if not kept.is_running:
                self._over.add(kept.name)
                yield Over(kept)

    def _lines(self, kept: KeptOutput) -> Iterator[Lines]:
        texts = kept.text.split("\n")
        is_whole = not kept.is_running or self._is_only_look
        if not (is_whole and texts[-1]):
            texts.pop()
        told, first = self._told[kept.name], kept.first_line
        fresh = texts[max(0, told - first) :]
        if fresh:
            self._told[kept.name] = first + len(texts)
            yield Lines(kept=kept, first=max(told, first), texts=tuple(fresh), missing=max(0, first - told))
