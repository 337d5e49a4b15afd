"""A state machine over the registry: static checkouts, live edits, reverts, removals, restarts and adoptions by several
workers that publish early, late and under any generation, over the real scripts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from support.storedesk import APP, SCHEDULE, T0, T0_MS, Desk

from relayctl.core.definition import TOMBSTONE
from relayctl.core.occurrence import epoch_seconds, instant_from_text
from relayctl.store.definitions import Mode, Verdict
from relayctl.store.stream import PublishVerdict

if TYPE_CHECKING:
    import redis

CONTENTS = st.sampled_from(["a", "b", "c", "d"])
WORKERS = st.integers(min_value=0, max_value=2)
BUDGET = {
    "deadline": None,
    "print_blob": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


@dataclass
class Peer:
    """A worker: what its files say (None: no such schedule), and the generation of the head it holds (0: none)."""

    files: str | None = None
    held: int = 0
    is_up: bool = False


@dataclass
class Past:
    """One generation as the model has it."""

    gen: int
    hash: str
    from_ms: int
    to_ms: int | None = None

    def covers(self, at: int) -> bool:
        return self.from_ms <= at * 1000 and (self.to_ms is None or at * 1000 < self.to_ms)


class Registry(RuleBasedStateMachine):
    """One schedule, three workers, a server clock that also steps back."""

    client: redis.Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.desk = Desk(self.client)
        self.now = T0_MS
        self.peers = [Peer(), Peer(), Peer()]
        self.past: list[Past] = []
        self.published: dict[int, tuple[int, str]] = {}
        self.highest: int | None = None

    @property
    def head(self) -> Past | None:
        return self.past[-1] if self.past else None

    # --- proposals ---

    def _propose(self, peer: Peer, mode: Mode, content: str, held: int) -> Verdict:
        expected = self._expected(mode, content, held)
        before = self.desk.contents()
        verdict, head = self.desk.register(content, mode=mode, held=held, now_ms=self.now)
        assert verdict is expected
        if verdict in {Verdict.CREATED, Verdict.CHANGED, Verdict.REMOVED}:
            self._begin(content)
        else:
            assert self.desk.contents() == before, "an answer without a change changes nothing"
        if head is not None and self.head is not None:
            assert (head.gen, head.hash, head.from_ms) == (self.head.gen, self.head.hash, self.head.from_ms)
        is_holder = self.head is not None and self.head.hash == content
        peer.held = self.head.gen if self.head is not None and is_holder else 0
        return verdict

    def _expected(self, mode: Mode, content: str, held: int) -> Verdict:
        if self.head is None:
            return Verdict.ABSENT if content == TOMBSTONE else Verdict.CREATED
        if self.head.hash == content:
            return Verdict.UNCHANGED
        if content != TOMBSTONE and content not in {item.hash for item in self.past}:
            return Verdict.CHANGED
        if mode is Mode.START or held != self.head.gen:
            return Verdict.BEHIND
        return Verdict.REMOVED if content == TOMBSTONE else Verdict.CHANGED

    def _begin(self, content: str) -> None:
        start = self.now
        if self.head is not None:
            # What was published under the definition before stays in its interval.
            published = -1 if self.highest is None else self.highest * 1000
            start = max(start, self.head.from_ms, published + 1)
            self.head.to_ms = start
        self.past.append(Past(gen=len(self.past) + 1, hash=content, from_ms=start))

    @rule(who=WORKERS, content=CONTENTS)
    def arrive_with_a_checkout(self, who: int, content: str) -> None:
        self.peers[who] = Peer(files=content, is_up=True)
        self._propose(self.peers[who], Mode.START, content, 0)

    @precondition(lambda self: any(peer.files for peer in self.peers))
    @rule(who=WORKERS)
    def restart(self, who: int) -> None:
        """A start has no memory, whatever this worker held before."""
        peer = self.peers[who]
        peer.is_up, peer.held = True, 0
        if peer.files is None:
            return
        head, seen = self.head, {item.hash for item in self.past}
        verdict = self._propose(peer, Mode.START, peer.files, 0)
        if head is not None and peer.files in seen:
            assert verdict in {Verdict.UNCHANGED, Verdict.BEHIND}
            assert self.head is head, "known content that restarts moves nothing"

    @rule(who=WORKERS)
    def start_without_the_schedule(self, who: int) -> None:
        """Even a worker that did propose a removal on starting could not bring one about."""
        head = self.head
        self.peers[who] = Peer(is_up=True)
        verdict = self._propose(self.peers[who], Mode.START, TOMBSTONE, head.gen if head else 0)
        assert verdict is not Verdict.REMOVED
        assert self.head is head

    @rule(who=WORKERS, content=CONTENTS)
    def edit_live(self, who: int, content: str) -> None:
        peer = self.peers[who]
        if not peer.is_up:
            return
        peer.files = content
        self._propose(peer, Mode.EDIT, content, peer.held)

    @precondition(lambda self: self.head is not None and len({item.hash for item in self.past} - {TOMBSTONE}) > 1)
    @rule(who=WORKERS, which=st.integers(min_value=0, max_value=7))
    def revert_from_the_head(self, who: int, which: int) -> None:
        """Whoever holds the head and goes back to older content lands."""
        peer = self.peers[who]
        older = sorted({item.hash for item in self.past} - {TOMBSTONE, self.past[-1].hash})
        if not (peer.is_up and peer.held == self.past[-1].gen and older):
            return
        peer.files = older[which % len(older)]
        assert self._propose(peer, Mode.EDIT, peer.files, peer.held) is Verdict.CHANGED

    @rule(who=WORKERS)
    def remove_live(self, who: int) -> None:
        peer = self.peers[who]
        if not peer.is_up or peer.files is None:
            return
        peer.files = None
        self._propose(peer, Mode.EDIT, TOMBSTONE, peer.held)

    @rule(who=WORKERS)
    def stop(self, who: int) -> None:
        self.peers[who].is_up = False
        self.peers[who].held = 0

    @rule(who=WORKERS, is_late=st.booleans())
    def adopt(self, who: int, is_late: bool) -> None:
        """When nobody alive holds the head; a late one still names the generation before."""
        peer, head = self.peers[who], self.head
        if head is None or not peer.is_up or any(other.is_up and other.held == head.gen for other in self.peers):
            return
        held = head.gen - 1 if is_late else head.gen
        verdict = self._propose(peer, Mode.ADOPT, peer.files or TOMBSTONE, held)
        assert verdict is not Verdict.CHANGED or not is_late or peer.files not in {item.hash for item in self.past[:-1]}

    # --- publication ---

    @rule(
        gen=st.integers(min_value=0, max_value=6),
        ahead=st.integers(min_value=-12, max_value=4),
        token=st.sampled_from(["w1", "w2"]),
    )
    def publish(self, gen: int, ahead: int, token: str) -> None:
        """Any instant near now under any generation, the unknown ones included."""
        at = self.now // 1000 + ahead
        of_gen = next((item for item in self.past if item.gen == gen), None)
        answer = self.desk.publish(at, gen=gen, token=token, now_ms=self.now)
        known = self.published.get(at)
        if known is not None:
            expected = PublishVerdict.PUBLISHED if known[1] == token else PublishVerdict.DUPLICATE
        elif at * 1000 > self.now + 1000:
            expected = PublishVerdict.EARLY
        elif of_gen is None:
            expected = PublishVerdict.UNKNOWN
        elif not of_gen.covers(at):
            expected = PublishVerdict.STALE
        else:
            expected = PublishVerdict.PUBLISHED
            assert [item.gen for item in self.past if item.covers(at)] == [gen]
            self.published[at] = (gen, token)
            self.highest = at if self.highest is None else max(self.highest, at)
        assert answer.verdict is expected

    # --- time ---

    @rule(ms=st.sampled_from([1, 400, 1000, 1700, 10_000]))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule(ms=st.sampled_from([1, 900, 5000]))
    def step_back(self, ms: int) -> None:
        self.now -= ms

    # --- what must hold after every step ---

    @invariant()
    def intervals_follow_one_another(self) -> None:
        kept = self.desk.definitions.generations(APP, SCHEDULE)
        assert [(item.gen, item.hash, item.from_ms, item.to_ms) for item in kept] == [
            (item.gen, item.hash, item.from_ms, item.to_ms) for item in self.past
        ]
        assert [item.to_ms for item in kept[:-1]] == [item.from_ms for item in kept[1:]]
        assert all(item.from_ms <= (item.to_ms or item.from_ms) for item in kept)

    @invariant()
    def one_entry_per_instant_by_its_generation(self) -> None:
        entries = [
            (epoch_seconds(instant_from_text(item["scheduled_at"])), item["gen"])  # type: ignore[arg-type]
            for item in self.desk.envelopes()
        ]
        assert sorted(entries) == sorted((at, gen) for at, (gen, _) in self.published.items())

    @invariant()
    def the_registry_lists_what_is_in_force(self) -> None:
        in_force = self.head is not None and self.head.hash != TOMBSTONE
        assert self.desk.definitions.all_names() == ({(APP, SCHEDULE)} if in_force else set())
        assert self.desk.definitions.seq() == len(self.past)
        assert self.desk.stream.highest_published([(APP, SCHEDULE)]) == [self.highest]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_registry_orders_what_files_propose(redis_client: redis.Redis) -> None:
    machine = type("BoundRegistry", (Registry,), {"client": redis_client})
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=40, **BUDGET))  # type: ignore[arg-type]


def test_static_checkouts_never_alternate(redis_client: redis.Redis) -> None:
    @settings(max_examples=40, **BUDGET)  # type: ignore[arg-type]
    @given(starts=st.lists(CONTENTS, min_size=2, max_size=30))
    def starts_move_the_head_once_per_content(starts: list[str]) -> None:
        redis_client.flushall()
        desk = Desk(redis_client)
        heads: list[Any] = []
        for number, content in enumerate(starts):
            _, head = desk.register(content, now_ms=T0_MS + number)
            assert head is not None
            heads.append(head.hash)
        first_seen = list(dict.fromkeys(starts))
        assert list(dict.fromkeys(heads)) == first_seen
        assert desk.definitions.seq() == len(first_seen)
        assert heads[-1] == first_seen[-1], "what came last as new stays, however often the others restart"

    starts_move_the_head_once_per_content()


def test_a_worker_of_any_age_publishes_each_instant_once(redis_client: redis.Redis) -> None:
    @settings(max_examples=30, **BUDGET)  # type: ignore[arg-type]
    @given(
        edits=st.lists(st.integers(min_value=1, max_value=4000), min_size=1, max_size=5),
        offers=st.lists(
            st.tuples(st.integers(min_value=-3, max_value=20), st.integers(min_value=1, max_value=6)),
            min_size=1,
            max_size=40,
        ),
    )
    def each_instant_has_its_generation(edits: list[int], offers: list[tuple[int, int]]) -> None:
        redis_client.flushall()
        desk, now_ms = Desk(redis_client), T0_MS
        for number, step in enumerate(edits):
            desk.register(f"h{number}", now_ms=now_ms)
            now_ms += step
        for number, (ahead, gen) in enumerate(offers):
            desk.publish(T0 + ahead, gen=gen, token=f"w{number}", now_ms=now_ms + 60_000)
        generations = desk.definitions.generations(APP, SCHEDULE)
        entries = desk.envelopes()
        assert len({item["occurrence_id"] for item in entries}) == len(entries)
        for item in entries:
            at = epoch_seconds(instant_from_text(item["scheduled_at"]))  # type: ignore[arg-type]
            [owner] = [
                kept.gen
                for kept in generations
                if kept.from_ms <= at * 1000 and (kept.to_ms is None or at * 1000 < kept.to_ms)
            ]
            assert owner == item["gen"]

    each_instant_has_its_generation()
