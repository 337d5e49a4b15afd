"""The fleet at one moment: its broker, its workers, what they run, and how that stands. Looking changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from relayctl.api.place import target_of
from relayctl.core.definition import TOMBSTONE, is_newer_spec
from relayctl.core.occurrence import from_epoch
from relayctl.core.release import lacking
from relayctl.core.running import LastRun, Name, Running, RunningSchedule
from relayctl.errors import NoBroker

# The broker's client is slow to import, so what needs it is imported where a broker is asked.
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import redis

    from relayctl.api.desired import Desired
    from relayctl.api.place import Place
    from relayctl.core.lifecycle import Slot
    from relayctl.core.release import Release
    from relayctl.host.clock import Clock
    from relayctl.store.definitions import Head
    from relayctl.store.fleet import Fleet, WorkerRecord
    from relayctl.store.keys import Keys
    from relayctl.store.server import ServerFacts
    from relayctl.store.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The fleet at one moment. `workers` are the live ones; `backlog` counts unfinished messages."""

    broker: str
    server: ServerFacts
    clock_ahead: timedelta
    namespace: str
    mode: str | None
    workers: tuple[WorkerRecord, ...]
    running: Running
    backlog: int
    newer: tuple[str, ...] = ()
    """What was written by a newer relayctl and cannot be judged here, in words."""
    release: Release | None = None
    """The release in force, where one is."""
    on_release: int = 0
    """How many live workers have taken it."""
    epoch: str = ""
    """The broker's mark, which changes when it loses its data; empty where nobody has marked it."""


def observe(place: Place, clock: Clock | None = None, *, with_last: bool = True) -> Observation:
    """Look at the fleet, without changing anything in it; how each schedule last went only where that is wanted.

    Raises UsageError for an unreadable URL, NoBroker when none is named and none runs on the state directory,
    BrokerUnavailable when the named one does not answer within seconds, BrokerRefused, BrokerUnsuitable.
    """
    from relayctl.host.clock import SystemClock
    from relayctl.store.connect import connect

    clock = clock or SystemClock()
    target = target_of(place, clock)
    client = connect(target)
    try:
        return _observe(client, target, place.namespace, clock, with_last=with_last)
    finally:
        client.close()


def observe_or_nothing(place: Place, clock: Clock | None = None, *, with_last: bool = True) -> Observation | None:
    """As `observe`, or None where no broker is named and none runs, so nothing does."""
    if place.redis_url is None and not place.state_dir.is_dir():
        return None
    try:
        return observe(place, clock, with_last=with_last)
    except NoBroker:
        return None


def with_removed(observation: Observation, desired: Desired, place: Place, clock: Clock | None = None) -> Observation:
    """The same with what is remembered of removed schedules that are wanted again: a pause outlives its schedule.

    Raises as `observe`.
    """
    from relayctl.store.connect import connect
    from relayctl.store.definitions import Definitions
    from relayctl.store.keys import Keys
    from relayctl.store.moves import Moves

    running = observation.running
    wanted = {(app, name) for app, each in desired.descriptions.items() for name in each.schedules}
    fresh = sorted(wanted - running.registry.keys())
    if not fresh:
        return observation
    client = connect(target_of(place, clock))
    try:
        heads = Definitions(client, Keys(place.namespace)).heads(fresh)
        homes = Moves(client, Keys(place.namespace)).homes(heads)
    finally:
        client.close()
    stones = {
        name: replace(_running(head), moved_to="/".join(homes.get(name, ())))
        for name, head in heads.items()
        if head.hash == TOMBSTONE
    }
    return replace(observation, running=replace(running, registry={**running.registry, **stones}))


def beat_age(record: WorkerRecord, now: datetime) -> timedelta:
    """How long ago a worker was last heard of; `now` in whole seconds can lie before a beat of the same second."""
    return max(timedelta(0), now - datetime.fromtimestamp(record.beat_ms / 1000, UTC))


