"""A broker that is away across many ticks: what was attempted arrives, the rest goes by policy, nothing comes twice."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from support.fleet import Fleet, await_true, each_second_once

from relayctl.core.account import Recorded
from relayctl.host.clock import SystemClock
from relayctl.host.outbox import Outbox

if TYPE_CHECKING:
    from support.broker import PrivateBroker

pytestmark = [pytest.mark.fault, pytest.mark.slow]
TICKS = {"second": 1, "seven": 7}
SCHEDULES = "\n".join(f"- {{name: {name}, handler: jobs.run, every: {every}s}}" for name, every in TICKS.items())


def wait(seconds: float) -> None:
    """Let an outage last; only the wall clock can say that it did."""
    began = datetime.now(UTC)
    await_true(
        lambda: (datetime.now(UTC) - began).total_seconds() >= seconds, "time stands still", within_s=seconds + 5
    )


def accounted(fleet: Fleet, name: str, first: int, last: int) -> tuple[list[int], list[int], list[int]]:
    """The expected instants: published, closed, and neither."""
    expected = [at for at in range(first, last + 1) if at % TICKS[name] == 0]
    fields = fleet.client.hgetall(fleet.keys.published("app", name))
    recorded = Recorded.of(fields)
    floor = int(fleet.registry("app", name).get("floor", 0))
    states = {at: recorded.value_at(at) or ("c" if at <= floor else "") for at in expected}
    return (
        [at for at in expected if states[at].startswith("p")],
        [at for at in expected if states[at].startswith("c")],
        [at for at in expected if not states[at]],
    )


def judge_runs(fleet: Fleet) -> None:
    """Each publication on record ran once, and nothing ran that is not on record; what offends says which promise."""
    recorded = {entry: (name, at) for name in TICKS for at, entry in fleet.published("app", name).items()}
    runs = Counter(line["message"] for line in fleet.tree.runs("run"))
    forgotten = {line["message"]: line for line in fleet.tree.runs("run") if line["message"] not in recorded}
    assert forgotten == {}, "the broker has lost publications that it had acknowledged, for they ran"
    assert {entry: count for entry, count in runs.items() if count > 1} == {}, "claims or ends were lost"
    assert {recorded[entry] for entry in recorded.keys() - runs.keys()} == set(), "these never ran"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("away_s", [20, 90])
def test_a_broker_that_is_away(frail_fleet: Fleet, own_broker: PrivateBroker, away_s: int) -> None:
    fleet = frail_fleet
    fleet.tree.app("app", SCHEDULES, head="concurrency: 8")
    workers = [fleet.start(), fleet.start()]
    first = fleet.now() + 1
    fleet.pass_time(8, schedule="second")
    own_broker.kill()
    cut_at = int(datetime.now(UTC).timestamp())
    for worker in workers:
        worker.await_told("scheduler-changed", state="offline", within_s=20)
    wait(away_s - (datetime.now(UTC).timestamp() - cut_at))
    own_broker.restart()
    for worker in workers:
        worker.await_told("scheduler-changed", state="running", within_s=20)
    last = fleet.pass_time(8, schedule="second")
    fleet.await_idle()
    assert [worker.stop() for worker in workers] == [0, 0]
    added = 0
    for name, every in TICKS.items():
        published, closed, neither = accounted(fleet, name, first, last)
        assert neither == [], name
        if away_s < 60:
            assert closed == [], "a short gap is lateness"
        else:
            # The first that was attempted in the outage came from the outbox, whatever the policy.
            assert min(at for at in published if at > cut_at) - cut_at <= every + 1, name
            assert closed, name
        added += len(fleet.published("app", name))
    judge_runs(fleet)
    assert fleet.entries_added() == added, "an instant has two entries"
    for worker in workers:
        assert worker.noise == []
        assert len(worker.told("publish-failed")) <= 12
        for loop in ("claimer", "consumer", "scheduler", "retrier", "reconciler"):
            assert len(worker.told("loop-failed", loop=loop)) <= 1


@pytest.mark.timeout(120)
def test_rows_of_a_worker_that_died_go_out_through_one_that_shares_its_directory(
    frail_fleet: Fleet, own_broker: PrivateBroker
) -> None:
    fleet = frail_fleet
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1s}", head="concurrency: 8")
    shared = fleet.root / "shared"
    workers = [fleet.start(state=shared), fleet.start(state=shared)]
    first = fleet.now() + 1
    fleet.pass_time(2)
    own_broker.kill()
    for worker in workers:
        worker.await_told("publish-failed", within_s=10)
    workers[0].kill()
    own_broker.restart()
    last = fleet.pass_time(3)
    outbox = Outbox(shared / "state.db", SystemClock(), None)
    await_true(lambda: outbox.count() == 0, "the rows of the dead worker stay", within_s=40)
    outbox.close()
    fleet.await_idle()
    assert workers[1].stop() == 0
    each_second_once(fleet, first, last)
    assert fleet.entries_added() == len(fleet.published())
