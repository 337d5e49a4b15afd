"""The workers of a run: each with its own directory and its own road, so that one alone can be hurt."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from support.fleet import ServeProcess
from support.nemesis.proxy import Road
from support.nemesis.story import FLEET, Trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.broker import PrivateBroker


FAILURE = 3
"""The exit code of a worker that finds no broker at its start, among others."""


@dataclass(slots=True)
class Seat:
    """One worker, whichever process is it just now; `open` are its troubles that last, by kind."""

    name: str
    state: Path
    road: Road
    process: ServeProcess | None = None
    pids: list[int] = field(default_factory=list)
    past: list[ServeProcess] = field(default_factory=list)
    since: dict[str, float] = field(default_factory=dict)
    is_draining: bool = False

    @property
    def full(self) -> Path:
        """While this file is there, its outbox cannot grow."""
        return self.state.with_suffix(".full")

    @property
    def past_and_present(self) -> list[ServeProcess]:
        """Its processes, the oldest first."""
        return [*self.past, *([] if self.process is None else [self.process])]


class Workers:
    """Starts, hurts and stops them, and notes from when to when each was kept away."""

    def __init__(self, root: Path, broker: PrivateBroker, apps: Path, count: int, environ: Mapping[str, str]) -> None:
        self._root = root
        self._apps = apps
        self._environ = dict(environ)
        path = str(broker.target.path)
        self.seats = [Seat(f"w{place}", root / f"state-{place}", Road(path)) for place in range(count)]
        self.troubles: list[Trouble] = []

    def begin(self, seat: Seat, kind: str) -> None:
        """Something that lasts has begun."""
        seat.since.setdefault(kind, time.time())

    def end(self, seat: Seat, kind: str, *, after_s: float = 0.0) -> None:
        """It is over, or its effects will be in so many seconds."""
        since = seat.since.pop(kind, None)
        if since is not None:
            end = time.time() + after_s
            self.troubles.append(Trouble(kind=kind, worker=seat.name, start=since, end=end))

    def fleet_trouble(self, kind: str, since: float) -> None:
        """Something that had befallen all of them since then is over."""
        self.troubles.append(Trouble(kind=kind, worker=FLEET, start=since, end=time.time()))

    def start(self, seat: Seat) -> None:
        """Start a process where there is none; the worker is away until it says that it is up."""
        if seat.process is not None:
            return
        if "drain" not in seat.since:
            self.begin(seat, "down")
        arguments = ["serve", "-v", "--apps", str(self._apps), "--log-format", "json", "--state-dir", str(seat.state)]
        arguments += ["--redis", f"redis://127.0.0.1:{seat.road.port}", "--drain", "5s"]
        seat.process = ServeProcess(arguments, self._environ | {"TEST_OUTBOX_FULL": str(seat.full)}, self._root)
        seat.pids.append(seat.process.pid)

    def look(self) -> None:
        """See who has come up. One that found no broker when it started is started again, as a supervisor does."""
        for seat in self.seats:
            if seat.process is None or seat.is_draining:
                continue
            if seat.process.process.poll() is not None:
                seat.process.close()
                assert found_no_broker(seat.process), f"a worker has ended by itself\n{seat.process.story()}"
                seat.process = None
                self.start(seat)
                continue
            for kind in ("down", "drain"):
                if kind in seat.since and seat.process.told("worker-started"):
                    self.end(seat, kind, after_s=1.0)

    def kill(self, seat: Seat) -> None:
        """Kill it with -9."""
        if seat.process is not None:
            self.begin(seat, "down")
            seat.process.kill()
            self._leave(seat)

    def drain(self, seat: Seat) -> None:
        """Ask it to stop, without waiting for that."""
        if seat.process is not None:
            self.begin(seat, "drain")
            seat.is_draining = True
            seat.process.send(signal.SIGTERM)

    def is_gone(self, seat: Seat) -> bool:
        """Whether the process that was asked to stop has ended."""
        if seat.process is not None and seat.process.process.poll() is None:
            return False
        if seat.process is not None:
            self._leave(seat)
        return True

    def freeze(self, seat: Seat) -> None:
        if seat.process is not None:
            self.begin(seat, "stopped")
            seat.process.send(signal.SIGSTOP)

    def thaw(self, seat: Seat) -> None:
        if seat.process is not None:
            seat.process.send(signal.SIGCONT)
        self.end(seat, "stopped", after_s=0.5)

    def _leave(self, seat: Seat) -> None:
        assert seat.process is not None
        seat.process.close()
        seat.past.append(seat.process)
        seat.process = None
        seat.is_draining = False

    def processes(self) -> list[ServeProcess]:
        """All that there ever were."""
        return [each for seat in self.seats for each in seat.past_and_present]

    def stop(self) -> list[int]:
        """Ask all to stop; their exit codes."""
        running = [seat.process for seat in self.seats if seat.process is not None]
        for process in running:
            with suppress(ProcessLookupError):
                process.send(signal.SIGTERM)
        return [process.await_exit(40) for process in running]

    def close(self) -> None:
        for process in self.processes():
            process.close()
        for seat in self.seats:
            seat.road.close()

    def noise(self) -> list[str]:
        """What any of them said that is no fact, but for those that found no broker when they started."""
        return [line for process in self.processes() if not found_no_broker(process) for line in process.noise]


def found_no_broker(process: ServeProcess) -> bool:
    """Whether it ended at its start for want of a broker, as it should."""
    error = next((line for line in process.noise if line.startswith("error: ")), "")
    return (
        process.process.poll() in {FAILURE, -signal.SIGKILL}
        and ("redis://" in error or "the broker" in error)
        and not process.told("worker-started")
    )