def _observe(client: redis.Redis, target: Target, namespace: str, clock: Clock, *, with_last: bool) -> Observation:
    from relayctl.store.fleet import LIVE_MS, Fleet
    from relayctl.store.invocations import Invocations
    from relayctl.store.keys import Keys
    from relayctl.store.releases import Releases
    from relayctl.store.server import check_server, measure_offset
    from relayctl.store.stream import Stream

    keys = Keys(namespace)
    fleet = Fleet(client, keys)
    server = check_server(client)
    offset = measure_offset(client, clock)
    broker_time = clock.monotonic() + offset
    records, unreadable = fleet.survey()
    live = tuple(record for record in records if broker_time * 1000 - record.beat_ms < LIVE_MS)
    described = fleet.descriptions(record.id for record in live)
    mode = fleet.mode()
    release = Releases(client, keys).current() if mode == "push" else None
    begun = Counter((app, slot) for app, _, slot in Invocations(client, keys).leases())
    registry, stream = _registry(client, keys, begun, with_last=with_last), Stream(client, keys)
    newer = _newer_words(
        [worker for worker, beat_ms in unreadable.items() if broker_time * 1000 - beat_ms < LIVE_MS],
        sorted({app for apps in described.values() for app, item in apps.items() if item is None}),
        [f"{app}/{schedule}" for (app, schedule), entry in registry.items() if is_newer_spec(entry.spec)],
        stream.parked(),
    )
    return Observation(
        broker=target.display,
        server=server,
        clock_ahead=timedelta(seconds=clock.time() - broker_time),
        namespace=namespace,
        mode=mode,
        workers=live,
        running=Running(
            workers={
                worker: {app: item for app, item in apps.items() if item is not None}
                for worker, apps in described.items()
            },
            registry=registry,
            partial=frozenset(record.id for record in live if record.is_partial),
            cap=min((timedelta(seconds=each.max_timeout_s) for each in live if each.max_timeout_s), default=None),
            handlers_in_flight={(app, slot.text): count for (app, slot), count in begun.items() if not slot.schedule},
        ),
        backlog=stream.backlog(),
        newer=newer,
        release=release,
        on_release=0 if release is None else _on_release(fleet, live, release),
        epoch=fleet.epoch() or "",
    )


def _on_release(fleet: Fleet, live: Sequence[WorkerRecord], release: Release) -> int:
    from relayctl.store.releases import held_of

    holdings = fleet.holdings(record.id for record in live)
    return sum(1 for each in live if not lacking(held_of(each, holdings.get(each.id)), release.revisions))


def _newer_words(
    workers: Sequence[str], apps: Sequence[str], definitions: Sequence[str], messages: int
) -> tuple[str, ...]:
    said = (
        (len(workers), "live worker", f"({', '.join(workers)}): what it runs is not known here"),
        (len(apps), "description", f"(of {', '.join(apps)}): not compared"),
        (len(definitions), "definition", f"(of {', '.join(sorted(definitions)[:5])}): not judged here"),
        (messages, "message", "that only a newer worker can run"),
    )
    return tuple(f"{count:,} {noun}{'' if count == 1 else 's'} {more}" for count, noun, more in said if count)


def _registry(
    client: redis.Redis, keys: Keys, begun: Mapping[tuple[str, Slot], int], *, with_last: bool
) -> dict[Name, RunningSchedule]:
    from relayctl.store.definitions import Definitions
    from relayctl.store.history import History
    from relayctl.store.invocations import Invocations

    definitions = Definitions(client, keys)
    heads = definitions.heads(definitions.all_names())
    waiting = Invocations(client, keys).waiting({app for app, _ in heads})
    last = History(client, keys).last(heads) if with_last else {}
    in_flight: Counter[Name] = Counter()
    for (app, slot), count in begun.items():
        if slot.schedule is not None:
            in_flight[app, slot.schedule] += count
    return {
        name: _running(head, last=last.get(name), waiting=waiting.get(name, 0), in_flight=in_flight[name])
        for name, head in heads.items()
    }


def _running(head: Head, *, last: LastRun | None = None, waiting: int = 0, in_flight: int = 0) -> RunningSchedule:
    return RunningSchedule(
        hash=head.hash,
        spec=head.spec,
        from_ms=head.from_ms,
        settled_until=head.settled_mark,
        last=last,
        paused_at=None if head.paused_at is None else from_epoch(head.paused_at),
        paused_until=None if head.paused_until is None else from_epoch(head.paused_until),
        paused_by=head.paused_by,
        pause_reason=head.pause_reason,
        refusals=head.refusals,
        last_error=head.last_error,
        waiting=waiting,
        in_flight=in_flight,
    )
