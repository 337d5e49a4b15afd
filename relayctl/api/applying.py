"""Publishing releases: reads a tree as one snapshot, decides what it would change, publishes it, and sees who takes it.

Every step can be left: until the publication nothing is changed, and after it everything is. It prints nothing.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.api.convergence import convergence, live_workers
from relayctl.api.desired import desired_of
from relayctl.api.observation import observe, with_removed
from relayctl.api.place import target_of
from relayctl.api.planning import basis, plan_of
from relayctl.core.definition import TOMBSTONE, is_newer_spec
from relayctl.core.release import Draft, Release
from relayctl.core.removal import Limits, Removal, refuse_removal
from relayctl.errors import (
    BrokerRefused,
    BrokerUnavailable,
    InvalidTemplates,
    ModeConflict,
    NewerFormat,
    NoBroker,
    NoTemplates,
    Refused,
    StalePlan,
    StateBusy,
    UnknownTarget,
)
from relayctl.store.definitions import Definitions
from relayctl.store.failure import translate
from relayctl.store.fleet import Fleet
from relayctl.store.releases import Answer, Definition, Releases, ReleaseVerdict
from relayctl.store.replicas import Replicas

if TYPE_CHECKING:
    import redis

    from relayctl.api.convergence import Convergence
    from relayctl.api.observation import Observation
    from relayctl.api.place import Place
    from relayctl.core.description import Fields
    from relayctl.core.diff import Plan
    from relayctl.core.planfile import Applied, SavedPlan
    from relayctl.core.release import LeaseHolder
    from relayctl.host.clock import Clock
    from relayctl.sources.content import Content
    from relayctl.store.definitions import Head, Name
    from relayctl.store.keys import Keys

_LOCK_POLL_S = 0.5
_CONVERGE_POLL_S = 0.2
_MOST_TRIES = 5
_AGAIN_S = 1.0
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What publishing a content would do now: the plan, the definitions it changes and removes, and what it builds on.

    `recoded` are the apps of which only files change that no template speaks of. `is_lost` says that the bundle of the
    release in force is gone or damaged, so that no further worker can take it.
    """

    content: Content
    observation: Observation
    plan: Plan
    current: Release | None
    base: int
    definitions: tuple[Definition, ...]
    registered: int
    recoded: tuple[str, ...]
    is_lost: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether publishing it would change anything."""
        # A plan may show more: what a worker has not taken yet, or what nobody can tell while none lives.
        is_other = self.current is None or dict(self.current.revisions) != self.content.revisions
        return is_other or self.is_lost or bool(self.definitions)

    @property
    def removed(self) -> tuple[Name, ...]:
        """The schedules that go, but for those that go on under another name."""
        moved = {each.moved_from for each in self.definitions}
        names = ((each.app, each.schedule) for each in self.definitions if each.hash == TOMBSTONE)
        return tuple(name for name in names if name not in moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who publishes, with which command, and why."""

    by: str
    pid: int
    command: str
    message: str = ""


def _pause(clock: Clock, seconds: float) -> None:
    clock.wait(threading.Event(), seconds)


