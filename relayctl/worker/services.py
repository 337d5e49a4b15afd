"""The loop that keeps the services of the live apps running, in a thread of its own: no schedule waits for it.

The kernel ends processes with the thread that started them, so this one lives until the services have been stopped.
"""

from __future__ import annotations

import os
import secrets as randomness
import selectors
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, LoopFailed, OutputLine
from relayctl.core.service import REMOVED, version_of
from relayctl.errors import RelayError
from relayctl.runners.build import Build
from relayctl.runners.cgroups import NOTHING, Delegation, Groups
from relayctl.runners.entrypoint import launch_of
from relayctl.runners.environ import MARK, of_child, resolve_secrets
from relayctl.runners.guard import Guard
from relayctl.runners.httpcheck import HttpCheck
from relayctl.runners.limits import forbid_core_files
from relayctl.runners.orphans import Orphans
from relayctl.runners.output import Masker
from relayctl.runners.process import Process
from relayctl.runners.runner import CannotLaunch
from relayctl.runners.service import GRACE_S, ReplicaProcess
from relayctl.templates.find import TEMPLATE, app_digest
from relayctl.worker.crew import Crew
from relayctl.worker.member import Member, NotStarted, Spec

if TYPE_CHECKING:
    from relayctl.core.model import Check
    from relayctl.core.servicestanding import ServiceStanding
    from relayctl.host.clock import Clock
    from relayctl.worker.snapshot import LiveApp

MOST_STARTING = 4
"""Processes that are on their way to their program at one time: a large tree must not take the machine at once."""
STOPPING = "the worker is stopping"
_LONGEST_WAIT_S = 1.0
_SWEEP_EVERY_S = 5.0
_AFTER_KILL_S = 2.0


