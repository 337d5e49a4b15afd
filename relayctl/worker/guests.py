"""Runs that somebody on this machine asks for: a bounded first-in-first-out queue beside the stream's own work.

Every accepted one has exactly one result. It starts nothing itself: the executor asks who is next, by app, and the
turns say who of guests and stream gets the next free place where both wait. Nothing here ever logs a payload.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from relayctl.errors import RequestRejected
from relayctl.host.requests import CLOSING, FULL, Course, Result, cancelled

if TYPE_CHECKING:
    from relayctl.runners.invocation import Ended, Run

MOST_WAITING = 16


class Guest(Course):
    """One accepted run. `report` makes its result from its end."""

    def __init__(self, run: Run, report: Callable[[Ended], Result], on_leave: Callable[[Guest], None]) -> None:
        super().__init__()
        self.run = run
        self.report = report
        self._on_leave = on_leave

    def leave(self) -> None:
        """Nobody waits for it any more: one that has not begun is not begun. One that runs goes on to its end."""
        super().leave()
        self._on_leave(self)


class Guests:
    """Who waits and who runs. Any thread may call; `on_change` wakes the executor and must not block."""

    def __init__(self, on_change: Callable[[], None], capacity: int = MOST_WAITING) -> None:
        self._on_change = on_change
        self._capacity = capacity
        self._lock = threading.Lock()
        # In order of acceptance; an app without a free place must not hold up the others.
        self._waiting: dict[str, Guest] = {}
        self._running: dict[str, Guest] = {}
        self._is_closed = False

    def submit(self, run: Run, report: Callable[[Ended], Result]) -> Guest:
        """Accept a run, or raise RequestRejected with the reason `full` or `closing`; never waits."""
        guest = Guest(run, report, self._left)
        with self._lock:
            if self._is_closed:
                raise RequestRejected(CLOSING)
            if len(self._waiting) >= self._capacity:
                raise RequestRejected(FULL)
            self._waiting[run.key] = guest
        self._on_change()
        return guest

    def apps(self) -> list[str]:
        """Apps that somebody waits for, the longest waiting first."""
        with self._lock:
            return list(dict.fromkeys(guest.run.app for guest in self._waiting.values()))

    def is_waiting(self, app: str) -> bool:
        """Whether somebody waits for a place of this app."""
        # Asked for every reservation: most of the time nobody waits at all.
        return bool(self._waiting) and app in self.apps()

    def running_apps(self) -> set[str]:
        """Apps that run somebody's request."""
        with self._lock:
            return {guest.run.app for guest in self._running.values()}

    def begin(self, app: str) -> Run | None:
        """The longest waiting run of the app, which counts as running from now on."""
        with self._lock:
            guest = next((each for each in self._waiting.values() if each.run.app == app), None)
            if guest is None:
                return None
            del self._waiting[guest.run.key]
            self._running[guest.run.key] = guest
        guest.tell("started")
        return guest.run

    def print(self, run: Run, stream: str, line: str) -> None:
        """Hand on a line of output, if it is of a guest."""
        guest = self._running.get(run.key)
        if guest is not None:
            guest.print(stream, line)

    def end(self, ended: Ended) -> bool:
        """Give a guest its result; False where the run is none of a guest."""
        with self._lock:
            guest = self._running.pop(ended.run.key, None)
        if guest is None:
            return False
        try:
            result = guest.report(ended)
        except Exception as error:  # noqa: BLE001  whoever waits must hear of the end
            result = Result.internal(error)
        guest.finish(result)
        return True

    def lose(self, run: Run, error: Exception) -> None:
        """It could not even be started, for a reason that nobody thought of."""
        with self._lock:
            guest = self._running.pop(run.key, None)
        if guest is not None:
            guest.finish(Result.internal(error))

    def close(self) -> None:
        """Accept nothing more; what waits ends as cancelled, what runs may end by itself."""
        with self._lock:
            self._is_closed = True
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for guest in waiting:
            guest.finish(cancelled())

    def abandon(self) -> None:
        """Nothing will run any more: whatever has no result yet gets one."""
        self.close()
        with self._lock:
            running = list(self._running.values())
            self._running.clear()
        for guest in running:
            guest.finish(cancelled())

    def count(self) -> int:
        """How many run."""
        return len(self._running)

    def _left(self, guest: Guest) -> None:
        with self._lock:
            was_waiting = self._waiting.pop(guest.run.key, None) is not None
        if was_waiting:
            guest.finish(cancelled())


class Turns:
    """Who gets the next free place of an app where both guests and the stream's work wait: they alternate.

    It keeps no count of places, and whoever uses it holds a lock.
    """

    def __init__(self) -> None:
        self._starving: frozenset[str] = frozenset()
        self._last_was_guest: set[str] = set()

    def starve(self, apps: Collection[str]) -> None:
        """These apps may have due work in the stream for which there was no place."""
        self._starving = frozenset(apps)

    def kept_for_guest(self, app: str, *, is_waiting: bool) -> int:
        """How many free places the stream's work leaves to a guest."""
        return int(is_waiting and app not in self._last_was_guest)

    def kept_for_stream(self, app: str, *, is_waiting: bool = False) -> int:
        """How many free places a guest leaves to the stream's work; `is_waiting` where some waits here already."""
        return int((is_waiting or app in self._starving) and app in self._last_was_guest)

    def took_stream(self, app: str) -> None:
        """The stream's work got a place."""
        self._last_was_guest.discard(app)

    def took_guest(self, app: str) -> None:
        """A guest got a place."""
        self._last_was_guest.add(app)
