"""One run on its own, with no worker and no broker: a pool that lives for that run."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping

from relayctl.host.clock import Clock
from relayctl.runners.build import Build
from relayctl.runners.invocation import Ended, Run
from relayctl.runners.pool import Pool


def run_once(
    build: Build,
    run: Run,
    *,
    clock: Clock,
    secrets: Callable[[str], str],
    on_line: Callable[[Run, str, str], None],
    base_environ: Mapping[str, str],
    grace_s: float = 3.0,
) -> Ended:
    """Run and wait for the end; the wait is bounded by the run's timeout. Raises UsageError for an unknown runtime."""
    with selectors.DefaultSelector() as selector:
        pool = Pool(selector, clock, secrets, on_line, max_children=1, base_environ=base_environ, grace_s=grace_s)
        try:
            pool.deploy(build)
            pool.start(run)
            while not (ended := pool.take_ended()):
                pool.turn(1.0)
            return ended[0]
        finally:
            pool.close()
