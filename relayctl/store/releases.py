"""Releases in the broker: the one in force, the records and bundles of earlier ones, and the step that publishes one.

It publishes what it is handed: what is in a release is decided by who calls it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from relayctl.core.release import KEPT_BUNDLES, KEPT_RELEASES, Draft, Held, LeaseHolder, Release
from relayctl.errors import BrokerRefused, ModeConflict
from relayctl.store.failure import translate
from relayctl.store.scripts import Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.store.fleet import Holdings, WorkerRecord
    from relayctl.store.keys import Keys

LEASE_MS = 20_000
_MS = timedelta(milliseconds=1)


class ReleaseVerdict(Enum):
    """What became of a publication. Only the first changed anything."""

    PUBLISHED = "published"
    MOVED = "moved"  # another release is in force than the one that it builds on
    MODE = "mode"  # the namespace gets its desired state from files
    UNSTAGED = "unstaged"  # its bundle is not there, or not any more
    CHANGED = "changed"  # a schedule has another definition than the one that it builds on
    FOREIGN = "foreign"  # a record in the broker is not what relayctl writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a release makes of one schedule, behind the generation that is in force (0: none).

    The hash of a removal is `core.definition.TOMBSTONE`, and its spec is empty. `moved_from` is the app and schedule
    that goes on under this name; its removal is in the same release.
    """

    app: str
    schedule: str
    hash: str
    spec: str
    gen: int
    moved_from: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict; the serial in force, and when it was made where it is this one; what was in the way, in a word."""

    verdict: ReleaseVerdict
    serial: int = 0
    made_at: datetime | None = None
    what: str = ""


def held_of(record: WorkerRecord, holdings: Holdings | None) -> Held | None:
    """What a worker's record and holdings say of its apps; None where it has not written the latter yet."""
    if holdings is None:
        return None
    return Held(
        apps=holdings.apps,
        running=record.running,
        is_partial=record.is_partial,
        pending=record.pending,
        refused=record.refused,
        broken={each.app: f"{each.state}, admits nothing new of {each.app}" for each in record.unbuilt}
        | {each.app: f"{each.place} {each.problem}" for each in record.broken},
    )


