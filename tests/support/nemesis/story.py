"""What a run leaves behind for its judge, as values: edits, pauses, events, troubles, the account, the handlers' log.

All instants are seconds since 1970 as floats, except for firings, which are whole seconds. Nothing here reads anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Name = tuple[str, str]
"""App and schedule."""
FLEET = ""
"""Stands for all workers where a trouble names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What the templates say of a schedule from a save on, which lay between two instants; no interval: removed."""

    name: Name
    every: int | None
    begun: float
    saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A pause, each end between asking for it and the answer."""

    name: Name
    asked: float
    told: float
    resume_asked: float
    resume_told: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that keeps a worker (or FLEET: all of them) from its broker, or from anything, for a while."""

    kind: str
    worker: str
    start: float
    end: float

    @property
    def keeps_away(self) -> bool:
        """Whether nothing gets through meanwhile; a slow road still is one."""
        return self.kind != "slow"

    def overlaps(self, first: float, last: float) -> bool:
        """Whether any of it lies between the two."""
        return self.start <= last and self.end >= first


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """An event that the stream took, and the rules that match it as (app, handler)."""

    message: str
    rules: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the handlers' log: `what` is begin or end; `worker` is the process that supervised the handler."""

    what: str
    at: float
    app: str
    slot: str
    message: str
    attempt: int
    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One definition as the registry has it; milliseconds, the end is open."""

    gen: int
    every: int | None
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One record of how something ended: a run (with its message), or a closing without one."""

    verdict: str
    reason: str = ""
    message: str = ""
    kind: str = "schedule"
    at: int | None = None
    first: int | None = None
    count: int = 1
    attempts: int = 0
    allowed: int = 0
    written: float = 0.0
    handler: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter."""

    message: str
    app: str
    slot: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Ledger:
    """What the broker ever showed of one schedule. `odd` says of an instant what must never be seen."""

    generations: tuple[Generation, ...] = ()
    floor: int | None = None
    highest: int | None = None
    published: dict[int, str] = field(default_factory=dict)
    closed: dict[int, tuple[str, str]] = field(default_factory=dict)
    ranges: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    records: list[Ended] = field(default_factory=list)
    odd: dict[int, str] = field(default_factory=dict)

    def closing_at(self, at: int) -> tuple[str, str] | None:
        """Verdict and reason of the closing that speaks for this instant."""
        own = self.closed.get(at)
        return own or next((value for (low, high), value in self.ranges.items() if low <= at <= high), None)


@dataclass(slots=True, kw_only=True)
class Account:
    """What the broker showed in all looks together; `left` and `added` are those of the last one."""

    ledgers: dict[Name, Ledger] = field(default_factory=dict)
    events: dict[tuple[str, str], list[Ended]] = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    left: frozenset[str] = frozenset()
    added: int = 0
    unended: dict[str, float] = field(default_factory=dict)
    """Messages of which a look saw neither an entry nor an end, with the instant of the first such look."""

    def runs(self) -> Iterator[tuple[str, str, Ended]]:
        """Every record of a run, as app, slot and record."""
        for (app, schedule), ledger in self.ledgers.items():
            for record in ledger.records:
                if record.message:
                    yield app, ("!" if record.kind == "manual" else "@") + schedule, record
        for (app, handler), records in self.events.items():
            for record in records:
                yield app, handler, record


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything that the judge knows. `until` is the instant up to which everything must be accounted for.

    `policies` say what catches up a schedule, where that is not the latest firing, and `overlaps` what becomes of a
    firing that finds another one running, where that is not nothing.
    `attempts` is the budget by (app, handler or @schedule), `faulty` are those among them whose handlers fail by
    themselves. `restless` are further saves of the tree, which put removals off. `maybe` counts what was sent to the
    stream without an answer.
    """

    edits: Sequence[Edit]
    pauses: Sequence[Paused]
    troubles: Sequence[Trouble]
    emitted: Sequence[Emitted]
    triggered: Sequence[tuple[Name, str]]
    lines: Sequence[Line]
    account: Account
    workers: Sequence[str]
    pids: Mapping[int, str]
    attempts: Mapping[tuple[str, str], int]
    faulty: frozenset[tuple[str, str]]
    begun: float
    until: int
    restless: Sequence[float] = ()
    maybe: int = 0
    policies: Mapping[Name, str] = field(default_factory=dict)
    overlaps: Mapping[Name, str] = field(default_factory=dict)
    lateness_s: float = 60.0
    lease_s: float = 7.0
