"""Fleet time: this machine's monotonic clock plus the measured offset to the broker's TIME.

Workers with wrong wall clocks agree on what is due. Wall time is only watched, to notice that the monotonic clock
stood still (a suspended machine) or that the offset must be measured again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

STEP_S = 0.5
"""A difference between two clocks that is no drift any more."""


class FleetTime:
    """The offset and what it is good for. One writer, the loop that measures; readers may be anywhere."""

    __slots__ = ("_clock", "_offset_ms", "_wall_ahead")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Until the broker was asked, the wall clock is the best guess.
        self._offset_ms = (clock.time() - clock.monotonic()) * 1000
        self._wall_ahead = clock.time() - clock.monotonic()

    def now_ms(self) -> int:
        """Milliseconds since 1970, as the fleet sees them."""
        return int(self._clock.monotonic() * 1000 + self._offset_ms)

    def learn(self, broker_ms: int, asked_at: float, answered_at: float) -> timedelta | None:
        """Take a reading of the broker's TIME made between two monotonic moments; the step, if it was one."""
        offset = broker_ms + 0.5 - (asked_at + answered_at) * 500
        step = timedelta(milliseconds=offset - self._offset_ms)
        self._offset_ms = offset
        return step if abs(step) > timedelta(seconds=STEP_S) else None

    def wall_stepped(self) -> timedelta | None:
        """How far the wall clock moved against the monotonic one since the last look, if it is more than drift."""
        ahead = self._clock.time() - self._clock.monotonic()
        step, self._wall_ahead = ahead - self._wall_ahead, ahead
        return timedelta(seconds=step) if abs(step) > STEP_S else None
