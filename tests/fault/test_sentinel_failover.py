"""Fail-over under load with one replica acknowledgement: what counted as published is there, and nothing is there twice.

Runs are another matter: what a lost primary knew of them is lost too, so around a fail-over work may run again.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from support.fleet import Fleet, await_true
from support.sentinel import SentinelSet

from relayctl.host.clock import SystemClock
from relayctl.host.outbox import Outbox
from relayctl.host.state import StateDir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.fleet import ServeProcess

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(180)]
NAMES = [f"s{number}" for number in range(5)]
SCHEDULES = "\n".join(f"- {{name: {name}, handler: jobs.run, every: 1s, retries: 0}}" for name in NAMES)
BOUND_S = 25
"""Within which workers carry on: a second until the primary is held for down, the vote, and the next tries."""


@pytest.fixture
def group(short_dir: Path) -> Iterator[SentinelSet]:
    """A primary, two replicas, three Sentinels; everybody wants a password."""
    made = SentinelSet(short_dir / "group", password="p@ss", sentinel_password="s3ntinel")
    yield made
    made.close()


@pytest.fixture
def fleet(group: SentinelSet, short_dir: Path) -> Iterator[Fleet]:
    made = Fleet(short_dir, group.target, group.url)
    made.tree.app("app", SCHEDULES, head="concurrency: 8")
    yield made
    made.close()


def serve(fleet: Fleet) -> list[ServeProcess]:
    workers = [fleet.start("--min-replica-acks", "1", wait=False) for _ in range(2)]
    for worker in workers:
        worker.await_up()
    return workers


def rows(fleet: Fleet, workers: list[ServeProcess]) -> int:
    """How many publications are not known to be held by a replica."""
    with ExitStack() as opened:
        found = 0
        for number in range(len(workers)):
            path = StateDir(fleet.root / f"state-{number}").outbox
            outbox = Outbox(path, SystemClock(), None)
            opened.callback(outbox.close)
            found += outbox.count() if path.exists() else 0
        return found


def check(fleet: Fleet, workers: list[ServeProcess], first: int, last: int, broken: tuple[int, int]) -> None:
    """Every instant once in the account, with the entry that counted; doubled runs only while it was broken."""
    kept = {name: fleet.published(schedule=name) for name in NAMES}
    missing = [(name, at) for name in NAMES for at in range(first, last + 1) if at not in kept[name]]
    assert missing == [], "instants are missing"
    entries = {entry for published in kept.values() for entry in published.values()}
    assert fleet.entries_added() == len(entries) == sum(map(len, kept.values())), "an instant has two entries"
    for worker in workers:
        for fact in worker.told("published"):
            at = int(datetime.fromisoformat(fact["scheduled_at"]).timestamp())
            if not broken[0] <= at <= broken[1]:
                assert fact["entry"] == kept[fact["schedule"]][at], "acknowledged, and replaced"
    runs = fleet.tree.run_count()
    assert [at for at in range(first, last + 1) if runs.get(at, 0) < len(NAMES)] == []
    odd = [at for at in range(first, last + 1) if runs[at] > len(NAMES)]
    # What was under way when it broke had begun before.
    assert [at for at in odd if not broken[0] - 3 <= at <= broken[1]] == []
    assert [worker.noise for worker in workers] == [[]] * len(workers)


def clock() -> int:
    return int(datetime.now(UTC).timestamp())


def test_the_primary_dies_while_one_replica_is_stalled(fleet: Fleet, group: SentinelSet) -> None:
    workers = serve(fleet)
    first = fleet.now() + 1
    fleet.pass_time(3, schedule=NAMES[0])
    primary, heir, stalled = group.servers
    stalled.stall()
    fleet.pass_time(4, schedule=NAMES[0])
    await_true(lambda: rows(fleet, workers) == 0, "the replica that is left acknowledges nothing")
    killed_at = clock()
    primary.kill()
    group.await_primary(heir)
    for worker in workers:
        worker.await_told("replicas-behind", within_s=BOUND_S)
    assert rows(fleet, workers) > 0, "nobody holds what is published now"
    stalled.resume()
    await_true(lambda: rows(fleet, workers) == 0, "the outbox is not cleared", within_s=40)
    well_at = clock()
    last = fleet.pass_time(3, schedule=NAMES[0])
    fleet.await_idle(within_s=30)
    assert [worker.stop() for worker in workers] == [0, 0]
    check(fleet, workers, first, last, (killed_at - 1, well_at))


def test_the_old_primary_comes_back_and_is_still_listened_to(fleet: Fleet, group: SentinelSet) -> None:
    """It stood still long enough to lose its office, and answers its old connections as if it had not."""
    workers = serve(fleet)
    first = fleet.now() + 1
    fleet.pass_time(3, schedule=NAMES[0])
    old = group.servers[0]
    broken_at = clock()
    old.stall()
    await_true(lambda: group.primary() not in {None, old}, "the fail-over does not come", within_s=BOUND_S)
    old.resume()
    await_true(lambda: old.is_in("slave"), "the old primary stays", within_s=40)
    await_true(lambda: rows(fleet, workers) == 0, "the outbox is not cleared", within_s=40)
    well_at = clock()
    last = fleet.pass_time(3, schedule=NAMES[0])
    fleet.await_idle(within_s=30)
    assert [worker.stop() for worker in workers] == [0, 0]
    check(fleet, workers, first, last, (broken_at - 1, well_at))
