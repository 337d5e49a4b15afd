"""The claims that this worker answers for, and how their runs ended, until the broker has it. It runs nothing itself.

The supervisor writes into it, the loop that records ends takes out of it; any thread may call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relayctl.core.lifecycle import Claim
from relayctl.runners.invocation import Ended, Outcome, Telling
from relayctl.worker.beginning import run_of

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

SILENT_S = 1.0
"""A run is not asked for its output before it has run for so long: most end within it, and their end tells."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A claim and how its run ended, with wall times in milliseconds since 1970.

    One that has not `begun` was in hand all the time, and nothing was told of it.
    """

    claim: Claim
    ended: Ended
    started_ms: int
    finished_ms: int
    has_begun: bool = True


@dataclass(frozen=True, slots=True)
class Printed:
    """A claim whose run goes on, and what it has printed so far. `started_ms` is a wall time."""

    claim: Claim
    telling: Telling
    started_ms: int


def is_charged(ended: Ended) -> bool:
    """Whether the end counts as an attempt: not when the handler was cut by us or never began for our reasons."""
    return ended.outcome not in {Outcome.INTERRUPTED, Outcome.REFUSED}


class Ledger:
    """Claims by their keys, from their grant until somebody forgets them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._claims: dict[str, Claim] = {}
        self._over: set[str] = set()
        self._finished: list[Finished] = []
        self._printed: dict[str, Printed] = {}
        self._known: dict[str, int] = {}

    def open(self, claims: Iterable[Claim]) -> None:
        """These were granted."""
        with self._lock:
            for claim in claims:
                self._claims[claim.key] = claim

    def note(self, ended: Collection[Ended]) -> list[Claim]:
        """These runs ended; their claims."""
        now, now_ms = self._clock.monotonic(), int(self._clock.time() * 1000)
        with self._lock:
            found = [self._claims[item.run.key] for item in ended]
            for claim, item in zip(found, ended, strict=True):
                key = item.run.key
                self._over.add(key)
                self._known.pop(key, None)
                self._printed.pop(key, None)
                self._finished.append(
                    Finished(
                        claim=claim,
                        ended=item,
                        started_ms=now_ms - int((now - item.started_at) * 1000),
                        finished_ms=now_ms - int((now - item.finished_at) * 1000),
                    )
                )
        return found

    def unbegun(self, claims: Collection[Claim], reason: str) -> None:
        """These ended in hand, which charges nothing."""
        now, wall_s = self._clock.monotonic(), self._clock.time()
        with self._lock:
            for claim in claims:
                run = run_of(claim, wall_s)
                ended = Ended(
                    run=run, outcome=Outcome.REFUSED, reason=reason, started_at=now, finished_at=now, started=False
                )
                self._over.add(claim.key)
                at = int(wall_s * 1000)
                self._finished.append(Finished(claim, ended, at, at, has_begun=False))

    def take_finished(self) -> list[Finished]:
        """What ended since the last call."""
        with self._lock:
            finished, self._finished = self._finished, []
        return finished

    def gather(self, tellings: Callable[[Mapping[str, int], float], Sequence[Telling]]) -> None:
        """Note what runs have printed since they were last asked; `tellings` is given what is known, and since when a
        run must have begun to be asked."""
        now, now_ms = self._clock.monotonic(), int(self._clock.time() * 1000)
        told = tellings(self._known, now - SILENT_S)
        with self._lock:
            for telling in told:
                claim = self._claims.get(telling.key)
                if claim is not None:
                    self._known[telling.key] = telling.printed
                    started_ms = now_ms - int((now - telling.started_at) * 1000)
                    self._printed[telling.key] = Printed(claim, telling, started_ms)

    def take_printed(self, most: int) -> list[Printed]:
        """Up to `most` of what was gathered, the longest waiting first."""
        with self._lock:
            return [self._printed.pop(key) for key in list(self._printed)[:most]]

    def claims(self) -> list[Claim]:
        """Those that nobody has forgotten."""
        with self._lock:
            return list(self._claims.values())

    def has_open(self) -> bool:
        """Whether one has not ended."""
        with self._lock:
            return any(key not in self._over for key in self._claims)

    def forget(self, claims: Sequence[Claim]) -> None:
        """Their ends are in the broker, or nobody's any more."""
        with self._lock:
            for claim in claims:
                self._claims.pop(claim.key, None)
                self._over.discard(claim.key)
