"""A state machine over the release script: operators who read at one time and publish at another, lost answers, leftovers
of a registry that moved, and bundles that are dropped. What is in force is always one release, whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from support.storedesk import T0_MS, Desk

from relayctl.core.definition import TOMBSTONE
from relayctl.core.release import KEPT_BUNDLES, Draft
from relayctl.store.definitions import Mode, Proposal, Verdict
from relayctl.store.keys import Keys
from relayctl.store.releases import Definition, Releases, ReleaseVerdict

if TYPE_CHECKING:
    import redis

OPERATORS = st.integers(min_value=0, max_value=2)
NAMES = ("nightly", "hourly", "weekly")
TREES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("abc"), max_size=3)
APP = "shop"


@dataclass
class Intent:
    """What an operator read and means to publish."""

    draft: Draft
    definitions: list[Definition]
    tree: dict[str, str]


@dataclass
class Past:
    """One release as the model has it."""

    id: str
    digest: str
    tree: dict[str, str]


@dataclass
class Model:
    """What should be in force."""

    releases: list[Past] = field(default_factory=list)
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)


class Publishing(RuleBasedStateMachine):
    """Three operators and one registry."""

    client: redis.Redis

    @initialize()
    def begin(self) -> None:
        self.client.flushall()
        self.desk = Desk(self.client)
        self.releases = Releases(self.client, Keys())
        self.model = Model()
        self.intents: dict[int, Intent] = {}
        self.sent: list[Intent] = []
        self.now = T0_MS
        self.drafts = 0

    @rule(who=OPERATORS, tree=TREES, bundle=st.sampled_from("xyz"))
    def read(self, who: int, tree: dict[str, str], bundle: str) -> None:
        """Plan against what is in force now."""
        self.drafts += 1
        definitions = [
            Definition(
                app=APP, schedule=name, hash=hash_, spec=f"spec {hash_}", gen=self.model.heads.get(name, (0,))[0]
            )
            for name, hash_ in tree.items()
            if self.model.heads.get(name, (0, ""))[1] != hash_
        ]
        definitions += [
            Definition(app=APP, schedule=name, hash=TOMBSTONE, spec="", gen=gen)
            for name, (gen, hash_) in self.model.heads.items()
            if name not in tree and hash_ != TOMBSTONE
        ]
        draft = Draft(
            id=f"id{self.drafts}",
            base=len(self.model.releases),
            digest=bundle,
            tree="t",
            by=f"op{who}",
            revisions={APP: f"r{self.drafts}"} if tree else {},
        )
        self.intents[who] = Intent(draft=draft, definitions=definitions, tree=tree)

    @rule(who=OPERATORS, is_staged=st.booleans(), clock=st.integers(min_value=-500, max_value=5000))
    def publish(self, who: int, is_staged: bool, clock: int) -> None:
        """Send what was read, whatever has happened since."""
        intent = self.intents.get(who)
        if intent is None:
            return
        self.now += clock
        if is_staged:
            self.releases.stage(intent.draft.digest, b"bundle")
        has_bundle = intent.draft.digest in self.releases.kept_bundles()
        before = self.desk.contents()
        answer = self.releases.publish(intent.draft, intent.definitions, now_ms=self.now)
        ours = next((at for at, past in enumerate(self.model.releases, 1) if past.id == intent.draft.id), None)
        if ours is not None:
            assert (answer.verdict, answer.serial) == (ReleaseVerdict.PUBLISHED, ours)
            assert self.desk.contents() == before, "the same again changes nothing"
        elif intent.draft.base != len(self.model.releases):
            assert (answer.verdict, answer.serial) == (ReleaseVerdict.MOVED, len(self.model.releases))
            assert self.desk.contents() == before
        elif not has_bundle:
            assert answer.verdict is ReleaseVerdict.UNSTAGED
            assert self.desk.contents() == before
        else:
            assert (answer.verdict, answer.serial) == (ReleaseVerdict.PUBLISHED, len(self.model.releases) + 1)
            self._took(intent)
        self.sent.append(intent)

    def _took(self, intent: Intent) -> None:
        for item in intent.definitions:
            self.model.heads[item.schedule] = (item.gen + 1, item.hash)
        self.model.releases.append(Past(id=intent.draft.id, digest=intent.draft.digest, tree=intent.tree))

    @rule(name=st.sampled_from(NAMES))
    def somebody_else_moves_a_schedule(self, name: str) -> None:
        """Not what releases are for, and yet no release may be built on what it has not seen."""
        gen, hash_ = self.model.heads.get(name, (0, ""))
        if not self.intents or hash_ == TOMBSTONE:
            return
        moved = f"moved{self.drafts}-{gen}"
        proposal = Proposal(app=APP, schedule=name, mode=Mode.START, hash=moved, spec="s")
        [(verdict, _)] = self.desk.definitions.register([proposal], now_ms=self.now)  # type: ignore[misc]
        assert verdict in {Verdict.CREATED, Verdict.CHANGED}
        self.model.heads[name] = (gen + 1, moved)
        for who in [who for who, intent in self.intents.items() if intent.draft.base == len(self.model.releases)]:
            intent = self.intents.pop(who)
            if any(item.schedule == name for item in intent.definitions):
                self.releases.stage(intent.draft.digest, b"bundle")
                before = self.desk.contents()
                answer = self.releases.publish(intent.draft, intent.definitions, now_ms=self.now)
                if any(past.id == intent.draft.id for past in self.model.releases):
                    continue
                assert answer.verdict is ReleaseVerdict.CHANGED
                assert self.desk.contents() == before

    @invariant()
    def one_release_is_in_force_whole(self) -> None:
        count = len(self.model.releases)
        assert self.releases.serial() == count
        current = self.releases.current()
        assert (current is None) is (count == 0)
        heads = self.desk.definitions.heads((APP, name) for name in NAMES)
        assert {name: (head.gen, head.hash) for (_, name), head in heads.items()} == self.model.heads
        alive = {name for name, (_, hash_) in self.model.heads.items() if hash_ != TOMBSTONE}
        assert self.desk.definitions.all_names() == {(APP, name) for name in alive}
        if current is None:
            return
        last = self.model.releases[-1]
        assert (current.draft.id, self.releases.pins()) == (last.id, dict(current.revisions))
        kept = self.releases.kept_bundles()
        assert {past.digest for past in self.model.releases[-KEPT_BUNDLES:]} <= kept

    @invariant()
    def intervals_follow_one_another(self) -> None:
        for name in self.model.heads:
            generations = self.desk.definitions.generations(APP, name)
            for one, other in pairwise(generations):
                assert one.to_ms is not None
                assert one.from_ms <= one.to_ms <= other.from_ms


@pytest.mark.timeout(120)
def test_what_is_in_force_is_one_release_whole(redis_client: Any) -> None:
    Publishing.client = redis_client
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Publishing,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            print_blob=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
