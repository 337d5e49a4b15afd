"""Registers schedules in a transaction of the caller's own: both are done, or neither is.

Redis takes nothing back once a transaction runs, so whatever could be refused is refused before it begins. Removals
are not for here: what the files of a live worker lack, the worker takes out.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayctl.api.desired import read_tree
from relayctl.core.counting import listed
from relayctl.core.definition import TOMBSTONE, Spec, is_newer_spec
from relayctl.errors import (
    BrokerRefused,
    InvalidTemplates,
    ModeConflict,
    NewerFormat,
    Refused,
    RegistrationConflict,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from relayctl.core.model import Schedule
    from relayctl.core.running import Name
    from relayctl.host.clock import Clock
    from relayctl.store.definitions import Head, Proposal
    from relayctl.store.joining import Ground, Joint

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What became of one schedule: `created`, `changed` or `unchanged`, and the generation in force since `since`."""

    app: str
    schedule: str
    verdict: str
    gen: int
    since: datetime


class Registration:
    """A registration that is queued as the first commands of `pipeline`. What follows them is the caller's."""

    def __init__(self, pipeline: Any, joint: Joint, proposals: Sequence[Proposal], same: Mapping[Name, Head]) -> None:
        self.pipeline = pipeline
        """The transaction: queue commands on it."""
        self.registered: tuple[Registered, ...] = ()
        """What became of each schedule, by name; empty before the end."""
        self.replies: list[Any] = []
        """The replies to the caller's own commands, in their order; empty before the end."""
        self._joint = joint
        self._proposals = proposals
        self._same = same

    def read(self, replies: Sequence[Any]) -> tuple[Registered, ...]:
        """Take the replies of `pipeline.execute()`, all of them, and say what became of the schedules.

        Raises BrokerRefused where the broker failed a registration inside the transaction.
        """
        answers = self._joint.answers(self._proposals, replies)
        found = {name: _registered(name, verdict.value, head) for name, (verdict, head) in answers.items()}
        found |= {name: _registered(name, "unchanged", head) for name, head in self._same.items()}
        self.registered = tuple(found[name] for name in sorted(found))
        self.replies = list(replies[len(self._proposals) :])
        return self.registered

    def commit(self) -> tuple[Registered, ...]:
        """Run the transaction.

        Raises RegistryChanged where what it rests on has changed, and nothing was done; BrokerUnavailable, whose text
        says where it may have been done; BrokerRefused where it was done and a command in it failed.
        """
        replies = self._joint.commit()
        registered = self.read(replies)
        for number, reply in enumerate(self.replies, start=1):
            if isinstance(reply, Exception):
                raise BrokerRefused(
                    f"the transaction was done, but command {number} in it failed: {reply}",
                    help="the other commands and the registration stand: Redis takes nothing back",
                ) from reply
        return registered


def register(
    pipeline: Any,
    what: Path | Mapping[Name, Schedule],
    *,
    namespace: str = "relay",
    clock: Clock | None = None,
) -> Registration:
    """Queue a registration on a redis-py pipeline, and begin its transaction: queue your own commands behind it.

    `what` is a directory of apps, or schedules by app and name. The pipeline may watch keys already, and must have
    nothing queued. Watched are the records of the schedules, the mode and the pins; a change of them makes `execute`
    raise redis.WatchError, and then nothing was done. On a Cluster the caller's keys need the hash tag `{namespace}`.

    Raises, with nothing queued: RegistrationConflict where a live worker holds another definition of a schedule,
    ModeConflict in push mode, Refused for a rename that is still to be done, NewerFormat where a newer relayctl has a
    say, InvalidTemplates, NoTemplates, UsageError, BrokerRefused for records that relayctl did not write,
    BrokerUnavailable.
    """
    from relayctl.store.definitions import Mode, Proposal
    from relayctl.store.joining import Joint
    from relayctl.store.keys import Keys

    schedules = _schedules(what, clock) if isinstance(what, Path) else what
    specs = {name: Spec.of(schedule) for name, schedule in schedules.items()}
    former = {name: each.moved_from for name, each in schedules.items() if each.moved_from is not None}
    joint = Joint(pipeline, Keys(namespace))
    try:
        ground = joint.look(sorted({*specs, *former.values()}))
        _check_mode(ground, namespace)
        _check_renames(former, ground)
        _check_holders(specs, ground)
        same = {name: ground.heads[name] for name in specs if _hash(ground, name) == specs[name].hash}
        proposals = [
            Proposal(
                app=name[0],
                schedule=name[1],
                # By compare-and-set on the head that was seen, which the transaction is watching.
                mode=Mode.EDIT,
                hash=spec.hash,
                spec=spec.text,
                held_gen=ground.heads[name].gen if name in ground.heads else 0,
            )
            for name, spec in sorted(specs.items())
            if name not in same
        ]
        joint.queue(proposals)
    except UsageError:
        # What the caller has queued stays the caller's.
        raise
    except BaseException:
        pipeline.reset()
        raise
    return Registration(pipeline, joint, proposals, same)


