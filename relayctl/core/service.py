"""What is to become of the replicas of one service: which to start, to stop, to wait for. Decisions over values alone.

Processes are `runners.service`, the loop around both is `worker.services`. Times are monotonic seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from relayctl.core.model import App, Service

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""The pause after the n-th failure in a row; the last one stays."""
SETTLED_AFTER_S = 2.0
"""A replica without a check counts as up once its program has run for that long."""
CHECKED_WITHIN_S = 60.0
"""A replica with a check is given up when it has not passed one for that long after its start."""
STABLE_AFTER_S = 60.0
"""A replica that stays up for that long has no failures in a row any more."""
LOOP_FROM = 3
"""So many failures in a row are a crash loop."""
MOST_FAILED_CHECKS = 3
"""A replica that is up is restarted after so many failed checks in a row."""

REPLACED = "its definition or code has changed"
SURPLUS = "fewer replicas are wanted"
REMOVED = "it is not in the template any more"


class Phase(Enum):
    """A replica that has not shown yet that it works, one that has, and one that was told to end."""

    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One process of a service. `version` is what it was started from, `port` the one it was told."""

    version: str
    phase: Phase
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Failures in a row of the replica of one index: how often, why the last time, and when to try again."""

    version: str
    failures: int
    reason: str
    retry_at: float

    @property
    def is_loop(self) -> bool:
        """Whether it has failed so often that trying again is unlikely to help."""
        return self.failures >= LOOP_FROM


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a service should be: so many replicas of that version, on ports from `port` on."""

    version: str
    replicas: int
    port: int | None = None

    def port_of(self, index: int) -> int | None:
        """The port of the replica of that index."""
        return None if self.port is None else self.port + index


@dataclass(frozen=True, slots=True)
class Start:
    """Start the replica of that index, of the wanted version."""

    index: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Tell the replica of that index to end, for that reason."""

    index: int
    reason: str


Order = Start | Stop


def version_of(app: App, service: Service, code: str, directory: str) -> str:
    """What a replica is started from, as a digest: two replicas of one version cannot be told apart.

    `code` is the digest of the app's files without its template. The number of replicas and the check are no part of
    it: they change without a restart.
    """
    parts = (
        directory, code, app.runtime, app.env, app.secrets,
        app.resources.memory, app.resources.cpus, app.resources.pids,
        service.entrypoint, service.command, service.port,
    )  # fmt: skip
    text = json.dumps(parts, separators=(",", ":"))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12, person=b"relay-service").hexdigest()


def decide(
    wanted: Wanted | None, replicas: Mapping[int, Replica], troubles: Mapping[int, Trouble], now: float
) -> tuple[Order, ...]:
    """What to do now; None wants nothing of it to run. Asked again after each change and at `next_at`.

    A change is rolled through one replica at a time: while one that should be up is not, no other of them is stopped.
    """
    if wanted is None:
        return tuple(Stop(index, REMOVED) for index, it in sorted(replicas.items()) if it.phase is not Phase.STOPPING)
    return (
        *_surplus(wanted, replicas),
        *(Start(index) for index in _vacant(wanted, replicas) if _is_due(wanted, troubles.get(index), now)),
        *_replacements(wanted, replicas, troubles, now),
    )


def next_at(wanted: Wanted | None, replicas: Mapping[int, Replica], troubles: Mapping[int, Trouble]) -> float | None:
    """When the next pause after a failure ends, or None where none is under way."""
    if wanted is None:
        return None
    waiting = {*_vacant(wanted, replicas), *outdated(wanted, replicas)}
    found = (troubles[index] for index in waiting if index in troubles)
    return min((it.retry_at for it in found if it.version == wanted.version), default=None)


def failed(before: Trouble | None, version: str, reason: str, *, up_s: float, now: float) -> Trouble:
    """A replica has ended without having been told to, after it had been up for `up_s`, or one cannot be started."""
    is_in_a_row = before is not None and before.version == version and up_s < STABLE_AFTER_S
    failures = before.failures + 1 if is_in_a_row and before is not None else 1
    pause = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
    return Trouble(version=version, failures=failures, reason=reason, retry_at=now + pause)


def outdated(wanted: Wanted | None, replicas: Mapping[int, Replica]) -> list[int]:
    """The indices of replicas that are of another version than the wanted one, and are wanted in number."""
    if wanted is None:
        return []
    return [index for index, it in sorted(replicas.items()) if index < wanted.replicas and it.version != wanted.version]


def _surplus(wanted: Wanted, replicas: Mapping[int, Replica]) -> Iterator[Stop]:
    for index, replica in sorted(replicas.items()):
        if index >= wanted.replicas and replica.phase is not Phase.STOPPING:
            yield Stop(index, SURPLUS)


def _vacant(wanted: Wanted, replicas: Mapping[int, Replica]) -> list[int]:
    """Indices without a process whose port no other replica of this service still has."""
    return [
        index for index in range(wanted.replicas) if index not in replicas and not _is_blocked(wanted, index, replicas)
    ]


def _is_blocked(wanted: Wanted, index: int, replicas: Mapping[int, Replica]) -> bool:
    port = wanted.port_of(index)
    return port is not None and any(other != index and it.port == port for other, it in replicas.items())


def _is_due(wanted: Wanted, trouble: Trouble | None, now: float) -> bool:
    # What another version did says nothing of this one, which may be the mended one.
    return trouble is None or trouble.version != wanted.version or now >= trouble.retry_at


def _replacements(
    wanted: Wanted, replicas: Mapping[int, Replica], troubles: Mapping[int, Trouble], now: float
) -> Iterator[Stop]:
    old = {index: it for index in outdated(wanted, replicas) if (it := replicas[index]).phase is not Phase.STOPPING}
    # One that is not up serves nobody, so there is nothing to wait for.
    useless = [index for index, it in old.items() if it.phase is Phase.STARTING]
    if useless:
        yield from (Stop(index, REPLACED) for index in useless)
    elif all(index in old or _is_settled(wanted, index, replicas, troubles) for index in range(wanted.replicas)):
        # Where the ports move by a few, the order matters: first one whose new port is free.
        free = [index for index in old if not _is_blocked(wanted, index, replicas)]
        yield from (Stop(index, REPLACED) for index in free[:1] if _is_due(wanted, troubles.get(index), now))


def _is_settled(wanted: Wanted, index: int, replicas: Mapping[int, Replica], troubles: Mapping[int, Trouble]) -> bool:
    replica = replicas.get(index)
    if replica is None:
        # It waits for the port of an old one, so the old ones must not wait for it.
        return _is_blocked(wanted, index, replicas)
    trouble = troubles.get(index)
    # One that comes up only to fail again must not take the old ones with it.
    is_looping = trouble is not None and trouble.version == wanted.version and trouble.is_loop
    return replica.phase is Phase.UP and replica.version == wanted.version and not is_looping
