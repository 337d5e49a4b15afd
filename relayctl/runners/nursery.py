"""Every child and zygote there is, whatever its app: launched, woken in time, its strays swept, awaited at the end.

Who is launched, and for what, is the pool's business.
"""

from __future__ import annotations

import math
import secrets as randomness
import select
from collections.abc import Callable, Mapping

from relayctl.runners.build import Build
from relayctl.runners.cgroups import NOTHING, Delegation, Groups
from relayctl.runners.childproc import Child, Keeper, State
from relayctl.runners.environ import MARK, of_child
from relayctl.runners.guard import Guard
from relayctl.runners.limits import forbid_core_files
from relayctl.runners.orphans import Orphans
from relayctl.runners.process import Process
from relayctl.runners.runner import Launch
from relayctl.runners.zygote import Zygote

SWEEP_EVERY_S = 1.0
POLL_EVERY_S = 0.05
"""Where the kernel gives no descriptor for an exit, children are looked at this often."""
CLOSE_LIMIT_S = 5.0


class Nursery:
    """`wake` is called with a child whose alarm has come, and the time; `on_unshared` as a zygote says it."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        base_environ: Mapping[str, str],
        wake: Callable[[Child, float], None],
        *,
        idle_s: float = math.inf,
        on_unshared: Callable[[Build, str], None],
        delegation: Delegation = NOTHING,
    ) -> None:
        """A zygote without children goes after `idle_s`. `delegation` says where control groups can be made."""
        self._monotonic = monotonic
        self._base = dict(base_environ)
        self._wake = wake
        self._idle_s = idle_s
        self._on_unshared = on_unshared
        self._zygotes: dict[tuple[Build, tuple[str, ...]], Zygote] = {}
        self._leaving: list[Zygote] = []
        self._parents: dict[int, Zygote] = {}
        self._children: dict[int, Child] = {}
        self._pids: dict[int, int] = {}
        self._numbers = 0
        self._next = math.inf
        self._sweep_at = math.inf
        self._must_poll = False
        self._token = randomness.token_hex(8)
        self._orphans = Orphans(self._token)
        self._groups = Groups(delegation, self._token)
        self._guard = Guard(f"{MARK}={self._token}.", self._base, self._groups.prefix)
        forbid_core_files()

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
        process: Process
        if launch.is_zygote:
            try:
                number, process = self._fork(keeper, build, launch)
            except ConnectionError:
                # The zygote has just ended, and nobody has noticed yet.
                self._dismiss_zygote((build, launch.argv), self._zygotes[build, launch.argv])
                number, process = self._fork(keeper, build, launch)
        else:
            number = self._number()
            process = self._process(build, launch, number, variables, stdin)
        child = Child(keeper, number, build, process, is_single_use=is_single_use)
        self._children[number] = child
        self._must_poll = self._must_poll or process.exit_fd is None
        if self._sweep_at == math.inf:
            self.sweep_soon(SWEEP_EVERY_S)
        return child

    def _process(
        self, build: Build, launch: Launch, number: int, variables: Mapping[str, str], stdin: bytes | None
    ) -> Process:
        environ = {**self._environ(build, number), **variables}
        with self._groups.held(number, build.resources) as group:
            inside = launch.within(group, keeps_memory=self._groups.delegation.enforces("memory"))
            process = Process(inside.argv, inside.channel_at, build.directory, environ, stdin, group)
        self._pids[process.pid] = number
        return process

    def forget(self, child: Child) -> None:
        """A child is gone."""
        del self._children[child.number]
        self._pids.pop(child.process.pid, None)
        self._groups.release(child.process.group)
        zygote = self._parents.pop(child.number, None)
        if zygote is not None:
            zygote.release(child.number, child.process.pid, self._monotonic())
            self.expect(zygote.alarm)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _environ(self, build: Build, number: int) -> dict[str, str]:
        # Of one width, so that a fork can write its own number over that of its zygote.
        return of_child(self._base, build, f"{self._token}.{number:010d}")

    # Zygotes

    def _zygote(self, keeper: Keeper, build: Build, launch: Launch) -> Zygote:
        found = self._zygotes.get((build, launch.argv))
        if found is not None and found.is_open:
            return found
        number = self._number()
        process = self._process(build, launch, number, {}, None)
        zygote = Zygote(
            keeper.selector,
            build,
            process,
            idle_s=self._idle_s,
            on_born=self._born,
            on_unshared=self._on_unshared,
            on_gone=self._zygote_gone,
        )
        self._zygotes[build, launch.argv] = zygote
        self._must_poll = self._must_poll or process.exit_fd is None
        return zygote

    def _fork(self, keeper: Keeper, build: Build, launch: Launch) -> tuple[int, Process]:
        zygote = self._zygote(keeper, build, launch)
        number = self._number()
        with self._groups.held(number, build.resources) as group:
            process = zygote.fork(number, group)
        self._parents[number] = zygote
        return number, process

    def dismiss_zygotes(self, app: str, keep: Build | None) -> None:
        """Let the zygotes of an app go, but for those of one build; their children end as they would have."""
        for key, zygote in list(self._zygotes.items()):
            if key[0].app == app and key[0] != keep:
                self._dismiss_zygote(key, zygote)

    def _dismiss_zygote(self, key: tuple[Build, tuple[str, ...]], zygote: Zygote) -> None:
        del self._zygotes[key]
        self._leaving.append(zygote)
        zygote.leave(self._monotonic())
        self.expect(zygote.alarm)

    def _born(self, number: int, pid: int) -> None:
        self._pids[pid] = number

    def _zygote_gone(self, zygote: Zygote) -> None:
        self._pids.pop(zygote.process.pid, None)
        self._groups.release(zygote.process.group)
        for key, each in list(self._zygotes.items()):
            if each is zygote:
                del self._zygotes[key]
        if zygote in self._leaving:
            self._leaving.remove(zygote)

    def _wake_zygotes(self, now: float) -> None:
        for key, zygote in list(self._zygotes.items()):
            if zygote.alarm <= now:
                self._dismiss_zygote(key, zygote)
        for zygote in list(self._leaving):
            if zygote.alarm <= now:
                zygote.wake(now)

    def _all_zygotes(self) -> list[Zygote]:
        return [*self._zygotes.values(), *self._leaving]

    # Time

    def expect(self, alarm: float) -> None:
        """Somebody wants to be woken then."""
        self._next = min(self._next, alarm)

    def next_timer(self) -> float | None:
        """The monotonic instant at which `tick` should run at the latest."""
        if self._must_poll and (self._children or self._all_zygotes()):
            return min(self._next, self._monotonic() + POLL_EVERY_S)
        return self._next if self._next < math.inf else None

    def tick(self, now: float) -> None:
        """Wake whose alarm has come; sweep when it is time."""
        if self._must_poll:
            self._look()
        if now < self._next:
            return
        # Ended runs leave their alarms behind, so this may be early; then it only finds the true next one.
        self._next = math.inf
        for child in self.children:
            if child.alarm <= now:
                self._wake(child, now)
        self._wake_zygotes(now)
        if self._sweep_at <= now:
            self._sweep_at = math.inf
            if self._sweep() or self._groups.sweep() or self._children:
                self._sweep_at = now + SWEEP_EVERY_S
        alarms = [child.alarm for child in self._children.values()]
        alarms += [zygote.alarm for zygote in self._all_zygotes()]
        self._next = min([self._next, self._sweep_at, *alarms])

    def _look(self) -> None:
        for zygote in self._all_zygotes():
            zygote.look()
        for child in self.children:
            child.poll()

    # Strays

    def sweep_soon(self, after_s: float) -> None:
        """Look for strays in the tick after that many seconds."""
        self._sweep_at = min(self._sweep_at, self._monotonic() + after_s)
        self.expect(self._sweep_at)

    def note_brood(self, child: Child) -> None:
        """A child that still lives is about to go, perhaps before what it has started."""
        if child.process.pid:
            self._orphans.note(child.process.pid, child.number)

    def has_orphans(self, child: Child) -> bool:
        """Whether descendants of a child that has ended are still there; they are killed."""
        group = child.process.group
        return child.number in self._sweep().values() or (group is not None and bool(group.pids()))

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
            self._look()
            self.tick(self._monotonic())
            _pause(self.children)
        # They go last: their children's statuses come from them.
        for zygote in self._all_zygotes():
            zygote.kill()
        while self._all_zygotes() and self._monotonic() < until:
            self._look()
            _pause([])
        while self._groups.sweep() and self._monotonic() < until:
            _pause([])
        self._guard.close()


def _pause(children: list[Child]) -> None:
    """Wait a moment, or until a child has ended."""
    poll = select.poll()
    for child in children:
        if child.process.exit_fd is not None and child.state is not State.DRAINING:
            poll.register(child.process.exit_fd, select.POLLIN)
    poll.poll(10 if children else 1)
