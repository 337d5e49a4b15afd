"""What relayctl can be asked from Python: what runs, and what a tree would change. The command line stands on it.

It needs no worker in this process. Everything raises `errors.RelayError`, whose message and help are for people.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING

from relayctl.core.definition import is_newer_spec
from relayctl.core.description import describe_app
from relayctl.core.diff import Plan, make_plan
from relayctl.core.occurrence import from_epoch
from relayctl.core.running import BrokenApp, Name, Running, RunningSchedule
from relayctl.errors import NoBroker, NoTemplates

# The broker's client is slow to import, so what needs it is imported where a broker is asked.
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import redis

    from relayctl.core.deadletter import DeadLetter, LetterFilter
    from relayctl.core.model import App
    from relayctl.core.problem import Problem
    from relayctl.host.clock import Clock
    from relayctl.store.fleet import WorkerRecord
    from relayctl.store.inquiry import Fate, Inquiry, Past
    from relayctl.store.keys import Keys
    from relayctl.store.logs import Logs
    from relayctl.store.orders import Orders, Paused, Resumed, Started
    from relayctl.store.server import ServerFacts
    from relayctl.store.target import Target
    from relayctl.templates.load import LoadedTree


MOST_CLOCK_DIFFERENCE = timedelta(seconds=1)
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to look: an explicit broker URL, or the embedded broker of a state directory; and the namespace.

    Orders wait until `min_replica_acks` replicas hold them, and say whether that was so.
    """

    redis_url: str | None
    state_dir: Path
    namespace: str = "relay"
    min_replica_acks: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """A tree to compare: the valid apps with their revisions, and the broken ones, of which what runs stays."""

    apps: Sequence[tuple[App, str]]
    broken: Sequence[BrokenApp] = ()


def read_desired(apps: Path, now: datetime) -> Desired:
    """Read a directory of apps; no code in it is run. NoTemplates where it cannot be read or holds no app."""
    from relayctl.templates.load import load_tree

    tree = load_tree(apps, now=now)
    if tree.trouble is not None:
        raise NoTemplates(f"{apps}: {tree.trouble}")
    if not tree.apps and not tree.problems:
        raise NoTemplates(f"{apps}: no app in it has a template.yaml")
    return desired_of(tree)


def desired_of(tree: LoadedTree) -> Desired:
    """A tree that was read; a directory in it that cannot be an app is as broken as an app with a bad template."""
    valid = {loaded.name for loaded in tree.apps if loaded.app is not None}
    broken: dict[str, BrokenApp] = {}
    for problem in tree.problems:
        name = _app_of(problem, tree.root)
        if problem.is_error and name and name not in valid:
            place = f"{problem.place.file}:{problem.place.line}"
            broken.setdefault(name, BrokenApp(app=name, place=place, problem=f"{problem.code} {problem.message}"))
    return Desired(
        apps=[(loaded.app, loaded.digest) for loaded in tree.apps if loaded.app is not None],
        broken=tuple(broken.values()),
    )


def _app_of(problem: Problem, root: Path) -> str:
    place = PurePath(problem.place.file)
    return place.relative_to(root).parts[0] if place != root and place.is_relative_to(root) else ""


def observe(place: Place, clock: Clock) -> Observation:
    """Look at the fleet, without changing anything in it.

    Raises UsageError for an unreadable URL, NoBroker when none is named and none runs on the state directory,
    BrokerUnavailable when the named one does not answer within seconds, BrokerRefused, BrokerUnsuitable.
    """
    from relayctl.store.connect import connect

    target = _target(place, clock)
    client = connect(target)
    try:
        return _observe(client, target, place.namespace, clock)
    finally:
        client.close()


def observe_or_nothing(place: Place, clock: Clock) -> Observation | None:
    """As `observe`, or None where no broker is named and none runs, so nothing does."""
    if place.redis_url is None and not place.state_dir.is_dir():
        return None
    try:
        return observe(place, clock)
    except NoBroker:
        return None


def plan(
    desired: Desired, observation: Observation | None, *, now: datetime, horizon: timedelta = timedelta(hours=24)
) -> Plan:
    """What making `desired` so would change in what was observed (None: nothing runs), as of `now`, an aware instant.

    `horizon` is the time over which firings are counted. Raises nothing: a broken app is part of the answer.
    """
    return make_plan(
        {app.name: describe_app(app, revision) for app, revision in desired.apps},
        observation.running if observation is not None else Running(workers={}, registry={}),
        now=now,
        broken=desired.broken,
        horizon=horizon,
    )


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
    more = f" and {len(names) - _MOST_NAMED} more apps" if len(names) > _MOST_NAMED else ""
    return f"{limits} of resources are not enforced on every live worker: {', '.join(names[:_MOST_NAMED])}{more}"


@contextmanager
def orders(place: Place, clock: Clock) -> Iterator[Orders]:
    """A connection on which several orders and looks at their runs share one client. Raises as `observe`."""
    from relayctl.store.connect import connect
    from relayctl.store.keys import Keys
    from relayctl.store.orders import Orders

    client = connect(_target(place, clock), client_name="relayctl-orders")
    try:
        yield Orders(client, Keys(place.namespace), place.min_replica_acks)
    finally:
        client.close()


