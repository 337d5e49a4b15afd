"""Laws of keeping a service running: whatever its replicas do, ports and peers are respected, and it arrives in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from relayctl.core.service import (
    BACKOFF_S,
    REPLACED,
    STABLE_AFTER_S,
    Phase,
    Replica,
    Start,
    Stop,
    Trouble,
    Wanted,
    decide,
    failed,
    next_at,
    outdated,
)

fast = settings(max_examples=60, deadline=None, print_blob=True)
# The port is part of the version, as it is in `version_of`.
WANTED = st.builds(
    lambda version, replicas, port: Wanted(version=f"{version} on {port}", replicas=replicas, port=port),
    version=st.sampled_from(["v1", "v2", "v3"]),
    replicas=st.integers(1, 5),
    port=st.sampled_from([None, 3000, 3001, 3002, 4000]),
)
DEEDS = st.lists(
    st.tuples(st.sampled_from(["up", "crash", "end", "wait", "want", "none"]), st.integers(0, 9)), max_size=60
)


@dataclass
class World:
    """Replicas that do what a test says, under the decisions that are tested."""

    wanted: Wanted | None
    broken: frozenset[str] = frozenset()
    replicas: dict[int, Replica] = field(default_factory=dict)
    troubles: dict[int, Trouble] = field(default_factory=dict)
    now: float = 0.0

    def obey(self) -> None:
        before = dict(self.replicas)
        for order in decide(self.wanted, before, self.troubles, self.now):
            if isinstance(order, Start):
                assert self.wanted is not None
                self._start(order.index, self.wanted)
            else:
                self._stop(order, before)

    def _start(self, index: int, wanted: Wanted) -> None:
        port = wanted.port_of(index)
        assert index not in self.replicas and index < wanted.replicas
        assert port is None or port not in {it.port for it in self.replicas.values()}
        trouble = self.troubles.get(index)
        assert trouble is None or trouble.version != wanted.version or trouble.retry_at <= self.now
        self.replicas[index] = Replica(version=wanted.version, phase=Phase.STARTING, port=port)

    def _stop(self, order: Stop, before: dict[int, Replica]) -> None:
        replica = before[order.index]
        assert replica.phase is not Phase.STOPPING
        if order.reason == REPLACED and replica.phase is Phase.UP:
            assert self.wanted is not None
            for other in set(range(self.wanted.replicas)) - {order.index}:
                peer = before.get(other)
                port = self.wanted.port_of(other)
                waits_for_port = peer is None and any(it.port == port and port for it in before.values())
                assert waits_for_port or (peer is not None and peer.phase is Phase.UP), "two are down at once"
        self.replicas[order.index] = Replica(version=replica.version, phase=Phase.STOPPING, port=replica.port)

    def come_up(self, index: int) -> None:
        replica = self.replicas.get(index)
        if replica is not None and replica.phase is Phase.STARTING:
            self.replicas[index] = Replica(version=replica.version, phase=Phase.UP, port=replica.port)

    def crash(self, index: int, up_s: float = 0.0) -> None:
        replica = self.replicas.pop(index, None)
        if replica is not None and replica.phase is not Phase.STOPPING:
            self.troubles[index] = failed(
                self.troubles.get(index), replica.version, "exit code 1", up_s=up_s, now=self.now
            )

    def settle(self, steps: int = 60) -> None:
        """Let time pass; replicas of a version that is broken crash, the others come up and end as they are told."""
        for _ in range(steps):
            self.obey()
            for index, replica in list(self.replicas.items()):
                if replica.phase is Phase.STOPPING:
                    del self.replicas[index]
                elif replica.phase is Phase.STARTING and replica.version in self.broken:
                    self.crash(index)
                else:
                    self.come_up(index)
            self.now += 1.0


def _do(world: World, deed: str, index: int, changes: list[Wanted]) -> None:
    if deed == "up":
        world.come_up(index)
    elif deed == "crash":
        world.crash(index)
    elif deed == "end":
        if index in world.replicas and world.replicas[index].phase is Phase.STOPPING:
            del world.replicas[index]
    elif deed == "wait":
        world.now += index
    elif deed == "want" and changes:
        world.wanted = changes[index % len(changes)]
    elif deed == "none":
        world.wanted = None if index == 0 else world.wanted


@fast
@given(first=WANTED, changes=st.lists(WANTED, max_size=4), deeds=DEEDS)
def test_whatever_happens_it_arrives_at_what_is_wanted_and_never_breaks_a_rule_on_the_way(
    first: Wanted, changes: list[Wanted], deeds: list[tuple[str, int]]
) -> None:
    world = World(first)
    for deed, index in deeds:
        world.obey()
        _do(world, deed, index, changes)
    world.settle()
    wanted = world.wanted
    if wanted is None:
        assert world.replicas == {}
        return
    assert world.replicas == {
        index: Replica(version=wanted.version, phase=Phase.UP, port=wanted.port_of(index))
        for index in range(wanted.replicas)
    }
    assert outdated(wanted, world.replicas) == []


@fast
@given(replicas=st.integers(1, 6), port=st.sampled_from([None, 3000, 3001]))
def test_a_definition_that_does_not_come_up_costs_one_replica_at_most(replicas: int, port: int | None) -> None:
    world = World(Wanted(version="v1", replicas=replicas, port=3000), broken=frozenset({"v2"}))
    world.settle(10)
    world.wanted = Wanted(version="v2", replicas=replicas, port=port)
    for _ in range(60):
        world.settle(1)
        up = [it for it in world.replicas.values() if it.phase is Phase.UP and it.version == "v1"]
        assert len(up) >= replicas - 1
    world.wanted = Wanted(version="v3", replicas=replicas, port=port)
    world.settle(replicas * 4 + 4)
    assert {it.version for it in world.replicas.values()} == {"v3"}


@fast
@given(count=st.integers(1, 20))
def test_pauses_grow_to_a_limit_and_a_replica_that_stayed_up_begins_anew(count: int) -> None:
    trouble = None
    for _ in range(count):
        trouble = failed(trouble, "v1", "exit code 1", up_s=1.0, now=100.0)
    assert trouble is not None
    assert trouble.failures == count and trouble.is_loop == (count >= 3)
    assert trouble.retry_at == 100.0 + BACKOFF_S[min(count, len(BACKOFF_S)) - 1] <= 100.0 + BACKOFF_S[-1]
    assert failed(trouble, "v1", "exit code 1", up_s=STABLE_AFTER_S, now=0.0).failures == 1
    assert failed(trouble, "v2", "exit code 1", up_s=0.0, now=0.0).failures == 1


def test_a_pause_is_waited_for_and_another_definition_is_not_kept_waiting() -> None:
    wanted = Wanted(version="v1", replicas=1)
    troubles = {0: failed(None, "v1", "exit code 1", up_s=0.0, now=10.0)}
    assert decide(wanted, {}, troubles, 10.2) == ()
    assert next_at(wanted, {}, troubles) == 10.5
    assert decide(wanted, {}, troubles, 10.5) == (Start(0),)
    assert decide(Wanted(version="v2", replicas=1), {}, troubles, 10.2) == (Start(0),)


def test_a_replica_that_only_comes_up_to_fail_again_stops_the_change() -> None:
    replicas = {
        0: Replica(version="v2", phase=Phase.UP),
        1: Replica(version="v1", phase=Phase.UP),
    }
    looping = {0: Trouble(version="v2", failures=3, reason="exit code 1", retry_at=0.0)}
    assert decide(Wanted(version="v2", replicas=2), replicas, looping, 1.0) == ()
    assert decide(Wanted(version="v2", replicas=2), replicas, {}, 1.0) == (Stop(1, REPLACED),)
