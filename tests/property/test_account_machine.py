"""The account as a state machine over the real scripts and the real audit: publications early, late and explicit,
closings that overlap, edits, pauses, stale auditors and a clock that steps both ways, in any order.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from support.storedesk import APP, SCHEDULE, T0_MS, Desk
from support.workbench import every

from relayctl.core import account
from relayctl.core.account import Closing, Recorded, Release, examine, release, span_between
from relayctl.core.definition import Spec
from relayctl.core.due import Timeline
from relayctl.core.lifecycle import Verdict
from relayctl.core.occurrence import epoch_seconds, instant_from_text
from relayctl.store.closings import Account, Wish
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.stream import PublishVerdict
from relayctl.worker import auditor
from relayctl.worker.auditor import Auditor

if TYPE_CHECKING:
    import redis

INTERVALS = (5, 7, 12, 30)
AGO = st.integers(min_value=-15, max_value=400)


class AccountMachine(RuleBasedStateMachine):
    """One schedule, several publishers, closers and auditors; the model remembers what each instant became."""

    client: redis.Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.desk = Desk(self.client)
        self.now_ms = T0_MS
        self.published: dict[int, str] = {}
        self.closed: set[int] = set()
        self.replaced: set[int] = set()
        self.floors: list[int] = []
        self.held: tuple[Account, Release] | None = None
        self.auditors = [self._auditor(), self._auditor()]

    def _auditor(self) -> Auditor:
        live = {APP: SimpleNamespace(app=SimpleNamespace(schedule=lambda _name: None))}
        parts: dict[str, Any] = {
            "peers": SimpleNamespace(
                audits=lambda _app: True, audits_removed=lambda _: True, seq=0, publishers=frozenset()
            ),
            "snapshot": lambda: SimpleNamespace(live=live, seq=1),
            "time": SimpleNamespace(now_ms=lambda: self.now_ms),
            "clock": None,
        }
        facts: list[Any] = []
        return Auditor(closings=self.desk.closings, definitions=self.desk.definitions, emit=facts.append, **parts)

    # --- what the broker holds ---

    @property
    def now(self) -> int:
        return self.now_ms // 1000

    @property
    def timeline(self) -> Timeline:
        return Timeline(self.desk.definitions.generations(APP, SCHEDULE))

    @property
    def floor(self) -> int | None:
        found: Any = self.client.hget(self.desk.keys.schedule(APP, SCHEDULE), "floor")
        return int(found) if found else None

    def expected(self, after: int, until: int) -> list[int]:
        return [at for at, _ in self.timeline.between(after, until)]

    # --- definitions, pauses, time ---

    @initialize(seconds=st.sampled_from(INTERVALS))
    def begin(self, seconds: int) -> None:
        self._register(seconds, Mode.START)

    @rule(seconds=st.sampled_from(INTERVALS))
    def edit(self, seconds: int) -> None:
        self._register(seconds, Mode.EDIT)

    def _register(self, seconds: int, mode: Mode) -> None:
        generations = self.desk.definitions.generations(APP, SCHEDULE)
        spec = Spec.of(every(seconds))
        held = generations[-1].gen if generations else 0
        proposal = Proposal(app=APP, schedule=SCHEDULE, mode=mode, hash=spec.hash, spec=spec.text, held_gen=held)
        self.desk.definitions.register([proposal], self.now_ms)

    @rule(is_on=st.booleans())
    def pause(self, is_on: bool) -> None:
        key = self.desk.keys.schedule(APP, SCHEDULE)
        if is_on:
            self.client.hset(key, "paused", self.now)
        else:
            self.client.hdel(key, "paused")

    @rule(seconds=st.sampled_from([1, 20, 65, 200, 900]))
    def wait(self, seconds: int) -> None:
        self.now_ms += seconds * 1000 + 137

    @rule(seconds=st.sampled_from([1, 30, 120]))
    def step_back(self, seconds: int) -> None:
        self.now_ms -= seconds * 1000

    # --- publication ---

    @rule(ago=AGO, count=st.integers(min_value=1, max_value=25), token=st.sampled_from(["w1", "w2"]))
    def publish(self, ago: int, count: int, token: str) -> None:
        """A run of firings from some time ago on, each under the generation in force at it."""
        after = self.now - ago
        for at, generation in list(self.timeline.between(after, after + 400))[:count]:
            self._publish(at, generation.gen, token)

    @rule(ago=AGO, token=st.sampled_from(["op", "w1"]))
    def act_explicitly(self, ago: int, token: str) -> None:
        found = self.timeline.next_after(self.now - ago)
        if found is not None:
            self._publish(found[0], found[1].gen, token, is_explicit=True)

    def _publish(self, at: int, gen: int, token: str, *, is_explicit: bool = False) -> None:
        answer = self.desk.publish(at, gen=gen, token=token, now_ms=self.now_ms, is_explicit=is_explicit)
        if at in self.published:
            if answer.verdict is PublishVerdict.EARLY:
                assert at * 1000 > self.now_ms + 1000, "only after the clock was set back"
                return
            known = {PublishVerdict.PUBLISHED, PublishVerdict.DUPLICATE, PublishVerdict.SETTLED}
            assert answer.verdict in known
            assert answer.verdict is PublishVerdict.SETTLED or answer.entry == self.published[at]
            return
        if answer.verdict is PublishVerdict.PUBLISHED:
            assert at not in self.closed or is_explicit, "only an operator's act replaces a closing"
            self.replaced |= {at} & self.closed
            self.published[at] = answer.entry
        elif at in self.closed:
            assert answer.verdict is PublishVerdict.SETTLED

    # --- closing ---

    @rule(ago=AGO, length=st.integers(min_value=0, max_value=300))
    def close(self, ago: int, length: int) -> None:
        """As a publisher does: some gap up to now, as it sees the definitions."""
        timeline = self.timeline
        after = self.now - ago
        span = span_between(timeline, after, min(after + length, self.now))
        if span is None:
            return
        floor = self.floor
        paused: Any = self.client.hget(self.desk.keys.schedule(APP, SCHEDULE), "paused")
        new = {
            at
            for at in self.expected(span.first - 1, span.last)
            if at not in self.published
            and at not in self.closed
            and (floor is None or at > floor)
            # What a pause covers is closed by its end.
            and (paused is None or at < int(paused))
        }
        closing = Closing(span=span, verdict=Verdict.MISSED, reason="horizon")
        wish = Wish(
            app=APP, schedule=SCHEDULE, closing=closing, narrow=lambda low, high: span_between(timeline, low, high)
        )
        assert self.desk.closings.close([wish], now_ms=self.now_ms) == [len(new)]
        self.closed |= new
        assert self.desk.closings.close([wish], now_ms=self.now_ms) == [0]

    # --- the audit ---

    @rule(seconds=st.sampled_from([70, 130]), token=st.sampled_from(["w1", "w2"]))
    def live_normally(self, seconds: int, token: str) -> None:
        """All that falls due is published, and audited a while later: so the floor has something to rise over."""
        for at, generation in list(self.timeline.between(self.now, self.now + seconds)):
            self.now_ms = max(self.now_ms, at * 1000)
            self._publish(at, generation.gen, token)
        self.now_ms += 65_000
        self.audit(0, is_fresh=True)

    @rule(ago=st.integers(min_value=100, max_value=800), token=st.sampled_from(["w1", "w3"]))
    def publish_again_what_is_long_settled(self, ago: int, token: str) -> None:
        for at, generation in list(self.timeline.between(self.now - ago, self.now - ago + 60)):
            self._publish(at, generation.gen, token)
            self._publish(at, generation.gen, token, is_explicit=True)

    @rule(which=st.integers(min_value=0, max_value=1), is_fresh=st.booleans())
    def audit(self, which: int, is_fresh: bool) -> None:
        if is_fresh:
            self.auditors[which] = self._auditor()
        before = self._records()
        self.auditors[which].step()
        self._learn_closed(before)

    @rule()
    def begin_a_slow_audit(self) -> None:
        """Reads and decides now; whatever happens in between, what it does later must do no harm."""
        read, fields = self.desk.closings.recorded(APP, SCHEDULE)
        assert read is not None
        recorded, timeline = Recorded.of(fields), self.timeline
        begin = timeline.generations[0].from_ms // 1000 - 1
        after = begin if read.floor is None else read.floor
        found = examine(timeline, recorded, after=after, until=self.now - 60, now=self.now)
        settled = found.lost[0][0] - 1 if found.lost else found.settled_until
        able = release(recorded, floor=read.floor, settled_until=settled, now=self.now)
        self.held = None if able is None else (read, able)

    @rule()
    def end_a_slow_audit(self) -> None:
        if self.held is not None:
            read, able = self.held
            self.desk.closings.raise_floor(APP, SCHEDULE, read, able.floor, able.dropped)
            self.held = None

    def _records(self) -> list[dict[str, str]]:
        return self.desk.history(schedule=SCHEDULE)

    def _learn_closed(self, before: list[dict[str, str]]) -> None:
        for record in self._records()[len(before) :]:
            last = epoch_seconds(instant_from_text(record["scheduled_at"]))  # type: ignore[arg-type]
            first = epoch_seconds(instant_from_text(record.get("from", record["scheduled_at"])))  # type: ignore[arg-type]
            new = {at for at in self.expected(first - 1, last) if at not in self.published and at not in self.closed}
            assert len(new) == int(record.get("count", "1"))
            self.closed |= new

    # --- what must hold after every step ---

    @invariant()
    def each_instant_has_one_entry_and_one_state(self) -> None:
        entries = [epoch_seconds(instant_from_text(item["scheduled_at"])) for item in self.desk.envelopes()]  # type: ignore[arg-type]
        assert sorted(entries) == sorted(self.published)
        assert self.closed & self.published.keys() == self.replaced

    @invariant()
    def the_floor_only_rises_over_what_is_accounted_for(self) -> None:
        floor = self.floor
        if floor is None:
            assert not self.floors
            return
        assert not self.floors or floor >= self.floors[-1]
        self.floors.append(floor)
        accounted = self.published.keys() | self.closed
        assert [at for at in self.expected(-1, floor) if at not in accounted] == []

    @invariant()
    def the_record_says_how_many_were_closed(self) -> None:
        total = sum(int(record.get("count", "1")) for record in self._records())
        assert total == len(self.closed)

    @invariant()
    def the_published_set_says_the_same_as_the_model(self) -> None:
        recorded = Recorded.of(self.desk.recorded())
        floor = self.floor
        for at in self.published:
            value = recorded.value_at(at)
            assert (value or "").startswith("p|") or (value is None and floor is not None and at <= floor)
        for at in self.closed - self.replaced:
            value = recorded.value_at(at)
            assert (value or "").startswith("c|") or (value is None and floor is not None and at <= floor)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("examples", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_any_order_keeps_the_account(redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, examples: int) -> None:
    # Small numbers, so that the floor moves often.
    monkeypatch.setattr(account, "KEPT_FIRINGS", 12)
    monkeypatch.setattr(account, "_LEFT_FIRINGS", 8)
    monkeypatch.setattr(account, "KEPT_FOR_S", 700)
    monkeypatch.setattr(auditor, "KEPT_FIRINGS", 12)
    monkeypatch.setattr(auditor, "KEPT_FOR_S", 700)
    machine = type("BoundAccount", (AccountMachine,), {"client": redis_client})
    run_state_machine_as_test(
        machine,  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            # The few are the same each time; the many look for what nobody thought of.
            derandomize=examples < 100,
            stateful_step_count=30,
            deadline=None,
            print_blob=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
