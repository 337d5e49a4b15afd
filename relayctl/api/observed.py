"""What is worth saying of a fleet that was looked at: broker, clocks, versions, and limits that nobody enforces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.counting import listed

if TYPE_CHECKING:
    from relayctl.api.observation import Observation
    from relayctl.store.fleet import WorkerRecord

MOST_CLOCK_DIFFERENCE = timedelta(seconds=1)
_MOST_NAMED = 5


def checks(observation: Observation, *, min_replica_acks: int = 0) -> tuple[str, ...]:
    """What is wrong, or will be, with the broker, the clocks and the versions of the workers; in words.

    `min_replica_acks` replicas must hold a publication before it counts.
    """
    found = []
    server = observation.server
    if server.is_evicting:
        found.append(
            f"broker    maxmemory-policy is {server.maxmemory_policy}: under memory pressure an instant may run twice; "
            "set it to noeviction"
        )
    if server.is_replica:
        found.append("broker    it is a read-only replica, and takes no work; --redis should lead to its primary")
    if server.replicas < min_replica_acks:
        found.append(
            f"broker    {server.replicas} of {min_replica_acks} replicas are in step: publications stay in the outbox "
            "until enough acknowledge (RELAYCTL_MIN_REPLICA_ACKS)"
        )
    if abs(observation.clock_ahead) > MOST_CLOCK_DIFFERENCE:
        seconds = observation.clock_ahead.total_seconds()
        found.append(
            f"clock     this machine is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} the broker"
        )
    for what, versions in (
        ("zones", {worker.tzdata for worker in observation.workers}),
        ("evaluator", {worker.evaluator for worker in observation.workers}),
        ("relayctl", {worker.version for worker in observation.workers}),
    ):
        if len(versions) > 1:
            found.append(f"{what:<9} live workers differ: {', '.join(sorted(versions))}")
    found += [f"newer     {words}" for words in observation.newer]
    found += [f"worker    {worker.id}: {note}" for worker in observation.workers for note in worker.notes]
    return tuple(found)


def limits_not_kept(declared: Mapping[str, Collection[str]], workers: Iterable[WorkerRecord]) -> str:
    """Which resource limits of these (their names by app) some of the workers keep for no app, in words or empty."""
    unable = {limit for worker in workers for limit in worker.unenforced}
    lacking = {name: unable.intersection(limits) for name, limits in declared.items()}
    names = sorted(name for name, limits in lacking.items() if limits)
    if not names:
        return ""
    limits = " and ".join(sorted({limit for found in lacking.values() for limit in found}))
    return f"{limits} of resources are not enforced on every live worker: {listed(names, _MOST_NAMED, 'app')}"
