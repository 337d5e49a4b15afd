"""When a source that must be fetched is asked: on an interval, on demand, and after failures with growing pauses.

What is fetched, and what is made of it, is the source's business.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

SPREAD = 0.1
LONGEST_PAUSE_S = 300.0
_FIRST_PAUSE_S = 5.0
_APART_S = 1.0
"""Between two fetches, however many demands there are."""

Pull = Callable[[Callable[[], bool]], bool]
"""Asks once, and gives up when what it is handed says so; whether that went well."""


class Puller:
    """`run` is the body of a thread of its own; `demand` and `wake` may be called from anywhere.

    Demands that come while it asks lead to one more time, not to one each.
    """

    def __init__(
        self,
        pull: Pull,
        *,
        interval: timedelta | None,
        clock: Clock,
        is_fresh: bool,
        longest_s: float = LONGEST_PAUSE_S,
    ) -> None:
        """Without an `interval` it asks on demand only. `is_fresh` says that it was asked a moment ago, `longest_s` how
        long the pauses may grow."""
        self._longest_s = longest_s
        self._pull = pull
        self._interval_s = None if interval is None else interval.total_seconds()
        self._clock = clock
        self._wake = threading.Event()
        self._is_demanded = False
        self._failures = 0
        self._next_at = clock.monotonic() + (self._pause_s() if is_fresh else 0.0)

    def demand(self) -> None:
        """Ask soon."""
        self._is_demanded = True
        self._wake.set()

    def wake(self) -> None:
        """Come out of a wait."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Go on until `stop` is set; a fetch that is under way is given up then."""
        while not stop.is_set():
            left = self._next_at - self._clock.monotonic()
            if left > 0 and not self._is_demanded:
                self._clock.wait(self._wake, min(left, 3600.0))
                self._wake.clear()
                continue
            self._is_demanded = False
            self._failures = 0 if self._pull(stop.is_set) else self._failures + 1
            self._next_at = self._clock.monotonic() + self._pause_s()
            self._clock.wait(stop, _APART_S)

    def _pause_s(self) -> float:
        pause = float("inf") if self._interval_s is None else self._interval_s
        if self._failures:
            longest = max(self._interval_s or 0.0, self._longest_s)
            pause = min(_FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 20), longest)
        return pause * (1 + random.uniform(-SPREAD, SPREAD))  # noqa: S311  not for secrecy