class ReleaseDesk:
    """Everything about releases over one client. It raises BrokerUnavailable and BrokerRefused besides what it says."""

    def __init__(self, client: redis.Redis, keys: Keys, place: Place, clock: Clock) -> None:
        self._client = client
        self._place = place
        self._clock = clock
        self._fleet = Fleet(client, keys)
        self._definitions = Definitions(client, keys)
        self._releases = Releases(client, keys)
        self._replicas = Replicas(client, keys, place.min_replica_acks)
        self._token = secrets.token_hex(8)
        self.replicated: bool | None = None
        """Whether as many replicas hold what was published as the settings want; None where they want none."""

    # Looking

    def all(self) -> list[Release]:
        """The releases on record, the newest first."""
        return self._releases.all()

    def kept_bundles(self) -> frozenset[str]:
        """The digests of the bundles that can still be rolled back to."""
        return self._releases.kept_bundles()

    def release(self, serial: int) -> Release:
        """One release; UnknownTarget where there is none on record."""
        found = self._releases.get(serial)
        if found is None:
            newest = self._releases.serial()
            hint = f"the last one is {newest}; relayctl releases lists them" if newest else "nothing was applied yet"
            raise UnknownTarget(f"no release {serial} is on record", help=hint)
        return found

    def serial(self) -> int:
        """The number of the release in force, 0 where there is none."""
        return self._releases.serial()

    @contextmanager
    def content_of(self, release: Release, *, max_bytes: int) -> Iterator[Content]:
        """What a release held; Refused where its bundle is not kept any more."""
        from relayctl.sources.bundle import Bundle
        from relayctl.sources.content import content_in

        data = self._releases.bundle(release.digest)
        if data is None:
            raise Refused(
                f"the bundle of release {release.serial} is not kept any more",
                help="check the commit out and apply it: relayctl releases show names it where it was clean",
            )
        bundle = Bundle(digest=release.digest, data=data, files=0)
        with content_in(bundle, Path(f"release {release.serial}"), self._clock, max_bytes=max_bytes) as content:
            yield replace(content, commit=release.draft.commit, rolls_back_to=release.serial)

    # Deciding

    def check_mode(self) -> None:
        """ModeConflict where the workers of this namespace follow files and not releases."""
        if self._fleet.mode() == "pull":
            raise _pulls(self._place.namespace)

    def propose(self, content: Content, now: datetime) -> Proposal:
        """What publishing this would do now. The release in force is read first: it is what the rest is fenced by."""
        base, current = self._releases.serial(), self._releases.current()
        if base and current is None:
            raise _newer(f"release {base} was made")
        desired = desired_of(content.tree)
        seen = observe(self._place, self._clock, with_last=False)
        observation = with_removed(seen, desired, self._place, self._clock)
        plan = plan_of(desired, observation, now=now)
        names = self._definitions.all_names()
        specs: dict[Name, Fields] = {
            (app, name): fields
            for app, described in desired.descriptions.items()
            for name, fields in described.schedules.items()
        }
        heads = self._definitions.heads(names | specs.keys())
        if (newer := next((name for name, head in heads.items() if is_newer_spec(head.spec)), None)) is not None:
            raise _newer(f"the definition of {newer[0]}/{newer[1]} was written")
        changed = {each.app for each in plan.changes}
        before = {} if current is None else current.revisions
        recoded = [app for app, revision in content.revisions.items() if before.get(app, revision) != revision]
        proposal = Proposal(
            content=content,
            observation=observation,
            plan=plan,
            current=current,
            base=base,
            definitions=tuple(_definitions(specs, heads, _moves(plan, heads))),
            registered=len(names),
            recoded=tuple(sorted(set(recoded) - changed)),
        )
        # Where anything changes the new release brings a bundle of its own.
        return proposal if proposal.is_needed else replace(proposal, is_lost=self._is_lost(current))

    def _is_lost(self, current: Release | None) -> bool:
        from relayctl.sources.bundle import is_intact

        if current is None:
            return False
        data = self._releases.bundle(current.digest)
        return data is None or not is_intact(data, current.digest)

    def check_saved(self, saved: SavedPlan, proposal: Proposal) -> None:
        """StalePlan where a saved plan may not be applied to what is there now."""
        from relayctl.core.planfile import refusal_of
        from relayctl.render.planfile import refusal_words

        records = self._releases.all()
        ours = next((each for each in records if each.draft.plan == saved.id), None)
        found = basis(
            proposal.observation,
            template=proposal.content.live_digest,
            namespace=self._place.namespace,
            release=proposal.base or None,
        )
        refusal = refusal_of(
            saved,
            found,
            applied=_applied(ours),
            latest=_applied(proposal.current),
            fresh=proposal.plan,
        )
        if refusal is not None:
            message, way_out = refusal_words(refusal)
            raise StalePlan(message, help=way_out)

    # The lease

    def lock(self, author: Author, within: timedelta, on_wait: Callable[[LeaseHolder], None]) -> None:
        """Be the only one that publishes; StateBusy where another still does when the time is over."""
        until, has_told = self._clock.monotonic() + within.total_seconds(), False
        while (holder := self._hold(author)) is not None:
            if self._clock.monotonic() >= until:
                raise StateBusy(_locked_words(holder, self._now()), help=_LOCKED_HELP)
            if not has_told:
                has_told = True
                on_wait(holder)
            _pause(self._clock, _LOCK_POLL_S)

    def _hold(self, author: Author) -> LeaseHolder | None:
        return self._releases.take_lease(self._token, by=author.by, pid=author.pid, command=author.command)

    def unlock(self) -> None:
        """Let the next one publish. Where the broker does not hear it, the lease ends by itself."""
        try:
            self._releases.give_lease_back(self._token)
        except (BrokerUnavailable, BrokerRefused):
            return

    # Publishing

    def publish(self, proposal: Proposal, author: Author, *, saved: SavedPlan | None = None) -> Release:
        """Put it in force, whole or not at all. StalePlan where something else was put in force meanwhile."""
        content = proposal.content
        draft = Draft(
            id=secrets.token_hex(8),
            base=proposal.base,
            digest=content.bundle.digest,
            tree=content.tree.digest,
            by=author.by,
            revisions=content.revisions,
            message=author.message,
            commit=content.commit,
            plan="" if saved is None else saved.id,
            rolls_back_to=content.rolls_back_to,
            schedules=content.schedules,
            counts=_counts(proposal.plan),
        )
        self._hold(author)
        self._releases.stage(content.bundle.digest, content.bundle.data)
        answer = self._published(draft, proposal.definitions)
        if answer.verdict is not ReleaseVerdict.PUBLISHED or answer.made_at is None:
            raise self._refusal(answer)
        self.replicated = self._replicas.confirm()
        return Release(serial=answer.serial, made_at=answer.made_at, draft=draft)

    def _published(self, draft: Draft, definitions: Sequence[Definition]) -> Answer:
        # Sending it again is safe, and where an answer was lost it says what became of it.
        for left in reversed(range(_MOST_TRIES)):
            try:
                return self._releases.publish(draft, definitions)
            except BrokerUnavailable as error:
                if not left:
                    raise BrokerUnavailable(
                        f"{error.message}; whether the release was published is not known",
                        help="relayctl releases tells, once the broker answers: it stands as a whole, or not at all",
                    ) from error
                _pause(self._clock, _AGAIN_S)
        raise AssertionError

    def _refusal(self, answer: Answer) -> Exception:
        from relayctl.render.releases import overtaken_words

        match answer.verdict:
            case ReleaseVerdict.MODE:
                return _pulls(self._place.namespace)
            case ReleaseVerdict.MOVED:
                newest = self._releases.get(answer.serial)
                return StalePlan(overtaken_words(answer.serial, newest), help="relayctl plan")
            case ReleaseVerdict.CHANGED:
                return StalePlan(
                    f"{answer.what} was changed in the registry meanwhile; nothing was published", help="relayctl plan"
                )
            case ReleaseVerdict.FOREIGN:
                return BrokerRefused(
                    f"what the broker has of {answer.what} is nothing that relayctl wrote; nothing was published",
                    help="look at that key, and remove it if nobody needs it",
                )
            case _:
                return StalePlan("the bundle was dropped meanwhile; nothing was published", help="run this again")

    # Seeing who takes it

    def await_convergence(self, release: Release, within: timedelta) -> Convergence:
        """Wait until every live worker has taken it, or it was replaced, or the time is over."""
        until = self._clock.monotonic() + within.total_seconds()
        while True:
            found = convergence(self._fleet, self._releases, release, now_ms=self._now().timestamp() * 1000)
            if found.is_done or found.superseded_by or self._clock.monotonic() >= until:
                return found
            _pause(self._clock, _CONVERGE_POLL_S)

    # The mode

    def mode(self) -> str | None:
        """How the namespace gets its desired state: push, pull, or None where nobody has decided."""
        return self._fleet.mode()

    def switch_mode(self, wanted: str) -> bool:
        """Change it; False where it is that already. Refused while a worker of the other kind lives."""
        mode = self._fleet.mode()
        if mode == wanted:
            return False
        live = live_workers(self._fleet, self._now().timestamp() * 1000) if mode is not None else []
        if live:
            more = f" and {len(live) - _MOST_NAMED} more" if len(live) > _MOST_NAMED else ""
            raise Refused(
                f"namespace {self._place.namespace} stays in {mode} mode, since workers live that need it: "
                f"{', '.join(live[:_MOST_NAMED])}{more}",
                help=f"stop {'it' if len(live) == 1 else 'them'}, then run relayctl mode {wanted} again",
            )
        self._releases.set_mode(wanted, mode)
        return True

    def _now(self) -> datetime:
        with translate():
            seconds, micros = self._client.time()
        return datetime.fromtimestamp(int(seconds), UTC) + timedelta(microseconds=int(micros))


