"""A worker that releases bind: what it leaves to peers, what it tells of that, and that it proposes nothing."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.workbench import Workbench, every, generation

from relayctl.core.facts import BoundElsewhere, Fact
from relayctl.core.model import App
from relayctl.core.names import AppName
from relayctl.core.release import Draft
from relayctl.host.clock import HeldClock
from relayctl.store.definitions import Definitions, Mode, Proposal, Verdict
from relayctl.store.keys import Keys
from relayctl.store.releases import Definition, Releases, ReleaseVerdict
from relayctl.worker.binding import TOLD_AFTER_S, TOLD_EVERY_S, Binding
from relayctl.worker.registrar import Registrar
from relayctl.worker.snapshot import LiveApp, Snapshot

if TYPE_CHECKING:
    import redis

NAME = ("app", "tick")


def snapshot(**revisions: str) -> Snapshot:
    live = {
        name: LiveApp(app=App(name=AppName(name)), revision=revision, template="t", directory=Path("/nowhere"))
        for name, revision in revisions.items()
    }
    return Snapshot(live, 1)


class Bound:
    """A binding over a real broker, and what it told."""

    def __init__(self, client: redis.Redis) -> None:
        self.releases = Releases(client, Keys())
        self.clock = HeldClock(datetime(2026, 9, 29, tzinfo=UTC))
        self.facts: list[Fact] = []
        self.news = 0
        self.snapshot = snapshot(app="r1", other="o1")
        self.binding = Binding(
            self.releases, lambda: self.snapshot, self.clock, self.facts.append, on_news=self._on_news
        )

    def _on_news(self) -> None:
        self.news += 1

    def publish(self, *definitions: Definition, **revisions: str) -> None:
        self.releases.stage("d", b"x")
        draft = Draft(
            id=secrets.token_hex(4), base=self.releases.serial(), digest="d", tree="t", by="op", revisions=revisions
        )
        assert self.releases.publish(draft, definitions).verdict is ReleaseVerdict.PUBLISHED


@pytest.fixture
def bound(redis_client: redis.Redis) -> Bound:
    return Bound(redis_client)


def test_without_a_release_nothing_is_elsewhere(bound: Bound) -> None:
    assert bound.binding.look() is False
    assert bound.binding.is_elsewhere("app") is False


def test_what_a_release_binds_to_another_revision_is_left_to_peers(bound: Bound) -> None:
    bound.publish(app="r2", other="o1")
    assert bound.binding.look() is True
    assert (bound.binding.look(), bound.news) == (False, 1)
    assert [bound.binding.is_elsewhere(app) for app in ("app", "other", "unknown")] == [True, False, False]
    bound.snapshot = snapshot(app="r2", other="o1")
    assert bound.binding.is_elsewhere("app") is False


def test_it_is_told_after_a_while_and_every_ten_minutes_while_it_lasts(bound: Bound) -> None:
    bound.publish(app="r2")
    bound.binding.look()
    bound.clock.advance(timedelta(seconds=TOLD_AFTER_S - 1))
    bound.binding.look()
    assert (bound.facts, bound.binding.notes) == ([], ())
    bound.clock.advance(timedelta(seconds=1))
    for _ in range(3):
        bound.binding.look()
    told = BoundElsewhere(app="app", revision="r1", pinned="r2", release=1)
    assert bound.facts == [told]
    assert bound.binding.notes == (
        "app: this is revision r1, and release 1 binds the fleet to r2: it publishes and admits nothing of app",
    )
    bound.clock.advance(timedelta(seconds=TOLD_EVERY_S))
    bound.binding.look()
    assert bound.facts == [told, told]
    bound.snapshot = snapshot(app="r2")
    bound.binding.look()
    assert bound.binding.notes == ()
    bound.clock.advance(timedelta(seconds=TOLD_EVERY_S))
    bound.binding.look()
    assert len(bound.facts) == 2


def following(bench: Workbench) -> Registrar:
    return Registrar(
        definitions=bench.definitions,
        scheduler=bench.scheduler,
        peers=bench.peers,
        clock=bench.clock,
        worker=bench.worker,
        emit=bench.facts.append,
        is_following=True,
    )


def test_who_follows_releases_proposes_nothing_and_arms_what_is_in_force(bench: Workbench) -> None:
    registrar = following(bench)
    assert registrar.propose({NAME: every(1)}, Mode.EDIT) == {NAME: Verdict.ABSENT}
    assert bench.definitions.all_names() == set()
    made = generation(every(2), 0)
    proposal = Proposal(app="app", schedule="tick", mode=Mode.START, hash=made.hash, spec=made.spec)
    bench.definitions.register([proposal])
    before = contents(bench)
    registrar.follow(bench.definitions.seq())
    assert set(registrar.behind) == {NAME}
    registrar.adopt_unheld(())
    assert (registrar.orphans(), bench.told("schedule-behind")) == ({}, [])
    assert NAME in bench.scheduler.armed()
    assert registrar.propose({NAME: every(2)}, Mode.EDIT) == {NAME: Verdict.UNCHANGED}
    assert registrar.withdraw([NAME]) == {NAME: Verdict.BEHIND}
    assert contents(bench) == before
    assert bench.scheduler.armed() == {}


def test_a_removal_by_a_release_ends_what_was_armed(bench: Workbench) -> None:
    registrar = following(bench)
    made = generation(every(3600), 0)
    bound = Bound(bench.client)
    bound.publish(Definition(app="app", schedule="tick", hash=made.hash, spec=made.spec, gen=0), app="r1")
    registrar.propose({NAME: every(3600)}, Mode.START)
    assert NAME in bench.scheduler.armed()
    bound.publish(Definition(app="app", schedule="tick", hash="tombstone", spec="", gen=1))
    assert registrar.withdraw([NAME]) == {NAME: Verdict.UNCHANGED}
    bench.tick()
    assert bench.scheduler.armed() == {}


def contents(bench: Workbench) -> Any:
    return Definitions(bench.client, bench.keys).generations(*NAME)
