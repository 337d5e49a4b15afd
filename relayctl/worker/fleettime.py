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
SHARP_S = 0.05
"""A round trip this short gives the offset by its middle; a longer one only bounds it."""


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
        # The broker read its clock somewhere between the two moments. Where this process or the broker stood still in
        # between, the middle can be seconds off, so the offset known before is kept as far as the bounds allow.
        low, high = broker_ms - answered_at * 1000, broker_ms + 1 - asked_at * 1000
        is_sharp = answered_at - asked_at <= SHARP_S
        offset = (low + high) / 2 if is_sharp else min(max(self._offset_ms, low), high)
        step = timedelta(milliseconds=offset - self._offset_ms)
        self._offset_ms = offset
        return step if abs(step) > timedelta(seconds=STEP_S) else None

    def wall_stepped(self) -> timedelta | None:
        """How far the wall clock moved against the monotonic one since the last look, if it is more than drift."""
        ahead = self._clock.time() - self._clock.monotonic()
        step, self._wall_ahead = ahead - self._wall_ahead, ahead
        return timedelta(seconds=step) if abs(step) > STEP_S else None
