"""Operators' acts on schedules as a worker meets them: tells each once, and ends the pauses whose time is over.

Of the fleet one worker does either, whichever comes first. It pauses and resumes nothing of its own accord.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from relayctl.core.definition import Firing
from relayctl.core.facts import ControlUsed, Emit
from relayctl.errors import BrokerRefused

if TYPE_CHECKING:
    from relayctl.store.controls import Controls
    from relayctl.store.definitions import Head
    from relayctl.worker.agenda import Name


class Acts:
    """Used by the reconciler's thread alone."""

    def __init__(
        self, controls: Controls | None, worker: str, emit: Emit, is_unreadable: Callable[[Name], bool]
    ) -> None:
        """`is_unreadable` looks whether the broker refuses a schedule for its record, which stops that one alone."""
        self._controls = controls
        self._worker = worker
        self._emit = emit
        self._is_unreadable = is_unreadable
        self._untold: set[Name] = set()

    def note(self, head: Head) -> None:
        """What this head says of acts that nobody has told yet."""
        if head.is_untold:
            self._untold.add((head.app, head.schedule))

    def tell(self) -> None:
        """Tell what operators did. Raises BrokerError, and keeps what is left for the next time."""
        while self._untold and self._controls is not None:
            app, schedule = name = next(iter(self._untold))
            try:
                acts = self._controls.take_untold(app, schedule)
            except BrokerRefused:
                if not self._is_unreadable(name):
                    raise
                acts = []
            for act in acts:
                self._emit(ControlUsed(action=act.action, target=f"{app}/{schedule}", by=act.by, reason=act.reason))
            self._untold.discard(name)

    def end_pauses(self, heads: Mapping[Name, Head], now_ms: int) -> tuple[list[Name], list[Name]]:
        """End the pauses that had an end and are over: all that were, and those of them that were ended here."""
        over = [
            name
            for name, head in heads.items()
            if head.paused_until is not None
            and head.paused_until * 1000 <= now_ms
            # What it covered cannot be counted with another evaluator or other zone data.
            and Firing.from_spec(head.spec).is_comparable
        ]
        if not over or self._controls is None:
            return [], []
        ended = []
        for app, schedule in over:
            try:
                self._controls.resume(app, schedule, by=self._worker, only_ended=True)
            except BrokerRefused:
                if not self._is_unreadable((app, schedule)):
                    raise
                continue
            ended.append((app, schedule))
        return over, ended