class Services:
    """All services of a worker. `run` owns the processes; `deploy`, `wake` and `standings` are for any thread."""

    def __init__(
        self,
        *,
        secrets: Callable[[str], str],
        clock: Clock,
        emit: Emit,
        base_environ: Mapping[str, str],
        delegation: Delegation = NOTHING,
    ) -> None:
        """`secrets` gives the value of a reference or raises a RelayError; it is asked at each start."""
        self._secrets = secrets
        self._clock = clock
        self._emit = emit
        self._base = dict(base_environ)
        self._token = randomness.token_hex(8)
        self._groups = Groups(delegation, self._token)
        self._guard = Guard(f"{MARK}={self._token}.", self._base, self._groups.prefix)
        forbid_core_files()
        self._lock = threading.Lock()
        self._news: Mapping[str, LiveApp] | None = None
        self._live: Mapping[str, LiveApp] = {}
        self._specs: dict[str, dict[str, Spec]] = {}
        self._crews: dict[tuple[str, str], Crew] = {}
        self._processes: dict[int, ReplicaProcess] = {}
        self._directories: dict[int, tuple[Path, ...]] = {}
        self._numbers = 0
        self._sweep_at = 0.0
        self._is_ending = False
        self._orphans: Orphans | None = None
        self._selector = selectors.DefaultSelector()
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._reader, selectors.EVENT_READ, self._drain_wakeups)
        self.standings: tuple[ServiceStanding, ...] = ()

    # What other threads call

    def deploy(self, live: Mapping[str, LiveApp]) -> None:
        """Keep the services of these apps running, and no others. Takes no time."""
        with self._lock:
            self._news = live
        self.wake()

    def directories(self) -> frozenset[Path]:
        """Where the replicas that run were started, and what was installed for them."""
        return frozenset(place for places in list(self._directories.values()) for place in places)

    def wake(self) -> None:
        """Make the loop come round now."""
        with suppress(OSError):
            os.write(self._writer, b"\0")

    # The loop

    def run(self, stop: threading.Event) -> None:
        """Supervise until `stop` is set, then stop every service and wait for that."""
        try:
            while not stop.is_set():
                self._turn_safely(stop)
        finally:
            self._end()

    def _turn_safely(self, stop: threading.Event) -> None:
        try:
            self._turn()
        except Exception as error:  # noqa: BLE001  processes must never be left without their supervisor
            self._tell_failed(error)
            self._clock.wait(stop, _LONGEST_WAIT_S)

    def _turn(self) -> None:
        self._take_news()
        now = self._clock.monotonic()
        room = MOST_STARTING - sum(1 for it in self._processes.values() if not it.is_begun and not it.is_over)
        turned = False
        for key, crew in list(self._crews.items()):
            if crew.is_stirred or crew.alarm <= now or (crew.has_unstarted and room > 0):
                room -= self._turn_crew(crew, now, room)
                turned = True
            if crew.is_gone:
                del self._crews[key]
        if turned:
            crews = (crew for _, crew in sorted(self._crews.items()))
            self.standings = tuple(crew.standing for crew in crews if crew.standing is not None)
        if self._orphans is not None and now >= self._sweep_at:
            self._sweep()
        for ready, mask in self._selector.select(self._wait_s()):
            ready.data(mask)

    def _turn_crew(self, crew: Crew, now: float, room: int) -> int:
        try:
            return crew.turn(now, room)
        except Exception as error:  # noqa: BLE001  one service must not keep the others from being looked after
            crew.alarm = now + _LONGEST_WAIT_S
            self._tell_failed(error, f" ({crew.app}/{crew.name})")
            return 0

    def _tell_failed(self, error: Exception, where: str = "") -> None:
        self._emit(LoopFailed(loop="services", reason=f"{type(error).__name__}: {error}{where}"))

    def _wait_s(self) -> float:
        now = self._clock.monotonic()
        if any(crew.is_stirred for crew in self._crews.values()) or (self._is_ending and not self._crews):
            return 0.0
        soonest = min((crew.alarm for crew in self._crews.values()), default=now + _LONGEST_WAIT_S)
        return max(0.0, min(_LONGEST_WAIT_S, soonest - now))

    def _drain_wakeups(self, _mask: int) -> None:
        with suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass

    # What is wanted

    def _take_news(self) -> None:
        with self._lock:
            news, self._news = self._news, None
        if news is None:
            return
        now = self._clock.monotonic()
        for name, item in news.items():
            if self._live.get(name) != item:
                self._specs[name] = _specs_of(item)
        self._live = news
        for name in self._specs.keys() - news.keys():
            del self._specs[name]
        wanted = {(app, name): spec for app, specs in self._specs.items() for name, spec in specs.items()}
        for key, spec in wanted.items():
            crew = self._crews.get(key)
            if crew is None:
                crew = self._crews[key] = Crew(*key, self, self._emit)
            crew.want(spec, now)
        for key in self._crews.keys() - wanted.keys():
            self._crews[key].disband(REMOVED)

    # What a crew asks for

    def launch(self, crew: Crew, spec: Spec, index: int) -> ReplicaProcess:
        """Start the process of one replica. Raises NotStarted."""
        if self._orphans is None:
            self._orphans = Orphans(self._token)
        self._guard.ensure()
        self._numbers += 1
        number = self._numbers
        with _reasons():
            environ, masker = self._environ(crew, spec, index, number)
            process = self._process(spec, environ, number)

        def news() -> None:
            crew.is_stirred = True

        label = f"{crew.app}/{crew.name}.{index}"
        replica = ReplicaProcess(
            self._selector,
            number,
            process,
            masker,
            now=self._clock.monotonic(),
            show=lambda stream, line: self._emit(OutputLine(label=label, stream=stream, line=line)),
            on_news=news,
            has_orphans=self._has_orphans,
            resources=spec.build.resources,
        )
        self._processes[number] = replica
        self._directories[number] = spec.build.places
        return replica

    def _process(self, spec: Spec, environ: Mapping[str, str], number: int) -> Process:
        launch = launch_of(spec.build, spec.service, environ)
        with self._groups.held(number, spec.build.resources) as group:
            inside = launch.within(group, keeps_memory=self._groups.delegation.enforces("memory"))
            return Process(inside.argv, inside.channel_at, spec.build.directory, environ, None, group)

    def preflight(self, crew: Crew, spec: Spec, index: int) -> None:
        """Look whether secrets and program of a replica are there. Raises NotStarted."""
        with _reasons():
            environ, _ = self._environ(crew, spec, index, 0)
            launch_of(spec.build, spec.service, environ)

    def holder_of(self, port: int) -> str:
        """The replica here that was told this port, or empty."""
        members = (member for crew in self._crews.values() for member in crew.members if member.port == port)
        return next((f"{it.crew.app}/{it.crew.name}.{it.index} of this worker" for it in members), "")

    def _environ(self, crew: Crew, spec: Spec, index: int, number: int) -> tuple[dict[str, str], Masker]:
        found = resolve_secrets(spec.build, self._secrets)
        environ = {**of_child(self._base, spec.build, f"{self._token}.{number}"), **found}
        environ |= {"RELAY_APP": crew.app, "RELAY_SERVICE": crew.name, "RELAY_REPLICA": str(index)}
        port = spec.wanted.port_of(index)
        if port is not None:
            environ["PORT"] = str(port)
        return environ, Masker(found.values())

    def ask(self, member: Member, port: int, check: Check) -> None:
        """Begin a check of a replica."""

        def done(reason: str) -> None:
            member.crew.checked(member, reason, self._clock.monotonic())

        member.check = HttpCheck(
            self._selector,
            port,
            check.path,
            timeout_s=check.timeout.total_seconds(),
            now=self._clock.monotonic(),
            on_done=done,
        )
        member.check.begin()

    # Strays

    def _has_orphans(self, number: int) -> bool:
        return number in self._sweep()

    def _sweep(self) -> set[int]:
        """Kill descendants of replicas that have ended; the numbers of replicas that have such."""
        now = self._clock.monotonic()
        self._sweep_at = now + _SWEEP_EVERY_S
        if self._orphans is None:
            return set()
        for number, it in list(self._processes.items()):
            if it.end is not None:
                del self._processes[number]
                self._directories.pop(number, None)
                self._groups.release(it.process.group)
        self._groups.sweep()
        pids = {it.process.pid: number for number, it in self._processes.items()}
        strays = set()
        for pid, number in self._orphans.find(pids, pids.get, now).items():
            process = self._processes.get(number)
            if process is None or process.is_over:
                self._orphans.kill(pid)
                strays.add(number)
        return strays

    # The end

    def _end(self) -> None:
        self._is_ending = True
        for crew in self._crews.values():
            crew.disband(STOPPING)
        until = self._clock.monotonic() + GRACE_S + _AFTER_KILL_S
        never = threading.Event()
        while self._crews and self._clock.monotonic() < until:
            self._news = None
            self._turn_safely(never)
        for process in self._processes.values():
            if not process.is_over:
                process.kill()
            self._groups.release(process.process.group)
        while self._groups.sweep() and self._clock.monotonic() < until + _AFTER_KILL_S:
            self._clock.wait(never, 0.01)
        self.standings = ()
        self._guard.close()
        self.close()

    def close(self) -> None:
        """Give back every descriptor. `run` does so at its end; this is for a loop that was never run."""
        writer, self._writer = self._writer, -1
        if writer >= 0:
            self._selector.close()
            os.close(writer)
            os.close(self._reader)


@contextmanager
def _reasons() -> Iterator[None]:
    """What keeps a replica from being started, in words."""
    try:
        yield
    except CannotLaunch as error:
        raise NotStarted(str(error)) from None
    except RelayError as error:
        raise NotStarted(error.message + (f"; {error.help}" if error.help else "")) from None
    except OSError as error:
        raise NotStarted(f"it cannot be started: {error.strerror or error}") from None
    except ValueError as error:
        raise NotStarted(f"it cannot be started: {error}") from None


def _specs_of(item: LiveApp) -> dict[str, Spec]:
    """The services of an app by name. An edit of its template alone restarts only those that it is about."""
    if not item.app.services:
        return {}
    # Of an app of services alone, handlers have nothing to run.
    build = Build.of(item.app, item.directory, item.revision, item.environment)
    code, directory = app_digest(item.directory, leaving_out=(TEMPLATE,)), item.place or str(item.directory)
    return {
        service.name: Spec(service=service, build=build, version=version_of(item.app, service, code, directory))
        for service in item.app.services
    }
