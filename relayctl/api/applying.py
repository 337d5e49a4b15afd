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

from relayctl.api.convergence import convergence
from relayctl.api.place import target_of
from relayctl.api.planning import basis
from relayctl.api.proposal import check_removals, propose
from relayctl.core.release import Draft, Release
from relayctl.core.removal import Limits
from relayctl.errors import (
    BrokerRefused,
    BrokerUnavailable,
    InvalidTemplates,
    ModeConflict,
    NoBroker,
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
    from relayctl.api.place import Place
    from relayctl.api.proposal import Proposal
    from relayctl.core.planfile import Applied, SavedPlan
    from relayctl.core.release import LeaseHolder
    from relayctl.host.clock import Clock
    from relayctl.sources.content import Content
    from relayctl.store.keys import Keys

_LOCK_POLL_S = 0.5
_CONVERGE_POLL_S = 0.2
_MOST_TRIES = 5
_AGAIN_S = 1.0
_MOST_NAMED = 5


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

    def mode(self) -> str | None:
        """How the namespace gets its desired state: push, pull, or None where nobody has decided."""
        return self._fleet.mode()

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
        if self.mode() == "pull":
            raise _pulls(self._place.namespace)

    def propose(self, content: Content, now: datetime) -> Proposal:
        """What publishing this would do now."""
        return propose(content, self._releases, self._definitions, place=self._place, clock=self._clock, now=now)

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
            counts=proposal.counts,
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


def _applied(release: Release | None) -> Applied | None:
    from relayctl.core.planfile import Applied

    if release is None:
        return None
    return Applied(serial=release.serial, at=release.made_at, by=release.draft.by, message=release.draft.message)


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
