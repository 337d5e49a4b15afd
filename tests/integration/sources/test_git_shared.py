"""Workers on one state directory and one repository: they fetch in turn, share what is fetched, and lose no demand."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.broker import await_fact
from support.cycleactor import Actor
from support.gitorigin import Origin

from relayctl.host.clock import SystemClock
from relayctl.sources.git import GitSource
from relayctl.sources.gitcommand import Answer, GitCommand
from relayctl.sources.gitplace import git_place


class CountedGit(GitCommand):
    """Counts fetches, and waits in one while it is told to."""

    def __init__(self) -> None:
        super().__init__(os.environ)
        self.fetches = 0
        self.may_go = threading.Event()
        self.may_go.set()

    def run(self, *arguments: str, **more: Any) -> Answer:
        if "fetch" in arguments:
            self.fetches += 1
            assert self.may_go.wait(30)
        return super().run(*arguments, **more)


class Peer:
    """One worker's source."""

    def __init__(self, base: Path, url: str, interval: timedelta | None = timedelta(minutes=5)) -> None:
        self.folder = base / "state"
        self.git = CountedGit()
        place = git_place(url, "main", "apps")
        self.source = GitSource(place, self.folder, self.git, SystemClock(), lambda _fact: None, interval=interval)

    def pull(self) -> bool:
        return self.source.pull(lambda: False)

    @property
    def revision(self) -> str:
        return self.source.look().revision


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    made = Origin(tmp_path)
    made.app("a", minute=1)
    made.push()
    return made


@contextmanager
def beside(call: Callable[[], object]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=call)
    thread.start()
    yield thread
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def holder() -> Iterator[Actor]:
    actor = Actor()
    yield actor
    actor.close()


def test_what_one_has_fetched_the_other_takes_without_asking(origin: Origin, tmp_path: Path) -> None:
    one, other = Peer(tmp_path, origin.url), Peer(tmp_path, origin.url)
    assert one.pull()
    assert other.source.recall()
    assert not other.source.has_news()
    assert 0 < other.source.first_s() <= 300, "a restart repeats nothing and keeps the rhythm"
    origin.app("a", minute=2)
    commit = origin.push()
    assert one.pull(), "it was asked a moment ago, so it is not asked again"
    assert one.revision != commit
    one.source.demand()
    assert one.pull()
    assert one.revision == commit
    assert not one.source.has_news()
    assert other.source.has_news()
    assert other.pull()
    assert (other.revision, other.git.fetches, one.git.fetches) == (commit, 0, 2)
    assert not other.source.has_news()


def test_a_failed_fetch_is_due_again_at_once(origin: Origin, tmp_path: Path) -> None:
    peer = Peer(tmp_path, origin.url)
    assert peer.pull()
    away = origin.bare.with_name("away")
    origin.bare.rename(away)
    peer.source.demand()
    assert not peer.pull()
    assert Peer(tmp_path, origin.url).source.first_s() == 0
    away.rename(origin.bare)
    assert peer.pull()
    assert peer.source.standing.trouble is None


def test_demands_on_a_busy_repository_are_one_more_fetch_for_all(origin: Origin, tmp_path: Path) -> None:
    peers = [Peer(tmp_path, origin.url) for _ in range(3)]
    first, *others = peers
    for peer in peers:
        assert peer.pull()
        peer.source.demand()
    before = sum(peer.git.fetches for peer in peers)
    waiting = [_awaits(peer) for peer in others]
    first.git.may_go.clear()
    with beside(first.pull):
        await_fact(lambda: first.git.fetches == 2, "the first does not fetch")
        origin.app("a", minute=2)
        commit = origin.push()
        with beside(others[0].pull), beside(others[1].pull):
            assert all(event.wait(30) for event in waiting)
            assert first.source._cycle.pending() == 1
            first.git.may_go.set()
    assert [peer.revision for peer in peers] == [commit] * 3
    assert sum(peer.git.fetches for peer in peers) == before + 2
    assert all(peer.source.standing.trouble is None for peer in peers)


def _awaits(peer: Peer) -> threading.Event:
    """Set once its demand is left to somebody else."""
    event, wait = threading.Event(), peer.source._await_peer

    def noticed(is_over: Callable[[], bool]) -> Any:
        event.set()
        return wait(is_over)

    peer.source._await_peer = noticed  # type: ignore[method-assign]
    return event


def test_who_comes_by_the_clock_passes_a_busy_repository(origin: Origin, tmp_path: Path, holder: Actor) -> None:
    peer = Peer(tmp_path, origin.url, interval=None)
    assert peer.pull()
    assert holder.ask(f"tick {peer.folder}") == "began 0"
    assert peer.pull()
    assert (peer.git.fetches, peer.source._cycle.pending()) == (1, 0)
    assert holder.ask("end") == "ran 0 False False"
    assert peer.pull()
    assert peer.git.fetches == 2


def test_a_demand_outlives_the_one_that_was_to_serve_it(origin: Origin, tmp_path: Path, holder: Actor) -> None:
    peer = Peer(tmp_path, origin.url)
    assert peer.pull()
    assert holder.ask(f"tick {peer.folder}") == "began 0"
    origin.app("a", minute=2)
    commit = origin.push()
    peer.source.demand()
    with beside(peer.pull):
        await_fact(lambda: peer.source._cycle.pending() == 1, "the demand is not noted")
        found = peer.source._cycle.holder()
        assert found is not None
        assert (found.pid, found.command) == (holder.pid, "tick")
        holder.kill()
    assert (peer.revision, peer.source._cycle.pending()) == (commit, 0)


def test_a_stop_ends_the_wait_for_a_peer(origin: Origin, tmp_path: Path, holder: Actor) -> None:
    peer, stop = Peer(tmp_path, origin.url), threading.Event()
    peer.folder.mkdir(parents=True)
    assert holder.ask(f"tick {peer.folder}") == "began 0"
    with beside(lambda: peer.source.pull(stop.is_set)):
        await_fact(lambda: peer.source._cycle.pending() == 1, "the demand is not noted")
        stop.set()
    assert peer.source.standing.trouble is None
    assert peer.source._cycle.pending() == 1, "it is left for the next one"