def pause(
    place: Place, clock: Clock, app: str, schedule: str, *, until: datetime | None = None, by: str, reason: str = ""
) -> Paused:
    """Pause a schedule fleet-wide, until that instant if any. Raises UnknownTarget, Refused, or as `observe`."""
    with orders(place, clock) as desk:
        return desk.pause(app, schedule, until=until, by=by, reason=reason)


def resume(place: Place, clock: Clock, app: str, schedule: str, *, by: str) -> Resumed:
    """End a schedule's pause, with no backlog. Raises UnknownTarget, Refused, or as `observe`."""
    with orders(place, clock) as desk:
        return desk.resume(app, schedule, by=by)


def trigger(place: Place, clock: Clock, app: str, schedule: str, *, key: str, by: str) -> Started:
    """Run a schedule now, out of band; the same key within 24 hours starts nothing more. Raises as `pause`."""
    with orders(place, clock) as desk:
        return desk.trigger(app, schedule, key=key, by=by)


def dead_letters(place: Place, clock: Clock, wanted: LetterFilter, *, limit: int) -> tuple[list[DeadLetter], int, int]:
    """The newest dead letters that the filter accepts, how many there are in all, and how many were evicted."""
    from relayctl.store.connect import connect
    from relayctl.store.dead_letters import DeadLetters
    from relayctl.store.keys import Keys

    client = connect(_target(place, clock))
    try:
        letters = DeadLetters(client, Keys(place.namespace))
        return letters.newest(wanted, limit), *letters.counts()
    finally:
        client.close()


def history(place: Place, clock: Clock, app: str, name: str, *, limit: int = 20, failed_only: bool = False) -> Past:
    """How the firings of a schedule, or the event runs of a handler, ended: the newest first.

    Raises UnknownTarget, or as `observe`.
    """
    with _inquiry(place, clock) as desk:
        return desk.past(app, name, limit=limit, failed_only=failed_only)


def why(place: Place, clock: Clock, app: str, schedule: str, wanted: datetime | date | None = None) -> Fate:
    """What became of the firing at an instant, of those on a day in the schedule's zone, or of the last (None).

    Raises UnknownTarget, UsageError where it was never due, or as `observe`.
    """
    with _inquiry(place, clock) as desk:
        return desk.fate(app, schedule, wanted)


@contextmanager
def logs(place: Place, clock: Clock) -> Iterator[Logs]:
    """A connection on which runs and their kept output are looked at, again while they go on. Raises as `observe`."""
    from relayctl.store.connect import connect
    from relayctl.store.keys import Keys
    from relayctl.store.logs import Logs

    client = connect(_target(place, clock), client_name="relayctl-logs")
    try:
        yield Logs(client, Keys(place.namespace))
    finally:
        client.close()


@contextmanager
def _inquiry(place: Place, clock: Clock) -> Iterator[Inquiry]:
    from relayctl.store.connect import connect
    from relayctl.store.inquiry import Inquiry
    from relayctl.store.keys import Keys

    client = connect(_target(place, clock))
    try:
        yield Inquiry(client, Keys(place.namespace))
    finally:
        client.close()


def _target(place: Place, clock: Clock) -> Target:
    from relayctl.broker.choose import resolve_broker
    from relayctl.host.state import StateDir

    choice = resolve_broker(explicit_url=place.redis_url, state=StateDir(place.state_dir), may_start=False, clock=clock)
    return choice.target


def _observe(client: redis.Redis, target: Target, namespace: str, clock: Clock) -> Observation:
    from relayctl.store.fleet import LIVE_MS, Fleet
    from relayctl.store.keys import Keys
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
    registry, stream = _registry(client, keys), Stream(client, keys)
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
        mode=fleet.mode(),
        workers=live,
        running=Running(
            workers={
                worker: {app: item for app, item in apps.items() if item is not None}
                for worker, apps in described.items()
            },
            registry=registry,
            partial=frozenset(record.id for record in live if record.is_partial),
            cap=min((timedelta(seconds=each.max_timeout_s) for each in live if each.max_timeout_s), default=None),
        ),
        backlog=stream.backlog(),
        newer=newer,
    )


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


def _registry(client: redis.Redis, keys: Keys) -> dict[Name, RunningSchedule]:
    from relayctl.store.definitions import Definitions
    from relayctl.store.history import History
    from relayctl.store.invocations import Invocations

    definitions = Definitions(client, keys)
    heads = definitions.heads(definitions.all_names())
    waiting = Invocations(client, keys).waiting({app for app, _ in heads})
    last = History(client, keys).last(heads)
    return {
        name: RunningSchedule(
            hash=head.hash,
            spec=head.spec,
            from_ms=head.from_ms,
            settled_until=head.settled_mark,
            last=last.get(name),
            paused_at=None if head.paused_at is None else from_epoch(head.paused_at),
            paused_until=None if head.paused_until is None else from_epoch(head.paused_until),
            paused_by=head.paused_by,
            pause_reason=head.pause_reason,
            refusals=head.refusals,
            last_error=head.last_error,
            waiting=waiting.get(name, 0),
        )
        for name, head in heads.items()
    }


def beat_age(record: WorkerRecord, now: datetime) -> timedelta:
    """How long ago a worker was last heard of; `now` in whole seconds can lie before a beat of the same second."""
    return max(timedelta(0), now - datetime.fromtimestamp(record.beat_ms / 1000, UTC))