@contextmanager
def release_desk(place: Place, clock: Clock) -> Iterator[ReleaseDesk]:
    """A connection for everything about releases. Raises as `api.observe`."""
    from relayctl.store.connect import connect
    from relayctl.store.keys import Keys

    try:
        target = target_of(place, clock)
    except NoBroker as error:
        raise NoBroker(
            error.message,
            help="start a worker here with relayctl serve --follow, or name a broker (--redis, RELAYCTL_REDIS_URL)",
        ) from None
    client = connect(target, client_name="relayctl-release")
    try:
        yield ReleaseDesk(client, Keys(place.namespace), place, clock)
    finally:
        client.close()


def publish_tree(
    root: Path,
    place: Place,
    clock: Clock,
    author: Author,
    *,
    max_bytes: int,
    limits: Limits | None = None,
    lock_timeout: timedelta = timedelta(seconds=30),
    within: timedelta = timedelta(seconds=60),
) -> tuple[Release | None, Mapping[str, tuple[str, ...]]]:
    """All of it without a question: read, lock, plan, check, publish, wait.

    The release, None where nothing was to be changed, and what keeps each live worker from it. InvalidTemplates where
    the tree has an error; else it raises what the steps do.
    """
    from relayctl.sources.content import content_of

    with release_desk(place, clock) as desk:
        desk.check_mode()
        desk.lock(author, lock_timeout, lambda _: None)
        try:
            with content_of(root, clock, max_bytes=max_bytes) as content:
                error = next((each for each in content.tree.problems if each.is_error), None)
                if error is not None:
                    raise InvalidTemplates(f"{error.place.file}:{error.place.line}: {error.code} {error.message}")
                proposal = desk.propose(content, clock.now().replace(microsecond=0))
                check_removals(proposal, limits or Limits())
                release = desk.publish(proposal, author) if proposal.is_needed else None
        finally:
            desk.unlock()
        return release, {} if release is None else desk.await_convergence(release, within).lacks


