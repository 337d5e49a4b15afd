"""Tells of schedules whose record in the broker is not what relayctl wrote, each once and then every ten minutes.

It decides nothing: whoever meets such a record goes on with the others. May be used by several threads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, ScheduleUnreadable

if TYPE_CHECKING:
    from relayctl.errors import BrokerRefused
    from relayctl.host.clock import Clock
    from relayctl.worker.agenda import Name

AGAIN_S = 600.0


class Unreadable:
    """What was told of one worker's schedules, and when."""

    def __init__(self, clock: Clock, emit: Emit) -> None:
        self._clock = clock
        self._emit = emit
        self._lock = threading.Lock()
        self._told: dict[Name, float] = {}

    def tell(self, refusals: Mapping[Name, BrokerRefused]) -> None:
        """Tell of those that were not told of lately."""
        now = self._clock.monotonic()
        with self._lock:
            self._told = {name: at for name, at in self._told.items() if now - at < AGAIN_S}
            news = [name for name in refusals if name not in self._told]
            self._told |= dict.fromkeys(news, now)
        for app, schedule in news:
            error = refusals[app, schedule]
            self._emit(ScheduleUnreadable(app=app, schedule=schedule, reason=f"{error.message}; {error.help}"))
