"""Real workers on a Cluster, end to end: firings, events, orders, a slot that moves, a node that dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact
from support.cluster import Cluster
from support.console import relayctl
from support.fleet import Fleet, each_second_once

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.console import Answer
    from support.sentinel import Member

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(150)]
EVERY_SECOND = "- {name: tick, handler: jobs.run, every: 1s, retries: 0}"
ON_DEMAND = '- {name: rare, handler: jobs.slow, cron: "0 3 29 2 *"}'
EVENTS = "- {handler: jobs.on_event, pattern: {kind: [go]}}"


@pytest.fixture
def own_cluster(short_dir: Path) -> Iterator[Cluster]:
    """A Cluster that the test may hurt."""
    made = Cluster(short_dir / "cluster")
    yield made
    made.close()


@pytest.fixture
def fleet(own_cluster: Cluster, short_dir: Path) -> Iterator[Fleet]:
    made = Fleet(short_dir, own_cluster.target, own_cluster.url)
    made.tree.app("app", f"{EVERY_SECOND}\n{ON_DEMAND}", events=EVENTS, head="concurrency: 4", env="TAKES: '0'")
    yield made
    made.close()


def ask(fleet: Fleet, *words: str) -> Answer:
    return relayctl(*words, "--apps", "apps", "--redis", fleet.url, cwd=fleet.root)


def test_an_app_runs_on_a_cluster_and_its_slot_moves(fleet: Fleet, own_cluster: Cluster) -> None:
    workers = [fleet.start(), fleet.start()]
    first = now(fleet) + 1
    fleet.emit(kind="go", id="before")
    fleet.await_instant(first + 2)
    status = ask(fleet, "status", "--check")
    assert (status.code, "redis+cluster://" in status.out) == (0, True), status.err
    assert ask(fleet, "trigger", "app/rare", "--wait").code == 0
    home = own_cluster.node_of(fleet.keys.events)
    own_cluster.move(fleet.keys.events, home, next(node for node in own_cluster.nodes if node is not home))
    fleet.emit(kind="go", id="after")
    last = now(fleet) + 3
    fleet.await_instant(last)
    assert [worker.stop() for worker in workers] == [0, 0]
    fleet.await_idle(within_s=1)
    each_second_once(fleet, first, last)
    assert sorted(line["id"] for line in fleet.tree.runs("event")) == ["after", "before"]
    for worker in workers:
        assert worker.noise == []
        assert [fact for fact in worker.told("loop-failed") if "MOVED" not in str(fact)] == []


def test_a_node_that_dies_is_replaced_and_loses_nothing_acknowledged(fleet: Fleet, own_cluster: Cluster) -> None:
    key = fleet.keys.events
    home = own_cluster.node_of(key)
    heir = own_cluster.add_replica(key)
    workers = [fleet.start("--min-replica-acks", "1") for _ in range(2)]
    first = now(fleet) + 1
    fleet.await_instant(first + 3)
    home.kill()
    await_fact(lambda: heir.is_in("master"), "nobody takes its place", 20)
    home.restart()
    await_fact(lambda: home.is_in("slave"), "it does not come back as a replica", 30)
    await_fact(lambda: is_served(fleet), "the client finds no way", 20)
    last = now(fleet) + 3
    fleet.await_instant(last)
    fleet.await_idle(within_s=30)
    assert [worker.stop() for worker in workers] == [0, 0]
    published = fleet.published()
    assert [at for at in range(first, last + 1) if at not in published] == []
    assert entries_added(heir, key) == len(published), "an instant has two entries"
    assert [worker.noise for worker in workers] == [[], []]


def now(fleet: Fleet) -> int:
    """The time of a node; the fleet's own way asks all of them."""
    return int(fleet.client.eval_ro("return redis.call('TIME')", 1, fleet.keys.events)[0])


def is_served(fleet: Fleet) -> bool:
    from relayctl.errors import BrokerError
    from relayctl.store.connect import translate

    try:
        with translate():
            return bool(fleet.client.hlen(fleet.keys.published("app", "tick")))
    except BrokerError:
        return False


def entries_added(node: Member, key: str) -> int:
    facts = node.ask("XINFO", "STREAM", key)
    found = facts if isinstance(facts, dict) else dict(zip(facts[::2], facts[1::2], strict=True))
    return int(found["entries-added"])
