"""A state machine over the script that moves a schedule: whatever names workers know, and whichever of them they publish
under, each instant enters the stream once, and the record is under one name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from support.storedesk import EVERY_10_S, T0, T0_MS, Desk, occurrence

from relayctl.store.definitions import Mode, Proposal, Verdict
from relayctl.store.keys import Keys
from relayctl.store.moves import Move, Moves, MoveVerdict
from relayctl.store.stream import Publication, PublishVerdict

if TYPE_CHECKING:
    import redis

NAMES = [("app", "a"), ("app", "b"), ("far", "a")]
SCHEDULES = st.sampled_from(NAMES)
HASHES = st.sampled_from(["h1", "h2"])


class Moving(RuleBasedStateMachine):
    """One schedule, three names, and publishers of which some are late."""

    client: redis.Redis

    @initialize()
    def begin(self) -> None:
        self.client.flushall()
        self.desk, self.moves = Desk(self.client), Moves(self.client, Keys())
        self.now, self.home, self.gen, self.hash = 5, NAMES[0], 1, "h1"
        self.published: set[int] = set()
        self.used = {NAMES[0]}
        item = Proposal(app="app", schedule="a", mode=Mode.START, hash="h1", spec=EVERY_10_S)
        self.desk.definitions.register([item], now_ms=T0_MS)

    @rule(seconds=st.integers(min_value=0, max_value=15))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    @rule(old=SCHEDULES, new=SCHEDULES, hash_=HASHES)
    def move(self, old: tuple[str, str], new: tuple[str, str], hash_: str) -> None:
        if old == new:
            return
        move = Move(old=old, new=new, mode=Mode.EDIT, hash=hash_, spec=EVERY_10_S, held_gen=self.gen)
        [answer] = self.moves.move([move], now_ms=T0_MS + self.now * 1000)
        if old != self.home:
            assert answer is MoveVerdict.NOTHING
            return
        assert answer is MoveVerdict.MOVED
        self.home = new
        self.used.add(new)
        self.gen, self.hash = self.gen + (hash_ != self.hash), hash_

    @rule(name=SCHEDULES, back=st.integers(min_value=0, max_value=4), who=st.sampled_from("xy"))
    def publish(self, name: tuple[str, str], back: int, who: str) -> None:
        """By a worker that knows the schedule under some name it has had, for an instant that is over."""
        at = (self.now // 10 - back) * 10
        if name not in self.used or at <= 0:
            return
        generations = self.desk.definitions.generations(*self.home)
        owner = next(
            (
                each
                for each in generations
                if each.from_ms <= T0_MS + at * 1000 and (each.to_ms is None or T0_MS + at * 1000 < each.to_ms)
            ),
            None,
        )
        assert owner is not None
        item = occurrence(T0 + at, owner.gen, app=name[0], schedule=name[1])
        [(_, answer)] = self.desk.stream.publish([item], who, now_ms=T0_MS + self.now * 1000)
        assert isinstance(answer, Publication)
        if at in self.published:
            assert answer.verdict in {PublishVerdict.DUPLICATE, PublishVerdict.PUBLISHED}
        else:
            assert answer.verdict is PublishVerdict.PUBLISHED
        self.published.add(at)

    @rule(name=SCHEDULES)
    def come_back_late(self, name: tuple[str, str]) -> None:
        """A worker starts on files of before."""
        if name == self.home or name not in self.used:
            return
        item = Proposal(app=name[0], schedule=name[1], mode=Mode.START, hash="h1", spec=EVERY_10_S)
        [answer] = self.desk.definitions.register([item], now_ms=T0_MS + self.now * 1000)
        assert isinstance(answer, tuple)
        assert answer[0] is Verdict.BEHIND

    @invariant()
    def each_instant_is_in_the_stream_once(self) -> None:
        told = [json.loads(fields["event"])["scheduled_at"] for _, fields in self.client.xrange("{relay}:events")]  # type: ignore[union-attr]
        assert len(told) == len(set(told)) == len(self.published)

    @invariant()
    def it_has_one_name(self) -> None:
        assert self.desk.definitions.all_names() == {self.home}
        assert self.desk.definitions.removed_names() == []
        assert set(self.moves.homes(self.used).values()) <= {self.home}
        head = self.desk.definitions.heads([self.home])[self.home]
        assert (head.gen, head.hash, head.moved_to) == (self.gen, self.hash, None)
        assert {*head.moved_from, self.home} == self.used


@pytest.mark.timeout(120)
def test_each_instant_runs_once_whatever_the_schedule_is_called(redis_client: redis.Redis) -> None:
    Moving.client = redis_client
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Moving,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            print_blob=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
