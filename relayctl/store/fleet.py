"""Who is alive and what they hold: heartbeats, records, the mode of the namespace, consents."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from relayctl.core.description import Description
from relayctl.core.running import BrokenApp
from relayctl.core.servicestanding import ServiceStanding
from relayctl.core.unbuilt import UnbuiltApp
from relayctl.errors import ModeConflict
from relayctl.store.failure import translate
from relayctl.store.keys import GROUP, ROUTED
from relayctl.store.scripts import Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys

RECORD_VERSION = 1
RECORD_LIFE_MS = 30_000
LIVE_MS = 10_000
"""A worker whose record is older publishes nothing, as its peers see it."""
CONSUMER_GONE_MS = 600_000
_OTHER_WAY = {
    "push": "serve --follow, and publish with relayctl apply",
    "pull": "serve --apps or --git, as the other workers do",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """What a worker says of itself with each heartbeat. Small: the lists are in its holdings."""

    id: str
    host: str
    pid: int
    version: str
    started_at: str
    is_publishing: bool
    holdings_seq: int
    evaluator: str
    tzdata: str
    beat_ms: int = 0
    drift: int = 0
    source: str = ""
    revision: str = ""
    """What of its source is in force, as people name it."""
    revision_since: str = ""
    broken: tuple[BrokenApp, ...] = ()
    notes: tuple[str, ...] = ()
    is_partial: bool = False
    """Whether it runs only some apps of its tree, so that what it lacks says nothing."""
    wants_verdicts: bool = False
    """Whether one of its event rules names the source of verdicts."""
    max_timeout_s: float = 0.0
    """The longest timeout it grants; 0 where it does not say."""
    services: tuple[ServiceStanding, ...] = ()
    unable: tuple[str, ...] = ()
    """Apps that it has and cannot run: no child of them starts."""
    unenforced: tuple[str, ...] = ()
    """Names of resource limits that it can keep for no app."""
    running: str = ""
    """The digest of the apps that it has live, as `core.release.tree_digest` has it."""
    pending: tuple[str, ...] = ()
    """Apps whose newest code does not serve yet."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Apps whose newest code does not load, with the reason; the code before it goes on."""
    unbuilt: tuple[UnbuiltApp, ...] = ()
    """Apps whose newest version waits for its environment."""
    unresolved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Apps whose runs lack secrets here, with the reasons."""

    def to_json(self) -> str:
        """The record's text."""
        document: dict[str, Any] = {"v": RECORD_VERSION}
        document |= {name: getattr(self, name) for name in self.__slots__ if name != "beat_ms"}
        document["broken"] = [asdict(app) for app in self.broken]
        document["services"] = [service.to_row() for service in self.services]
        document["refused"] = dict(self.refused)
        document["unbuilt"] = [app.to_json() for app in self.unbuilt]
        document["unresolved"] = {app: list(reasons) for app, reasons in self.unresolved.items()}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, beat_ms: int = 0) -> WorkerRecord | None:
        """Read a record; None for one of a higher version, which this worker cannot judge."""
        document = json.loads(text)
        if document.pop("v", 0) > RECORD_VERSION:
            return None
        known = {name: document[name] for name in cls.__slots__ if name in document}
        known |= {name: tuple(known.get(name, ())) for name in ("notes", "unable", "unenforced", "pending")}
        known["broken"] = tuple(BrokenApp(**app) for app in known.get("broken", ()))
        known["unbuilt"] = tuple(UnbuiltApp.from_json(app) for app in known.get("unbuilt", ()))
        known["unresolved"] = {app: tuple(reasons) for app, reasons in known.get("unresolved", {}).items()}
        known["services"] = tuple(ServiceStanding.from_row(row) for row in known.get("services", ()))
        return cls(**known | {"beat_ms": beat_ms})


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What one worker has loaded: app to revision, and app/schedule to the hash of its own definition."""

    apps: Mapping[str, str] = field(default_factory=dict)
    schedules: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The holdings' text."""
        return json.dumps(
            {"v": RECORD_VERSION, "apps": dict(self.apps), "schedules": dict(self.schedules)}, separators=(",", ":")
        )

    @classmethod
    def from_json(cls, text: str) -> Holdings:
        """Read holdings; a higher version counts as nothing held."""
        document = json.loads(text)
        if document.get("v", 0) > RECORD_VERSION:
            return cls()
        return cls(apps=document["apps"], schedules=document["schedules"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What a heartbeat tells: Redis time, the registry's change counter, the epoch, who is alive."""

    now_ms: int
    definitions_seq: int
    epoch: str
    workers: tuple[str, ...]


class Fleet:
    """Operations on the fleet's records. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)

    def beat(self, record: WorkerRecord, now_ms: int | None = None) -> Pulse:
        """Write this worker's record; what the fleet looks like."""
        keys = [
            self._keys.workers,
            self._keys.worker(record.id),
            self._keys.definitions_seq,
            self._keys.epoch,
        ]
        args: list[str | int] = [
            record.id,
            record.to_json(),
            RECORD_LIFE_MS,
            secrets.token_hex(8),
            self._scripts.instant(now_ms),
        ]
        with translate():
            now, seq, epoch, *workers = self._scripts.run("beat", keys, args)
        return Pulse(now_ms=int(now), definitions_seq=int(seq), epoch=epoch, workers=tuple(workers))

    def epoch(self) -> str | None:
        """The server's epoch, or None where nobody has marked it yet: it is new, or has lost everything."""
        with translate():
            epoch: Any = self._client.get(self._keys.epoch)
        return epoch or None

    def begin_epoch(self) -> str:
        """The server's epoch, set now if there is none."""
        with translate():
            self._client.set(self._keys.epoch, secrets.token_hex(8), nx=True)
            epoch: Any = self._client.get(self._keys.epoch)
        return str(epoch)

    def leave(self, worker: str) -> None:
        """Forget this worker: its peers take over at once."""
        with translate():
            self._client.zrem(self._keys.workers, worker)
            self._client.delete(self._keys.worker(worker), self._keys.holdings(worker), self._keys.running(worker))

    def records(self) -> list[WorkerRecord]:
        """The records of all workers that have one, by id."""
        return self.survey()[0]

    def survey(self) -> tuple[list[WorkerRecord], dict[str, int]]:
        """The same, and the last heartbeat in milliseconds of those whose record a newer relayctl wrote."""
        with translate():
            beats: list[Any] = self._client.zrange(self._keys.workers, 0, -1, withscores=True)
            if not beats:
                return [], {}
            texts: list[Any] = self._client.mget([self._keys.worker(worker) for worker, _ in beats])
        found: list[WorkerRecord] = []
        newer: dict[str, int] = {}
        for text, (worker, beat) in zip(texts, beats, strict=True):
            record = WorkerRecord.from_json(text, int(beat)) if text else None
            if record is not None:
                found.append(record)
            elif text:
                newer[worker] = int(beat)
        return sorted(found, key=lambda record: record.id), newer

    def hold(self, worker: str, holdings: Holdings) -> None:
        """Rewrite what this worker holds; it expires with the worker's record if that is not kept alive."""
        with translate():
            self._client.set(self._keys.holdings(worker), holdings.to_json(), px=RECORD_LIFE_MS)

    def report(self, worker: str, changed: Mapping[str, str], removed: Iterable[str]) -> None:
        """Rewrite what this worker runs of these apps (app to description), and drop what it no longer runs."""
        key, gone = self._keys.running(worker), list(removed)
        fields: Any = dict(changed)
        with translate():
            pipeline = self._client.pipeline(transaction=True)
            if changed:
                pipeline.hset(key, mapping=fields)
            if gone:
                pipeline.hdel(key, *gone)
            pipeline.pexpire(key, RECORD_LIFE_MS)
            pipeline.execute()

    def running(self, workers: Iterable[str]) -> dict[str, dict[str, Description]]:
        """What these workers run, as they describe it, by worker and app; what a newer relayctl wrote is left out."""
        described = self.descriptions(workers)
        return {
            worker: {app: item for app, item in apps.items() if item is not None} for worker, apps in described.items()
        }

    def descriptions(self, workers: Iterable[str]) -> dict[str, dict[str, Description | None]]:
        """The same with None for what a newer relayctl wrote."""
        names = list(workers)
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            for worker in names:
                pipeline.hgetall(self._keys.running(worker))
            replies = pipeline.execute()
        # Most workers say the same of an app, so each text is read once.
        read = {text: Description.from_json(text) for text in {text for reply in replies for text in reply.values()}}
        return {
            worker: {app: read[text] for app, text in reply.items()}
            for worker, reply in zip(names, replies, strict=True)
        }

    def keep_holdings(self, worker: str) -> bool:
        """Extend the life of what the worker says it holds and runs; False if it must be written again."""
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            pipeline.pexpire(self._keys.holdings(worker), RECORD_LIFE_MS)
            pipeline.pexpire(self._keys.running(worker), RECORD_LIFE_MS)
            holds, _ = pipeline.execute()
        return bool(holds)

    def holdings(self, workers: Iterable[str]) -> dict[str, Holdings]:
        """What these workers hold."""
        names = list(workers)
        if not names:
            return {}
        with translate():
            texts: list[Any] = self._client.mget([self._keys.holdings(worker) for worker in names])
        return {name: Holdings.from_json(text) for name, text in zip(names, texts, strict=True) if text}

    def enter_mode(self, wanted: str) -> None:
        """Set the namespace's mode if it has none; ModeConflict if it has the other one."""
        with translate():
            self._client.set(self._keys.mode, wanted, nx=True)
            mode: Any = self._client.get(self._keys.mode)
        if mode != wanted:
            raise ModeConflict(
                f"namespace {self._keys.namespace} is in {mode} mode, and this needs {wanted} mode",
                help=f"relayctl mode {wanted} changes that while no worker lives\n"
                f"or {_OTHER_WAY[mode]}, or use another --namespace",
            )

    def mode(self) -> str | None:
        """push, pull, or None where nobody has decided."""
        with translate():
            mode: Any = self._client.get(self._keys.mode)
        return mode or None

    def consent(self, revision: str) -> None:
        """Record an operator's consent to the removals of that revision."""
        with translate():
            self._client.sadd(self._keys.consents, revision)
            self._client.expire(self._keys.consents, 24 * 3600)

    def has_consent(self, revision: str) -> bool:
        """Whether the removals of that revision are agreed to."""
        with translate():
            return bool(self._client.sismember(self._keys.consents, revision))

    def forget_consumers(self, idle_ms: int = CONSUMER_GONE_MS) -> None:
        """Remove the group's consumers of workers long gone, each only if nothing is pending under its name."""
        from redis.exceptions import ResponseError

        with translate():
            try:
                consumers: Any = self._client.xinfo_consumers(self._keys.events, GROUP)
            except ResponseError as error:
                # The reader makes a lost stream or group again.
                if str(error).startswith(("NOGROUP", "ERR no such key", "no such key")):
                    return
                raise
            for consumer in consumers:
                if consumer["name"] != ROUTED and consumer["idle"] >= idle_ms:
                    self._scripts.run("forget", [self._keys.events], [GROUP, consumer["name"]])
