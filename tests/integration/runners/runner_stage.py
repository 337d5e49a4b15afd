"""A pool with real children, driven the way a worker's loop drives it; every wait has a bound."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from pathlib import Path

from relayctl.errors import SecretMissing
from relayctl.host.clock import Clock, SystemClock
from relayctl.runners.build import Build
from relayctl.runners.environ import base_environ
from relayctl.runners.invocation import Ended, Run
from relayctl.runners.pool import Pool

ZOO = Path(__file__).parent / "zoo"


class Stage:
    """A pool, what it showed, and the words to drive it with."""

    def __init__(self, *, clock: Clock | None = None, **options: object) -> None:
        self.selector = selectors.DefaultSelector()
        self.lines: list[tuple[str, str, str]] = []
        self.values: dict[str, str] = {}
        settings = {"max_children": 8, "base_environ": base_environ(), "grace_s": 1.0, **options}
        self.pool = Pool(self.selector, clock or SystemClock(), self.secret, self._line, **settings)  # type: ignore[arg-type]
        self.ended: list[Ended] = []
        self._count = 0

    def secret(self, reference: str) -> str:
        if reference not in self.values:
            raise SecretMissing(f"secret {reference} has no value here")
        return self.values[reference]

    def _line(self, run: Run, stream: str, line: str) -> None:
        self.lines.append((run.label, stream, line))

    def run(
        self, handler: str, *, app: str = "zoo", event: bytes = b"{}", timeout_s: float = 20.0, **variables: str
    ) -> Run:
        self._count += 1
        key = f"{self._count}-0|{handler}"
        return Run(
            key=key,
            app=app,
            handler=handler,
            stdin=event,
            variables=variables,
            timeout_s=timeout_s,
            label=f"{app}/{handler}@{self._count}-0",
        )

    def until(self, fact: Callable[[], object], within: float = 20.0) -> None:
        limit = time.monotonic() + within
        while not fact():
            assert time.monotonic() < limit, f"not within {within} s; ended so far: {self.ended}"
            self.pool.turn(0.05)
            self.ended += self.pool.take_ended()

    def ready(self, n: int = 1, app: str = "zoo") -> None:
        self.pool.demand(app, n)
        self.until(lambda: self.pool.capacity(app) >= n)

    def finish(self, *runs: Run, within: float = 20.0) -> list[Ended]:
        """Start every run and wait for all; the results in the order of the arguments."""
        for run in runs:
            self.pool.start(run)
        keys = {run.key for run in runs}
        self.until(lambda: keys <= {ended.run.key for ended in self.ended}, within)
        found = {ended.run.key: ended for ended in self.ended}
        return [found[run.key] for run in runs]

    def one(self, handler: str, **options: object) -> Ended:
        return self.finish(self.run(handler, **options))[0]  # type: ignore[arg-type]

    def texts(self, stream: str | None = None) -> list[str]:
        return [line for _, name, line in self.lines if stream in (None, name)]

    def close(self) -> None:
        self.pool.close()
        self.selector.close()


def zoo_build(**changes: object) -> Build:
    fields = {"app": "zoo", "revision": "r1", "directory": ZOO, "runtime": "python", **changes}
    return Build(**fields)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
