"""The life of one schedule at any speed: publishes, ends, audits and closes by the real scripts, with instants it is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from relayctl.core.account import Closing, span_between
from relayctl.core.cron import Every
from relayctl.core.definition import Spec
from relayctl.core.due import Timeline
from relayctl.core.lifecycle import Kind, Verdict
from relayctl.core.model import Contract, Schedule
from relayctl.core.names import ScheduleName
from relayctl.core.occurrence import Occurrence, from_epoch, instant_text
from relayctl.core.record import RECORD_VERSION
from relayctl.store.closings import Closings, Wish
from relayctl.store.definitions import Definitions, Mode, Proposal
from relayctl.store.keys import Keys
from relayctl.store.stream import Publication, Stream
from relayctl.worker.auditor import Auditor

if TYPE_CHECKING:
    import redis

T0 = 1_800_000_000
TOKEN = "a1b2c3d4"
WORKER = f"worker-host-{TOKEN}"
_BATCH = 100


class Load:
    """Schedule crm/sync-contacts that fires each `seconds` seconds from `begin` on; `now` is where its time stands."""

    app = "crm"
    schedule = "sync-contacts"

    def __init__(self, client: redis.Redis, *, seconds: int, schedule: str = "sync-contacts") -> None:
        self.client: Any = client
        self.schedule = schedule
        self.seconds = seconds
        self.keys = Keys()
        self.begin = self.now = T0 - T0 % 3600
        self._stream = Stream(client, self.keys)
        self._definitions = Definitions(client, self.keys)
        self._closings = Closings(client, self.keys, WORKER)
        item = Schedule(
            name=ScheduleName(schedule), trigger=Every(seconds=seconds), contract=Contract(handler="jobs.run")
        )
        spec = Spec.of(item)
        self._definitions.register(
            [Proposal(app=self.app, schedule=schedule, mode=Mode.START, hash=spec.hash, spec=spec.text)],
            self.begin * 1000,
        )
        self._stream.ensure_group()
        self.facts: list[Any] = []
        self._auditor = self._make_auditor()

    def _make_auditor(self) -> Auditor:
        live = {self.app: SimpleNamespace(app=SimpleNamespace(schedule=lambda _name: None))}
        parts: dict[str, Any] = {
            "peers": SimpleNamespace(
                audits=lambda _app: True, audits_removed=lambda _app: True, seq=0, publishers=frozenset()
            ),
            "snapshot": lambda: SimpleNamespace(live=live, seq=1),
            "time": SimpleNamespace(now_ms=lambda: self.now * 1000),
            "clock": None,
        }
        return Auditor(
            closings=self._closings,
            definitions=self._definitions,
            emit=self.facts.append,
            **parts,
        )

    @property
    def timeline(self) -> Timeline:
        return Timeline(self._definitions.generations(self.app, self.schedule))

    # --- life ---

    def live(self, seconds: int) -> None:
        """All that falls due in that time is published, run and audited, as it would be."""
        until = self.now + seconds
        while self.now < until:
            self.write(min(until - self.now, max(60, 30 * self.seconds)))
            self.audit()

    def write(self, seconds: int) -> None:
        """Publish and end what falls due in that time."""
        firings = list(self.timeline.between(self.now, self.now + seconds))
        for start in range(0, len(firings), _BATCH):
            occurrences = [
                Occurrence(
                    app=self.app,
                    schedule=self.schedule,
                    handler="jobs.run",
                    scheduled_at=from_epoch(at),
                    gen=generation.gen,
                    by=WORKER,
                )
                for at, generation in firings[start : start + _BATCH]
            ]
            now_ms = (self.now + seconds) * 1000
            pipeline = self.client.pipeline(transaction=False)
            for item, answer in list(self._stream.publish(occurrences, TOKEN, now_ms=now_ms)):
                assert isinstance(answer, Publication), answer
                self._end(pipeline, item, answer.entry)
            pipeline.execute()
        self.now += seconds

    def _end(self, pipeline: Any, item: Occurrence, entry: str) -> None:
        """Leave behind what a run leaves: its record, and no entry."""
        fields = {
            "v": RECORD_VERSION,
            "message": entry,
            "kind": Kind.SCHEDULE.value,
            "handler": item.handler,
            "scheduled_at": instant_text(item.scheduled_at),
            "attempts": 1,
            "of": 5,
            "started": f"{self.now}123",
            "finished": f"{self.now}987",
            "verdict": "succeeded",
            "reason": "",
            "exit": "0",
            "worker": WORKER,
            "by": WORKER,
        }
        pipeline.xdel(self.keys.events, entry)
        pipeline.xadd(self.keys.history_of_schedule(self.app, self.schedule), fields, maxlen=1000, approximate=True)

    def skip(self, seconds: int) -> int:
        """An outage: nobody publishes for so long, then all of it is closed; how many firings that was."""
        timeline = self.timeline
        span = span_between(timeline, self.now, self.now + seconds)
        assert span is not None
        closing = Closing(span=span, verdict=Verdict.MISSED, reason="catch_up: none")
        wish = Wish(
            app=self.app,
            schedule=self.schedule,
            closing=closing,
            narrow=lambda after, until: span_between(timeline, after, until),
        )
        self.now += seconds
        [closed] = self._closings.close([wish], now_ms=self.now * 1000)
        return closed

    def audit(self) -> None:
        """What an audit does a little later."""
        self.now += 61
        try:
            self._auditor.step()
        finally:
            self.now -= 61

    # --- what it costs ---

    @property
    def fields(self) -> int:
        return int(self.client.hlen(self.keys.published(self.app, self.schedule)))

    @property
    def records(self) -> int:
        return int(self.client.xlen(self.keys.history_of_schedule(self.app, self.schedule)))

    def bytes_used(self) -> int:
        """Of all keys of the schedule."""
        names = [
            self.keys.schedule(self.app, self.schedule),
            self.keys.published(self.app, self.schedule),
            self.keys.history_of_schedule(self.app, self.schedule),
        ]
        return sum(int(self.client.memory_usage(name, samples=0) or 0) for name in names)