class Releases:
    """Operations on releases. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)

    # Reading

    def serial(self) -> int:
        """The serial of the release in force, 0 before the first: one small read, for whoever asks often."""
        with translate():
            return int(self._client.get(self._keys.release) or 0)

    def current(self) -> Release | None:
        """The release in force; None before the first, or where a newer relayctl made it."""
        serial = self.serial()
        return self.get(serial) if serial else None

    def get(self, serial: int) -> Release | None:
        """One release that is still on record. BrokerRefused where relayctl did not write that record."""
        with translate():
            text: Any = self._client.hget(self._keys.releases, str(serial))
        try:
            return Release.from_record(serial, text) if text else None
        except ValueError:
            raise BrokerRefused(
                f"what the broker has of release {serial} is nothing that relayctl wrote",
                help=f"look at the field {serial} of {self._keys.releases}",
            ) from None

    def all(self) -> list[Release]:
        """All releases on record, the newest first; those of a newer relayctl, and what is none, are left out."""
        with translate():
            records: Any = self._client.hgetall(self._keys.releases)
        found: list[Release] = []
        for serial, text in records.items():
            with suppress(ValueError):
                found += filter(None, [Release.from_record(int(serial), text)])
        return sorted(found, key=lambda each: -each.serial)

    def kept_bundles(self) -> frozenset[str]:
        """The digests of the bundles that are still there."""
        with translate():
            digests: Any = self._client.hkeys(self._keys.bundles)
        return frozenset(digests)

    def bundle(self, digest: str) -> bytes | None:
        """A bundle as it was staged, for `sources.bundle.unpack`; None where it is not kept any more."""
        with translate():
            # It is no text, and a client that decodes its answers would break it.
            client: Any = self._client
            data: bytes | None = client.execute_command("HGET", self._keys.bundles, digest, NEVER_DECODE=True)
        return data

    def pins(self) -> dict[str, str]:
        """App to the revision that the fleet is bound to; empty where nothing binds it."""
        with translate():
            pins: Any = self._client.hgetall(self._keys.pins)
        return dict(pins)

    # Publishing

    def stage(self, digest: str, data: bytes) -> None:
        """Send a bundle ahead of its release, also in place of what bears its name and may be damaged. Unless a
        release refers to it within the hour it is dropped."""
        with translate():
            seconds, _ = self._client.time()
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hset(self._keys.bundles, digest, cast("Any", data))
            pipeline.zadd(self._keys.bundles_staged, {digest: int(seconds) * 1000})
            pipeline.execute()

    def publish(self, draft: Draft, definitions: Sequence[Definition], now_ms: int | None = None) -> Answer:
        """Put a release in force whose bundle is staged: record, definitions and revisions in one step, or nothing.

        `definitions` are those that it changes. The same draft again is answered as before.
        """
        keys = [*self._own_keys(), self._keys.definitions_seq, self._keys.definitions_log]
        keys += [self._keys.definitions, self._keys.definitions_gone]
        args: list[str | int | float] = [draft.base, draft.id, draft.digest, draft.to_json()]
        args += [self._scripts.instant(now_ms), KEPT_RELEASES, KEPT_BUNDLES, len(draft.revisions)]
        args += _flat(draft.revisions)
        for item in definitions:
            keys += [self._keys.schedule(item.app, item.schedule), self._keys.published(item.app, item.schedule)]
            args += [f"{item.app}/{item.schedule}", item.hash, item.spec, item.gen]
        numbers = {(item.app, item.schedule): number for number, item in enumerate(definitions, 1)}
        for number, item in enumerate(definitions, 1):
            if item.moved_from is not None:
                args += [numbers[item.moved_from], number]
        with translate():
            word, *more = self._scripts.run("release", keys, args)
        verdict = ReleaseVerdict(word)
        if verdict is ReleaseVerdict.PUBLISHED:
            return Answer(verdict=verdict, serial=int(more[0]), made_at=_instant(int(more[1])))
        if verdict is ReleaseVerdict.MOVED:
            return Answer(verdict=verdict, serial=int(more[0]))
        return Answer(verdict=verdict, what=str(more[0]) if more else "")

    def offer(self, release: Release, data: bytes) -> bool:
        """Give a release back to a broker that has lost it, with its bundle; whether it is in force again by that."""
        self.stage(release.digest, data)
        args: list[str | int | float] = [release.serial, release.record, release.digest, *_flat(release.revisions)]
        with translate():
            return bool(self._scripts.run("release_offer", self._own_keys(), args) == "restored")

    def _own_keys(self) -> list[str]:
        keys = self._keys
        return [keys.release, keys.releases, keys.pins, keys.mode, keys.bundles, keys.bundles_staged]

    # The lease

    def take_lease(self, token: str, *, by: str, pid: int, command: str) -> LeaseHolder | None:
        """Take the right to publish for a while, or extend it; who has it where it is another's."""
        with translate():
            seconds, micros = self._client.time()
        since_ms = int(seconds) * 1000 + int(micros) // 1000
        who = json.dumps({"by": by, "pid": pid, "command": command, "since_ms": since_ms})
        word, *more = self._lease(token, who)
        return None if word == "held" else _holder(more[0], int(more[1]))

    def give_lease_back(self, token: str) -> None:
        """Let the next one publish at once."""
        self._lease(token, "")

    def _lease(self, token: str, who: str) -> Any:
        with translate():
            return self._scripts.run("release_lease", [self._keys.release_lease], [token, who, LEASE_MS])

    # The mode

    def set_mode(self, wanted: str, was: str | None) -> None:
        """Change how the namespace gets its desired state. The revisions that bind the fleet go with push mode, and
        come back with it.

        Raises ModeConflict where the mode is not `was` any more. What else stands in the way is for the caller to see.
        """
        keys = [self._keys.mode, self._keys.pins, self._keys.release, self._keys.releases]
        with translate():
            done = self._scripts.run("mode", keys, [wanted, was or ""])
        if done != "changed":
            raise ModeConflict(f"namespace {self._keys.namespace} is in {done} mode by now", help="relayctl mode")


def _flat(revisions: Mapping[str, str]) -> list[str]:
    return [text for item in sorted(revisions.items()) for text in item]


def _instant(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + milliseconds * _MS


def _holder(text: str, left_ms: int) -> LeaseHolder:
    who = json.loads(text)
    return LeaseHolder(
        by=who["by"],
        pid=who["pid"],
        command=who["command"],
        since=_instant(who["since_ms"]),
        left=max(left_ms, 0) * _MS,
    )
