"""Looks at the broker again and again, past all proxies, with its own reading of what lies there: the account.

Each look is one transaction, so what it shows was true at one moment; what was seen once is never forgotten.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import redis
from support.nemesis.story import Account, Emitted, Ended, Generation, Ledger, Letter, Name

if TYPE_CHECKING:
    from pathlib import Path

_SPAN = re.compile(r"(\d+)(?:-(\d+))?")
_EVERY_S = 1.5


class Observer:
    """Looks by itself until it is stopped; `look` also on demand."""

    def __init__(
        self, path: Path, names: Sequence[Name], rules: Sequence[tuple[str, str]], emitted: Callable[[], list[Emitted]]
    ) -> None:
        self._client = redis.Redis(unix_socket_path=str(path), decode_responses=True, socket_timeout=3)
        self._names = names
        self._rules = rules
        self._emitted = emitted
        self._read_up_to: dict[str, str] = {}
        self._ended: set[str] = set()
        self._ends: dict[str, int] = {}
        self.account = Account(ledgers={name: Ledger() for name in names}, events={rule: [] for rule in rules})
        self.highest: dict[Name, int] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(20)
        self._client.close()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self.look()

    def look(self) -> bool:
        """Read everything as of one moment; False where the broker did not answer."""
        with self._lock:
            sent = self._emitted()
            try:
                answers = self._read()
            except (redis.RedisError, OSError):
                return False
            if isinstance(answers[0], Exception):
                # It was started a moment ago and still reads its file.
                return False
            self._learn(answers, sent)
            return True

    def open_messages(self, until: int) -> list[str]:
        """What was published for instants up to that one and has not ended, and events that have not."""
        with self._lock:
            owed = [
                message
                for ledger in self.account.ledgers.values()
                for at, message in ledger.published.items()
                if at <= until
            ]
            left = [event.message for event in self._emitted() if event.message in self.account.left]
            return [message for message in owed if message not in self._ended] + left

    def _read(self) -> list[Any]:
        pipeline = self._client.pipeline(transaction=True)
        pipeline.xrange("{relay}:events")
        pipeline.xinfo_stream("{relay}:events")
        self._since(pipeline, "{relay}:dlq")
        for app, schedule in self._names:
            pipeline.hgetall(f"{{relay}}:sch:{app}:{schedule}")
            pipeline.hgetall(f"{{relay}}:pub:{app}:{schedule}")
            self._since(pipeline, f"{{relay}}:hist:s:{app}:{schedule}")
        for app, handler in self._rules:
            self._since(pipeline, f"{{relay}}:hist:h:{app}:{handler}")
        answers: list[Any] = pipeline.execute(raise_on_error=False)
        return answers

    def _since(self, pipeline: Any, key: str) -> None:
        pipeline.xrange(key, f"({self._read_up_to[key]}" if key in self._read_up_to else "-")

    def _new(self, key: str, answer: Any) -> list[tuple[str, dict[str, str]]]:
        if isinstance(answer, Exception) or not answer:
            return []
        self._read_up_to[key] = answer[-1][0]
        return list(answer)

    def _learn(self, answers: list[Any], sent: list[Emitted]) -> None:
        entries, facts, buried, *rest = answers
        account = self.account
        account.left = frozenset(entry for entry, _ in entries)
        if not isinstance(facts, Exception):
            account.added = int(facts["entries-added"])
        account.letters += [_letter(fields) for _, fields in self._new("{relay}:dlq", buried)]
        for place, name in enumerate(self._names):
            registry, fields, records = rest[3 * place : 3 * place + 3]
            ledger = account.ledgers[name]
            _learn_registry(ledger, registry)
            _learn_states(ledger, fields)
            key = f"{{relay}}:hist:s:{name[0]}:{name[1]}"
            self._take(ledger.records, self._new(key, records))
        for rule, records in zip(self._rules, rest[3 * len(self._names) :], strict=True):
            self._take(account.events[rule], self._new(f"{{relay}}:hist:h:{rule[0]}:{rule[1]}", records))
        self._find_unended(sent)

    def _take(self, records: list[Ended], new: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        for entry, fields in new:
            record = _record(entry, fields)
            records.append(record)
            if record.message:
                self._ended.add(record.message)
                self._ends[record.message] = self._ends.get(record.message, 0) + 1

    def _find_unended(self, sent: list[Emitted]) -> None:
        account, now = self.account, time.time()
        for ledger in account.ledgers.values():
            for message in ledger.published.values():
                if message not in self._ended and message not in account.left:
                    account.unended.setdefault(message, now)
        for event in sent:
            if event.message not in account.left and self._ends.get(event.message, 0) < len(event.rules):
                account.unended.setdefault(event.message, now)


def _learn_registry(ledger: Ledger, registry: Mapping[str, str]) -> None:
    if not registry:
        return
    found = [_past(name, value) for name, value in registry.items() if name.startswith("g:")]
    head = Generation(
        gen=int(registry["gen"]), every=_every(registry["spec"]), from_ms=int(registry["from"]), to_ms=None
    )
    ledger.generations = tuple(sorted([*found, head], key=lambda item: item.gen))
    floor = int(registry["floor"]) if "floor" in registry else None
    if ledger.floor is not None and (floor is None or floor < ledger.floor):
        ledger.odd[ledger.floor] = f"the floor was there and is at {floor} now"
    ledger.floor = floor
    ledger.highest = int(registry.get("hw", 0)) or None


def _past(name: str, value: str) -> Generation:
    begin, end, _, spec = value.split("|", 3)
    return Generation(gen=int(name[2:]), every=_every(spec), from_ms=int(begin), to_ms=int(end))


def _every(spec: str) -> int | None:
    return int(json.loads(spec)["every"]) if spec else None


def _learn_states(ledger: Ledger, fields: Mapping[str, str]) -> None:
    spans: list[tuple[int, int]] = []
    for name, value in fields.items():
        match = _SPAN.fullmatch(name)
        assert match is not None, f"the published set has a field {name}"
        state, one, two = value.split("|", 2)
        if match[2]:
            spans.append((int(match[1]), int(match[2])))
            ledger.ranges[spans[-1]] = (one, two)
        elif state == "p":
            at = int(match[1])
            if ledger.published.setdefault(at, two) != two:
                ledger.odd[at] = f"was published as {ledger.published[at]} and is {two} now"
        else:
            ledger.closed[int(match[1])] = (one, two)
    for first, last in spans:
        gone = [at for at in ledger.published if first <= at <= last and str(at) not in fields]
        ledger.odd |= dict.fromkeys(gone, f"was published, and is closed from {first} to {last} now")


def _record(entry: str, fields: Mapping[str, str]) -> Ended:
    return Ended(
        verdict=fields.get("verdict", ""),
        reason=fields.get("reason", ""),
        message=fields.get("message", ""),
        kind=fields.get("kind", "schedule"),
        at=_instant(fields.get("scheduled_at")),
        first=_instant(fields.get("from")),
        count=int(fields.get("count") or 1),
        attempts=int(fields.get("attempts") or 0),
        allowed=int(fields.get("of") or 0),
        written=int(entry.partition("-")[0]) / 1000,
        handler=fields.get("handler", ""),
    )


def _instant(text: str | None) -> int | None:
    return int(datetime.fromisoformat(text).timestamp()) if text else None


def _letter(fields: Mapping[str, str]) -> Letter:
    return Letter(
        message=fields.get("message", ""),
        app=fields.get("app", ""),
        slot=fields.get("slot", ""),
        reason=fields.get("reason", ""),
    )
