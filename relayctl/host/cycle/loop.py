"""One job again and again in one thread: on an interval with some spread, on demand, and after pauses of its own wish.

It never runs the job twice at once and never catches up on what it missed. Other processes are not its business.
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
"""So far from the interval, as a share of it, a pause may lie: processes that began together do not stay together."""
LONGEST_WAIT_S = 3600.0

IsOver = Callable[[], bool]
Job = Callable[[IsOver], float | None]
"""Does the work once, and gives up when what it is handed says so. How long to wait for the next time, in seconds, or
None for the interval."""


def jittered(seconds: float, share: float, spread: float = SPREAD) -> float:
    """`seconds`, moved by up to `spread` of it; `share`, from -1 to 1, says how far and which way."""
    return seconds * (1 + spread * share)


def evenly() -> float:
    """Any share, each as likely as the others."""
    return random.uniform(-1, 1)  # noqa: S311  not for secrecy


class Loop:
    """`run` is the body of a thread of its own; `demand` and `wake` may be called from anywhere.

    Demands that come while the job runs lead to one more time, not to one each.
    """

    def __init__(
        self,
        job: Job,
        *,
        interval: timedelta | None,
        clock: Clock,
        first_s: float | None = 0.0,
        apart_s: float = 0.0,
        is_called: Callable[[], bool] = lambda: False,
        look_s: float = LONGEST_WAIT_S,
        share: Callable[[], float] = evenly,
    ) -> None:
        """Without an `interval` it runs on demand only. The first time comes after `first_s`, None for an interval;
        two times are `apart_s` apart at least. While it waits, it asks `is_called` every `look_s`."""
        self._job = job
        self._interval_s = float("inf") if interval is None else interval.total_seconds()
        self._clock = clock
        self._apart_s = apart_s
        self._is_called = is_called
        self._look_s = look_s
        self._share = share
        self._wake = threading.Event()
        self._is_demanded = False
        self._next_at = clock.monotonic() + (self._pause_s(None) if first_s is None else first_s)

    def demand(self) -> None:
        """Run soon."""
        self._is_demanded = True
        self._wake.set()

    def wake(self) -> None:
        """Come out of a wait."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Go on until `stop` is set; whoever sets it also calls `wake`."""
        while not stop.is_set():
            left = self._next_at - self._clock.monotonic()
            if left > 0 and not self._is_demanded:
                self._clock.wait(self._wake, min(left, self._look_s))
                self._wake.clear()
                if self._is_called():
                    self._is_demanded = True
                continue
            # Before the job begins: a demand that comes now must see another one begin.
            self._is_demanded = False
            wanted_s = self._job(stop.is_set)
            self._next_at = self._clock.monotonic() + self._pause_s(wanted_s)
            if self._apart_s:
                self._clock.wait(stop, self._apart_s)

    def _pause_s(self, wanted_s: float | None) -> float:
        return jittered(self._interval_s if wanted_s is None else wanted_s, self._share())