def check_removals(proposal: Proposal, limits: Limits) -> None:
    """Refused where more goes than was allowed; NoTemplates where there is nothing on either side."""
    tree = proposal.content.tree
    if not tree.apps and not proposal.registered and proposal.current is None:
        raise NoTemplates("no app has a template.yaml", help="relayctl init makes a first one")
    removal = Removal(
        removed=len(proposal.removed),
        registered=proposal.registered,
        left=proposal.content.schedules,
        apps_left=len(tree.apps),
        apps_gone=tuple(sorted({app for app, _ in proposal.removed} - proposal.content.revisions.keys())),
    )
    refuse_removal(removal, limits)


def _moves(plan: Plan, heads: Mapping[Name, Head]) -> dict[Name, Name]:
    """The old names of what goes on under a new one, as far as the registry still has them so."""
    found: dict[Name, Name] = {}
    for change in plan.changes:
        app, _, schedule = change.moved_from.partition("/")
        old, new = heads.get((app, schedule)), heads.get((change.app, change.name))
        is_free = new is None or new.hash == TOMBSTONE
        if old is not None and old.hash != TOMBSTONE and is_free and (app, schedule) not in found.values():
            found[change.app, change.name] = app, schedule
    return found


def _definitions(
    specs: Mapping[Name, Fields], heads: Mapping[Name, Head], moves: Mapping[Name, Name]
) -> Iterator[Definition]:
    for name, fields in sorted(specs.items()):
        head = heads.get(name)
        if head is None or head.hash != fields["hash"]:
            yield Definition(
                app=name[0],
                schedule=name[1],
                hash=fields["hash"],
                spec=fields["spec"],
                gen=0 if head is None else head.gen,
                moved_from=moves.get(name),
            )
    for name, head in sorted(heads.items()):
        if name not in specs and head.hash != TOMBSTONE:
            yield Definition(app=name[0], schedule=name[1], hash=TOMBSTONE, spec="", gen=head.gen)


def _counts(plan: Plan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for change in plan.changes:
        counts[change.action.value] = counts.get(change.action.value, 0) + 1
    return counts


def _applied(release: Release | None) -> Applied | None:
    from relayctl.core.planfile import Applied

    if release is None:
        return None
    return Applied(serial=release.serial, at=release.made_at, by=release.draft.by, message=release.draft.message)


def _newer(what: str) -> NewerFormat:
    return NewerFormat(f"{what} by a newer relayctl; nothing was changed", help="use that version, or upgrade this one")


def _pulls(namespace: str) -> ModeConflict:
    return ModeConflict(
        f"namespace {namespace} is in pull mode: its workers follow a directory or git, and nobody takes a release",
        help="change what they follow, and they take it by themselves\n"
        "or stop them, run relayctl mode push, and start them again with serve --follow",
    )


_LOCKED_HELP = "wait longer: --lock-timeout 60s\nlook: relayctl releases"


def _locked_words(holder: LeaseHolder, now: datetime) -> str:
    started = max(0, int((now - holder.since).total_seconds()))
    return (
        f"locked by another apply\n  holder  {holder.by} pid {holder.pid}, {holder.command}, started {started} s ago, "
        f"lease ends in {max(0, int(holder.left.total_seconds()))} s"
    )
