"""Delivery with real workers: apps served in turn, work that nobody can run, a handler that outlives every interval."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.console import inside
from support.fleet import Fleet, await_true

from relayctl.core.occurrence import from_epoch, instant_text

if TYPE_CHECKING:
    from collections.abc import Iterable

BUSY_S = 0.05
BUSY = "- {handler: jobs.on_slow_event, pattern: {kind: [go]}}"
DAY_MS = 24 * 3_600_000


def started(facts: Iterable[dict[str, Any]], app: str) -> dict[str, datetime]:
    """When the first attempt of each message of that app began."""
    found: dict[str, datetime] = {}
    for fact in facts:
        if fact["event"] == "run-started" and fact["app"] == app:
            found.setdefault(fact["message"], datetime.fromisoformat(fact["time"]))
    return found


def test_a_busy_app_delays_a_quiet_one_by_no_more_than_a_run(fleet: Fleet) -> None:
    fleet.tree.app("busy", events=BUSY, head="concurrency: 2", env=f"TAKES: '{BUSY_S}'")
    fleet.tree.app("quiet", "- {name: tick, handler: jobs.run, every: 1s}", head="concurrency: 1")
    worker = fleet.start()
    fleet.pass_time(1, app="quiet")
    pipeline = fleet.client.pipeline()
    for number in range(1000):
        pipeline.xadd(fleet.keys.events, {"event": json.dumps({"kind": "go", "id": str(number)})})
    pipeline.execute()
    first = fleet.now() + 1
    last = fleet.pass_time(4, app="quiet")
    await_true(lambda: fleet.tree.run_count().get(last), "the last firing does not run", within_s=5)
    assert fleet.client.zcard(fleet.keys.ready_of("busy")) > 300, "the busy app was to have work throughout"
    began = started(worker.facts, "quiet")
    waited = {
        at: (began[message] - from_epoch(at)).total_seconds()
        for at, message in fleet.published("quiet").items()
        if first <= at <= last
    }
    assert len(waited) == last - first + 1
    # Once the machine itself may have been slow; that it were the thousand before it would show every time.
    late = sorted(waited.values())
    assert late[len(late) // 2] < 10 * BUSY_S, waited
    assert late[-1] < 2.0, waited
    ends = [line for line in fleet.tree.runs("end") if line["id"] is not None]
    assert len(ends) > 10, "and the busy one goes on"


@pytest.mark.slow
def test_work_that_no_worker_can_run_for_a_day_fails_as_unavailable(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.tree.nightly("other")
    # One that no worker has any more, and one whose interpreter no worker has.
    stuck = fleet.tree.app("stuck", events="- {handler: jobs.on_event, pattern: {kind: [stuck]}}")
    (stuck / "template.yaml").write_text(
        (stuck / "template.yaml").read_text().replace("runtime: python\n", "runtime: python3.2\n")
    )
    first = fleet.start("--only", "other", "--only", "stuck", grace_s=0.3)
    folder = fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1s}")
    second = fleet.start("--only", "app", grace_s=0.3)
    fleet.pass_time(1)
    second.stop()
    # Nobody has the app now. Its schedule stays, and what was published and not begun waits.
    at = max(fleet.published())
    message = fleet.client.xadd(fleet.keys.events, {"event": json.dumps(_envelope(at + 1, fleet.generation()))})
    event = fleet.emit(kind="stuck", id="s")
    await_fact(lambda: set(fleet.client.hkeys(fleet.keys.stranded)) == {"app", "stuck"}, "nothing is marked", 10)
    assert fleet.dead_letters() == []
    assert folder.is_dir()
    fleet.client.hset(fleet.keys.published("app", "tick"), str(at + 1), f"p|w1|{message}")
    answer = inside(capsys, "why", f"app/tick@{instant_text(from_epoch(at + 1))}", "--redis", fleet.url)
    assert "attempt 1 is due, and no live worker has been able to run it for" in " ".join(answer.out.split()), answer
    # A restart keeps the mark; a day later whoever sees it ends the run.
    first.stop()
    for app in ("app", "stuck"):
        fleet.client.hincrby(fleet.keys.stranded, app, -DAY_MS)
        for member, due in fleet.client.zrange(fleet.keys.ready_of(app), 0, -1, withscores=True):
            fleet.client.zadd(fleet.keys.ready_of(app), {member: due - DAY_MS})
    third = fleet.start("--only", "other", "--only", "stuck", grace_s=0.3)
    third.await_told("run-abandoned", app="app", message=message)
    third.await_told("run-abandoned", app="stuck", message=event)
    fleet.await_idle()
    assert {letter["reason"] for letter in fleet.dead_letters()} == {"unavailable"}
    [record] = [
        fields
        for _, fields in fleet.client.xrange(fleet.keys.history_of_schedule("app", "tick"))
        if fields["message"] == message
    ]
    assert (record["verdict"], record["reason"]) == ("failed", "unavailable")
    answer = inside(capsys, "why", f"app/tick@{instant_text(from_epoch(at + 1))}", "--redis", fleet.url)
    assert "failed: no live worker could run it for 24 hours (unavailable)" in answer.out, answer
    # And whoever has the app again simply runs what comes then.
    fleet.start("--only", "app")
    last = fleet.pass_time(1)
    await_true(lambda: fleet.tree.run_count().get(last), "it does not run again", within_s=20)


def _envelope(at: int, gen: int) -> dict[str, Any]:
    from relayctl.core.occurrence import Occurrence

    firing = Occurrence(app="app", schedule="tick", handler="jobs.run", scheduled_at=from_epoch(at), gen=gen)
    return dict(json.loads(firing.to_envelope()))


@pytest.mark.slow
def test_a_handler_that_outlives_every_interval_is_never_reclaimed(fleet: Fleet) -> None:
    # Longer than a lease, than a peer's own look at it, than the idle time of an unrouted entry and than a heartbeat.
    takes = timedelta(seconds=22)
    events = "- {handler: jobs.on_slow_event, pattern: {kind: [go]}, timeout: 60s}"
    fleet.tree.app("app", events=events, env=f"TAKES: '{takes.total_seconds()}'")
    workers = [fleet.start(), fleet.start()]
    fleet.emit(kind="go", id="x")
    await_true(lambda: fleet.tree.runs("end"), "it does not end", within_s=40)
    fleet.await_idle()
    assert [line["what"] for line in fleet.tree.runs()] == ["begin", "end"]
    assert [worker.told("lease-lost") for worker in workers] == [[], []]
