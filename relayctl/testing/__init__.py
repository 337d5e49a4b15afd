"""For tests of apps: workers in this process on a real broker, by a clock that the test holds.

Nothing here runs in production, and nothing here is imported by what does.
"""

from __future__ import annotations

from relayctl.host.clock import HeldClock
from relayctl.testing.rig import NotIdle, Rig
from relayctl.testing.steppedworker import SteppedWorker

__all__ = ["HeldClock", "NotIdle", "Rig", "SteppedWorker"]
