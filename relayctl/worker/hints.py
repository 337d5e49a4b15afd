"""What a reconciler is to look at soon, as other threads tell it: apps that changed, schedules that the fleet decided.

It looks at nothing and knows no order: whoever takes a hint either follows it or puts it back.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.worker.agenda import Name


class Hints:
    """Hints that nobody has followed yet, and the bell that is rung with each. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bell = threading.Event()
        self._touched: set[str] | None = set()
        self._superseded: set[Name] = set()

    def touched(self, apps: Collection[str] | None) -> None:
        """Something changed in these apps, or anywhere (None)."""
        with self._lock:
            if apps is None or self._touched is None:
                self._touched = None
            else:
                self._touched |= set(apps)
        self._bell.set()

    def superseded(self, names: Collection[Name]) -> None:
        """The registry knows another definition of these schedules."""
        self.put_back(names)
        self._bell.set()

    def put_back(self, names: Collection[Name]) -> None:
        """These were taken and not asked for; that does not hurry anybody."""
        with self._lock:
            self._superseded |= set(names)

    def lose_track(self) -> None:
        """What was taken last was not looked at, and is not known any more: anything may have changed."""
        with self._lock:
            self._touched = None

    def take_touched(self) -> set[str] | None:
        """The apps to look at; None for all."""
        with self._lock:
            touched, self._touched = self._touched, set()
        return touched

    def take_superseded(self) -> set[Name]:
        """The schedules to ask the registry for."""
        with self._lock:
            superseded, self._superseded = self._superseded, set()
        return superseded

    def ring(self) -> None:
        """Whoever waits is to come round now."""
        self._bell.set()

    def wait(self, clock: Clock, seconds: float) -> None:
        """Wait until something rings, or for so long."""
        clock.wait(self._bell, seconds)
        self._bell.clear()