@contextmanager
def registering(
    client: Any,
    what: Path | Mapping[Name, Schedule],
    *,
    namespace: str = "relay",
    clock: Clock | None = None,
) -> Iterator[Registration]:
    """`register` on a pipeline of this redis-py client, run at the end of the block unless the block raises.

    Raises as `register`, then as `Registration.commit`. It does not try again: RegistryChanged says that one may.
    """
    pipeline = client.pipeline(transaction=True)
    try:
        registration = register(pipeline, what, namespace=namespace, clock=clock)
        yield registration
        registration.commit()
    finally:
        pipeline.reset()


def _schedules(apps: Path, clock: Clock | None) -> dict[Name, Schedule]:
    from relayctl.host.clock import SystemClock

    tree = read_tree(apps, (clock or SystemClock()).now().replace(microsecond=0))
    error = next((each for each in tree.problems if each.is_error), None)
    if error is not None:
        raise InvalidTemplates(
            f"{error.place.file}:{error.place.line}: {error.code} {error.message}",
            help="relayctl validate shows all there is",
        )
    return {
        (each.name, schedule.name): schedule
        for each in tree.apps
        if each.app is not None
        for schedule in each.app.schedules
    }


def _hash(ground: Ground, name: Name) -> str:
    """The definition in force, removed or not; empty where there never was one."""
    head = ground.heads.get(name)
    return "" if head is None else head.hash


def _check_mode(ground: Ground, namespace: str) -> None:
    if ground.mode == "push":
        raise ModeConflict(
            f"namespace {namespace} is in push mode, where releases alone define schedules",
            help="publish one: relayctl apply, or relayctl.api.apply",
        )


def _check_renames(former: Mapping[Name, Name], ground: Ground) -> None:
    for (app, name), old in sorted(former.items()):
        if _hash(ground, (app, name)) in {"", TOMBSTONE} and _hash(ground, old) not in {"", TOMBSTONE}:
            raise Refused(
                f"{app}/{name} takes over from {old[0]}/{old[1]}, which is in force; a registration moves nothing",
                help="let a worker take the change: it moves what the old name has",
            )


def _check_holders(specs: Mapping[Name, Spec], ground: Ground) -> None:
    for (app, name), spec in sorted(specs.items()):
        head = ground.heads.get((app, name))
        if head is not None and head.hash == spec.hash:
            continue
        what = f"{app}/{name}"
        if head is not None and is_newer_spec(head.spec):
            raise NewerFormat(f"{what} was defined by a newer relayctl", help="use that version, or upgrade this one")
        holders = sorted(worker for worker, held in ground.holders.items() if held.get(what, spec.hash) != spec.hash)
        if holders:
            raise RegistrationConflict(
                f"{what} is held with another definition by {_named(holders)}",
                help="change what the workers follow first, or stop them",
            )
        if ground.newer and head is not None and head.hash != TOMBSTONE:
            raise NewerFormat(
                f"{what} may be held with another definition by {_named(ground.newer)} of a newer relayctl",
                help="use that version, or upgrade this one",
            )


def _named(workers: Sequence[str]) -> str:
    return f"{'worker' if len(workers) == 1 else 'workers'} {listed(workers, _MOST_NAMED)}"


def _registered(name: Name, verdict: str, head: Head | None) -> Registered:
    assert head is not None, "what is registered has a head"
    since = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=head.from_ms)
    return Registered(app=name[0], schedule=name[1], verdict=verdict, gen=head.gen, since=since)
