"""When a source that must be fetched is asked: on an interval, on demand, and after failures with growing pauses.

What is fetched, and what is made of it, is the source's business.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.host.cycle.loop import LONGEST_WAIT_S, SPREAD, Loop

if TYPE_CHECKING:
    import threading

    from relayctl.host.clock import Clock
    from relayctl.host.cycle.loop import IsOver

LONGEST_PAUSE_S = 300.0
_FIRST_PAUSE_S = 5.0
_APART_S = 1.0
"""Between two fetches, however many demands there are."""
_LOOK_S = 1.0

Pull = Callable[[Callable[[], bool]], bool]
"""Asks once, and gives up when what it is handed says so; whether that went well."""

__all__ = ["LONGEST_PAUSE_S", "SPREAD", "Pull", "Puller"]


class Puller:
    """`run` is the body of a thread of its own; `demand` and `wake` may be called from anywhere."""

    def __init__(
        self,
        pull: Pull,
        *,
        interval: timedelta | None,
        clock: Clock,
        first_s: float | None = 0.0,
        longest_s: float = LONGEST_PAUSE_S,
        has_news: Callable[[], bool] | None = None,
    ) -> None:
        """Without an `interval` it asks on demand only. `first_s` is the time until the first time, None for an
        interval; `longest_s` how long the pauses may grow. `has_news` says that a peer has fetched something."""
        self._pull = pull
        self._interval_s = 0.0 if interval is None else interval.total_seconds()
        self._longest_s = max(self._interval_s, longest_s)
        self._failures = 0
        self._loop = Loop(
            self._once,
            interval=interval,
            clock=clock,
            first_s=first_s,
            apart_s=_APART_S,
            is_called=has_news or (lambda: False),
            look_s=LONGEST_WAIT_S if has_news is None else _LOOK_S,
        )

    def demand(self) -> None:
        """Ask soon."""
        self._loop.demand()

    def wake(self) -> None:
        """Come out of a wait."""
        self._loop.wake()

    def run(self, stop: threading.Event) -> None:
        """Go on until `stop` is set; a fetch that is under way is given up then."""
        self._loop.run(stop)

    def _once(self, is_over: IsOver) -> float | None:
        self._failures = 0 if self._pull(is_over) else self._failures + 1
        if not self._failures:
            return None
        return float(min(_FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 20), self._longest_s))
