"""Every child there is, whatever its app: launched, woken in time, its strays swept, awaited at the end.

Who is launched, and for what, is the pool's business.
"""

from __future__ import annotations

import math
import secrets as randomness
import select
from collections.abc import Callable, Mapping

from relayctl.runners.build import Build
from relayctl.runners.childproc import Child, Keeper, State
from relayctl.runners.environ import MARK, of_child
from relayctl.runners.guard import Guard
from relayctl.runners.orphans import Orphans
from relayctl.runners.process import Process
from relayctl.runners.runner import Launch

SWEEP_EVERY_S = 1.0
POLL_EVERY_S = 0.05
"""Where the kernel gives no descriptor for an exit, children are looked at this often."""
CLOSE_LIMIT_S = 5.0


class Nursery:
    """`wake` is called with a child whose alarm has come, and the time."""

    def __init__(
        self, monotonic: Callable[[], float], base_environ: Mapping[str, str], wake: Callable[[Child, float], None]
    ) -> None:
        self._monotonic = monotonic
        self._base = dict(base_environ)
        self._wake = wake
        self._children: dict[int, Child] = {}
        self._pids: dict[int, int] = {}
        self._numbers = 0
        self._next = math.inf
        self._sweep_at = math.inf
        self._must_poll = False
        self._token = randomness.token_hex(8)
        self._orphans = Orphans(self._token)
        self._guard = Guard(f"{MARK}={self._token}.", self._base)

    @property
    def children(self) -> list[Child]:
        """Those that are not gone yet."""
        return list(self._children.values())

    @property
    def occupied(self) -> int:
        """Children that count against the pool's size: all but those without a run that are leaving."""
        leaving = sum(1 for child in self._children.values() if child.run is None and child.state is State.LEAVING)
        return len(self._children) - leaving

    def launch(
        self,
        keeper: Keeper,
        build: Build,
        launch: Launch,
        *,
        is_single_use: bool,
        variables: Mapping[str, str],
        stdin: bytes | None,
    ) -> Child:
        """Start a child. `variables` and `stdin` are for one that is itself the run. Raises OSError or ValueError."""
        self._guard.ensure()
        self._numbers += 1
        environ = {**of_child(self._base, build, f"{self._token}.{self._numbers}"), **variables}
        process = Process(launch.argv, launch.channel_at, build.directory, environ, stdin)
        child = Child(keeper, self._numbers, build, process, is_single_use=is_single_use)
        self._children[child.number] = child
        self._pids[process.pid] = child.number
        self._must_poll = self._must_poll or process.exit_fd is None
        if self._sweep_at == math.inf:
            self.sweep_soon(SWEEP_EVERY_S)
        return child

    def forget(self, child: Child) -> None:
        """A child is gone."""
        del self._children[child.number]
        self._pids.pop(child.process.pid, None)

    # Time

    def expect(self, alarm: float) -> None:
        """Somebody wants to be woken then."""
        self._next = min(self._next, alarm)

    def next_timer(self) -> float | None:
        """The monotonic instant at which `tick` should run at the latest."""
        if self._must_poll and self._children:
            return min(self._next, self._monotonic() + POLL_EVERY_S)
        return self._next if self._next < math.inf else None

    def tick(self, now: float) -> None:
        """Wake whose alarm has come; sweep when it is time."""
        if self._must_poll:
            for child in self.children:
                child.poll()
        if now < self._next:
            return
        # Ended runs leave their alarms behind, so this may be early; then it only finds the true next one.
        self._next = math.inf
        for child in self.children:
            if child.alarm <= now:
                self._wake(child, now)
        if self._sweep_at <= now:
            self._sweep_at = math.inf
            if self._sweep() or self._children:
                self._sweep_at = now + SWEEP_EVERY_S
        self._next = min([self._next, self._sweep_at, *(child.alarm for child in self._children.values())])

    # Strays

    def sweep_soon(self, after_s: float) -> None:
        """Look for strays in the tick after that many seconds."""
        self._sweep_at = min(self._sweep_at, self._monotonic() + after_s)
        self.expect(self._sweep_at)

    def has_orphans(self, child: Child) -> bool:
        """Whether descendants of a child that has ended are still there; they are killed."""
        return child.number in self._sweep().values()

    def _sweep(self) -> dict[int, int]:
        """Kill strays of children that have no run any more. A busy child with strays goes after its run."""
        found = self._orphans.find(self._pids, self._pids.get, self._monotonic())
        for pid, number in found.items():
            child = self._children.get(number)
            if child is not None and child.state is State.BUSY:
                child.is_retired = True
            else:
                self._orphans.kill(pid)
        return found

    # The end

    def close(self) -> None:
        """Kill every child and wait for it to be gone."""
        for child in self.children:
            child.kill()
        until = self._monotonic() + CLOSE_LIMIT_S
        while self._children and self._monotonic() < until:
            for child in self.children:
                child.poll()
            self.tick(self._monotonic())
            _pause(self.children)
        self._guard.close()


def _pause(children: list[Child]) -> None:
    """Wait a moment, or until a child has ended."""
    poll = select.poll()
    for child in children:
        if child.process.exit_fd is not None and child.state is not State.DRAINING:
            poll.register(child.process.exit_fd, select.POLLIN)
    if children:
        poll.poll(10)
