"""The one place that reads a clock: wall time, monotonic time and waiting, as one object that is handed around.

`HeldClock` is for tests: its time passes only when told to. Neither schedules anything.
"""

from __future__ import annotations

import threading
import time as _time
from datetime import UTC, datetime, timedelta
from typing import Protocol

# How often a thread blocked on a held clock looks at its event, in real seconds.
_HELD_POLL_S = 0.005
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """What loops and stores ask for the time. `now` and `time` may step; `monotonic` never goes back."""

    def now(self) -> datetime:
        """Wall time as an aware UTC datetime."""
        ...

    def time(self) -> float:
        """Wall time in seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; for measuring, never for identity."""
        ...

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Block until `event` is set (True) or `timeout` seconds of this clock have passed (False)."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def time(self) -> float:
        return _time.time()

    def monotonic(self) -> float:
        return _time.monotonic()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        return event.wait(min(max(timeout, 0.0), threading.TIMEOUT_MAX))


class HeldClock:
    """A clock that stands still until `advance` moves it; real threads blocked in `wait` are then released."""

    __slots__ = ("_changed", "_elapsed", "_now", "_waiting")

    def __init__(self, start: datetime) -> None:
        if start.utcoffset() is None:
            raise ValueError("a held clock starts at an aware datetime")
        self._now = start.astimezone(UTC)
        self._elapsed = timedelta()
        self._changed = threading.Condition()
        self._waiting: list[timedelta] = []

    def now(self) -> datetime:
        with self._changed:
            return self._now

    def time(self) -> float:
        return self.now().timestamp()

    def instant_ms(self) -> int:
        """Wall time in whole milliseconds since 1970, as a broker's scripts are handed it."""
        return (self.now() - _EPOCH) // timedelta(milliseconds=1)

    def monotonic(self) -> float:
        with self._changed:
            return self._elapsed.total_seconds()

    def advance(self, by: timedelta) -> None:
        """Let `by` pass for wall and monotonic time alike."""
        if by < timedelta():
            raise ValueError("time only advances; use step for a wall clock that is set back")
        with self._changed:
            self._now += by
            self._elapsed += by
            self._changed.notify_all()

    def set(self, at: datetime) -> None:
        """Let time pass until that instant, which must be aware and not earlier than now."""
        if at.utcoffset() is None:
            raise ValueError("a clock is set to an aware datetime")
        self.advance(at - self.now())

    def step(self, by: timedelta) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would; waits do not notice.

        A step forward is also what a machine finds that was suspended: its monotonic clock stood still.
        """
        with self._changed:
            self._now += by

    def wait(self, event: threading.Event, timeout: float) -> bool:
        with self._changed:
            # An endless wait must not overflow a timedelta.
            deadline = self._elapsed + timedelta(seconds=min(max(timeout, 0.0), 1e9))
            self._waiting.append(deadline)
            self._changed.notify_all()
            try:
                while not event.is_set() and self._elapsed < deadline:
                    # The event has no hook of its own, so look at it often; an advance wakes at once.
                    self._changed.wait(_HELD_POLL_S)
                return event.is_set()
            finally:
                self._waiting.remove(deadline)
                self._changed.notify_all()

    def await_waiters(self, count: int, within_s: float = 5.0) -> bool:
        """Block in real time until at least `count` threads wait for a moment still to come; False if too late.

        A thread released by `advance` does not count until it waits again, so after an advance this says that
        the work which became due has been done.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._blocked() >= count, within_s)

    def _blocked(self) -> int:
        return sum(1 for deadline in self._waiting if deadline > self._elapsed)
