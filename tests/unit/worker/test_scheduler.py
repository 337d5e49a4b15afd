"""The tick loop and the publisher on a real broker: what is due goes out once, whoever comes second, whatever fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.workbench import Workbench, every, generation

from relayctl.core.model import CatchUp
from relayctl.host.clock import SystemClock
from relayctl.store.connect import connect
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.fleet import Holdings
from relayctl.worker.agenda import Armed

if TYPE_CHECKING:
    from pathlib import Path

    from support.broker import BrokerFactory


def armed(bench: Workbench, seconds: int = 1, *, since: int, name: str = "tick", **changes: Any) -> Armed:
    """Register a schedule as of `since` and arm it; nothing up to then is owed."""
    item = every(seconds, name)
    made = generation(item, since)
    proposal = Proposal(app="app", schedule=name, mode=Mode.START, hash=made.hash, spec=made.spec)
    bench.definitions.register([proposal], since * 1000)
    known = Armed(
        app="app",
        schedule=name,
        handler="jobs.run",
        jitter=timedelta(0),
        catch_up=CatchUp.LATEST,
        generations=(made,),
        settled_until=since,
    )
    return replace(known, **changes)


def test_each_second_of_a_stall_is_published_once(bench: Workbench) -> None:
    now = bench.now()
    bench.scheduler.arm([armed(bench, since=now - 5)])
    bench.tick()
    bench.tick()
    published = bench.published()
    assert published[:5] == [now - 4, now - 3, now - 2, now - 1, now]
    assert len(bench.envelopes()) == len(published)
    first = bench.envelopes()[0]
    assert (first["app"], first["schedule"], first["gen"]) == ("app", "tick", 1)
    assert len(bench.told("published-late")) >= 3


def test_a_late_worker_hears_duplicate_and_goes_on(bench: Workbench, tmp_path: Path) -> None:
    now = bench.now()
    other = Workbench(bench.client, tmp_path / "other", worker="w2")
    job = armed(bench, since=now - 5)
    bench.scheduler.arm([job])
    bench.tick()
    other.scheduler.arm([job])
    other.tick()
    assert len(bench.envelopes()) == len(bench.published())
    told = {int(fact.scheduled_at.timestamp()) for fact in other.told("duplicate")}
    assert told >= set(range(now - 4, now + 1))


def test_whoever_comes_second_looks_before_it_publishes(bench: Workbench, tmp_path: Path) -> None:
    """With a peer of better rank that has published, nothing is sent again."""
    now = bench.now()
    job = armed(bench, 600, since=now - now % 600 - 1)
    benches = [bench, Workbench(bench.client, tmp_path / "other", worker="w2")]
    for each in benches:
        each.fleet.hold(each.worker, Holdings(apps={"app": "r"}))
        each.tick()
    for each in benches:
        each.tick()
    ranked = sorted(benches, key=lambda each: _rank(each, job))
    assert [_rank(each, job) for each in ranked] == [1, 2]
    ranked[0].tick()
    ranked[1].clock.advance(timedelta(seconds=1))
    ranked[1].tick()
    assert len(bench.published()) == 1
    assert ranked[1].told("duplicate") + ranked[1].told("published") == []


def _rank(each: Workbench, job: Armed) -> int:
    each.scheduler.arm([job])
    found = each.scheduler._agenda.get(("app", "tick"))
    assert found is not None
    each.peers.delay_ms(found)
    return found.rank


def test_what_the_registry_refuses_is_asked_for_and_its_own_intervals_are_followed(bench: Workbench) -> None:
    now = bench.now()

    def register(seconds: int, since: int) -> None:
        made = generation(every(seconds), since)
        proposal = Proposal(app="app", schedule="tick", mode=Mode.START, hash=made.hash, spec=made.spec)
        bench.definitions.register([proposal], since * 1000)

    register(1, now - 20)
    bench.app("app", "name: tick, every: 1s")
    bench.reconciler.step()
    # Two others changed it meanwhile, and this worker has heard of neither.
    register(3, now - 12)
    register(2, now - 6)
    # A peer has published under the newest, so the head alone would seem to be enough.
    bench.client.hset(bench.keys.schedule("app", "tick"), "hw", now - 2)
    bench.tick()
    bench.reconciler.step()
    bench.tick()
    bench.tick()
    expected = [*range(now - 20, now - 12)]
    expected += [at for at in range(now - 12, now - 6) if at % 3 == 0]
    expected += [at for at in range(now - 6, now + 1) if at % 2 == 0]
    assert bench.published()[: len(expected)] == expected
    assert bench.gen() == 3


def test_a_long_gap_publishes_by_policy_and_tells_what_it_passes_over(bench: Workbench) -> None:
    now = bench.now()
    last = now - now % 60
    bench.scheduler.arm([armed(bench, 60, since=last - 601, catch_up=CatchUp.OLDEST)])
    bench.tick()
    [at, *rest] = bench.published()
    assert at == last - 600
    assert len(rest) <= 1, "only a minute that came meanwhile may be there too"
    [fact] = bench.told("passed-over")
    assert int(fact.first_at.timestamp()) == last - 540
    assert fact.policy == "oldest"


def test_a_paused_schedule_moves_on_without_publishing(bench: Workbench) -> None:
    now = bench.now()
    bench.scheduler.arm([armed(bench, since=now - 5)])
    bench.client.hset(bench.keys.schedule("app", "tick"), "paused", now - 100)
    bench.tick()
    assert bench.published() == []
    job = bench.scheduler._agenda.get(("app", "tick"))
    assert job is not None
    assert job.cursor >= now


def test_an_instant_that_the_broker_says_is_early_waits(bench: Workbench) -> None:
    """A clock two minutes ahead publishes nothing of the future."""
    now = bench.now()
    bench.scheduler.arm([armed(bench, since=now)])
    bench.tick()
    before = bench.published()
    bench.clock.advance(timedelta(seconds=100))
    bench.scheduler._next_beat = float("inf")
    bench.scheduler.step()
    assert [at for at in bench.published() if at > bench.now() + 1] == []
    assert set(before) <= set(bench.published())


@pytest.mark.slow
@pytest.mark.fault
def test_a_failed_publication_is_retried_and_told_once(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = broker_factory()
    client = connect(broker.target)
    bench = Workbench(client, tmp_path / "apps", clock=SystemClock())
    now = bench.now()
    bench.scheduler.arm([armed(bench, since=now - 3, name=f"tick-{number}") for number in range(3)])
    broker.kill()

    def comes_round() -> None:
        bench.scheduler.step()

    bench.scheduler._next_beat = bench.clock.monotonic() + 0.5
    await_fact(lambda: comes_round() or bench.told("scheduler-changed"), "it does not say so")
    assert 1 <= len(bench.told("publish-failed")) <= 5
    for _ in range(20):
        comes_round()
    assert [fact.state for fact in bench.told("scheduler-changed")] == ["offline"]
    broker.restart()
    names = [f"tick-{number}" for number in range(3)]
    await_fact(lambda: comes_round() or len(bench.told("scheduler-changed")) == 2, "it does not go on")
    await_fact(lambda: comes_round() or all(bench.published(name=name) for name in names), "nothing is published")
    for name in names:
        assert bench.published(name=name)[:3] == [now - 2, now - 1, now]
    assert len(bench.envelopes()) == sum(len(bench.published(name=name)) for name in names)
    assert [fact.state for fact in bench.told("scheduler-changed")] == ["offline", "running"]
    client.close()


def test_what_a_release_binds_elsewhere_is_left_to_peers_and_owed_until_somebody_has_it(
    bench: Workbench, tmp_path: Path
) -> None:
    now = bench.now()
    job = armed(bench, since=now - 5)
    bench.scheduler._around = replace(bench.scheduler._around, is_elsewhere=lambda app: app == "app")
    bench.scheduler.arm([job])
    bench.tick()
    assert bench.published() == []
    peer = Workbench(bench.client, tmp_path / "peer", worker="w2")
    peer.scheduler.arm([job])
    peer.tick()
    assert bench.published()[:5] == [now - 4, now - 3, now - 2, now - 1, now]
    entries = len(bench.envelopes())

    def has_followed() -> bool:
        bench.tick()
        return bench.scheduler.cursors()["app", "tick"] >= now

    await_fact(has_followed, "it does not go on where its peer has")
    assert (len(bench.envelopes()), bench.told("duplicate")) == (entries, [])
    bench.scheduler._around = replace(bench.scheduler._around, is_elsewhere=lambda _app: False)

    def has_published() -> bool:
        bench.tick()
        return len(bench.envelopes()) > entries

    await_fact(has_published, "what was left is not published")
    assert bench.told("passed-over") == []
