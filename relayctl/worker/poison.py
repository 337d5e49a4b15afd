"""Publications that no retry can cure: counted for the whole fleet, and after ten in a row the firing is closed.

A broker that is away, is short of something or forbids a command never counts: that says nothing of the firing.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from relayctl.core.account import POISON, Closing, Span
from relayctl.core.facts import Emit, Missed
from relayctl.core.lifecycle import Verdict
from relayctl.core.occurrence import from_epoch
from relayctl.errors import ArgumentsRefused, BrokerError, BrokerRefused
from relayctl.store.closings import Wish

if TYPE_CHECKING:
    from relayctl.core.occurrence import Occurrence
    from relayctl.store.closings import Closings
    from relayctl.store.controls import Controls

MOST_REFUSALS = 10
"""How many in a row close a firing."""


class Poison:
    """Used by the tick loop alone. A broker that fails meanwhile leaves the count as it was."""

    def __init__(self, *, controls: Controls, closings: Closings, token: str, max_bytes: int, emit: Emit) -> None:
        """`token` names this process, `max_bytes` is the largest event that is taken from the stream."""
        self._controls = controls
        self._closings = closings
        self._token = token
        self._max_bytes = max_bytes
        self._emit = emit
        self._numbers = itertools.count(1)

    def objection(self, occurrence: Occurrence) -> ArgumentsRefused | None:
        """Why this occurrence cannot be published at all."""
        size = len(occurrence.to_envelope().encode())
        if size <= self._max_bytes:
            return None
        return ArgumentsRefused(f"its envelope has {size} bytes, at most {self._max_bytes} are taken")

    def refused(self, app: str, schedule: str, at: int, reason: str, now_ms: int) -> bool:
        """Count a refusal of that firing; whether it is closed now, so that the schedule goes on behind it."""
        try:
            count = self._controls.refused(app, schedule, reason, f"{self._token}.{next(self._numbers)}")
            if count < MOST_REFUSALS:
                return False
            closing = Closing(span=Span(first=at, last=at, count=1), verdict=Verdict.MISSED, reason=POISON)
            wish = Wish(app=app, schedule=schedule, closing=closing, narrow=lambda _after, _until: None)
            [closed] = self._closings.close([wish], now_ms=now_ms)
            if isinstance(closed, BrokerRefused):
                return False
            self._controls.forget_refusals(app, schedule)
        except BrokerError:
            return False
        if closed:
            instant = from_epoch(at)
            self._emit(
                Missed(
                    app=app, schedule=schedule, first_at=instant, last_at=instant, count=1, reason=f"{POISON}: {reason}"
                )
            )
        return True
