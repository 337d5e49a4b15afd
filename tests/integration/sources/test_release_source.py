"""Releases as a source: what is taken, verified and kept, and what a broker that has lost it gets back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.gitorigin import NIGHTLY, TEMPLATE

from relayctl.core.definition import Spec
from relayctl.core.release import Draft, Release
from relayctl.host.clock import SystemClock
from relayctl.sources.bundle import pack
from relayctl.sources.release import ReleaseSource
from relayctl.store.keys import Keys
from relayctl.store.releases import Definition, Releases, ReleaseVerdict
from relayctl.templates.load import load_tree

if TYPE_CHECKING:
    import redis

MAX_BYTES = 1 << 20


class Publisher:
    """An operator: a tree of apps, published as it stands."""

    def __init__(self, client: redis.Redis, root: Path) -> None:
        self.releases = Releases(client, Keys())
        self.client = client
        self.root = root
        self.gens: dict[str, int] = {}

    def app(self, name: str, minute: int) -> None:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "jobs.py").write_text("def on(event):\n    pass\n")
        (folder / "template.yaml").write_text(TEMPLATE + NIGHTLY.format(minute=minute))

    def publish(self) -> Release:
        bundle, tree = pack(self.root, max_bytes=MAX_BYTES), load_tree(self.root)
        self.releases.stage(bundle.digest, bundle.data)
        base = self.releases.serial()
        draft = Draft(
            id=f"{base}-{bundle.digest[:8]}",
            base=base,
            digest=bundle.digest,
            tree=tree.digest,
            by="op@host",
            revisions={loaded.name: loaded.digest for loaded in tree.apps},
        )
        definitions = []
        for app in tree.valid():
            spec = Spec.of(app.schedules[0])
            if self.client.hget(Keys().schedule(app.name, "tick"), "hash") != spec.hash:
                gen = int(self.client.hget(Keys().schedule(app.name, "tick"), "gen") or 0)  # type: ignore[arg-type]
                definitions.append(Definition(app=app.name, schedule="tick", hash=spec.hash, spec=spec.text, gen=gen))
        answer = self.releases.publish(draft, definitions)
        assert answer.verdict is ReleaseVerdict.PUBLISHED, answer
        found = self.releases.current()
        assert found is not None
        return found


class Follower:
    def __init__(self, client: redis.Redis, folder: Path, **more: Any) -> None:
        self.client, self.folder, self.more = client, folder, {"max_bytes": MAX_BYTES, **more}
        self.facts: list[Any] = []
        self.open()

    def open(self) -> ReleaseSource:
        releases = Releases(self.client, Keys())
        self.source = ReleaseSource(releases, "relay", self.folder, SystemClock(), self.facts.append, **self.more)
        return self.source

    def pull(self) -> bool:
        return self.source.pull(lambda: False)


@pytest.fixture
def publisher(redis_client: redis.Redis, tmp_path: Path) -> Publisher:
    made = Publisher(redis_client, tmp_path / "apps")
    made.app("a", 1)
    made.app("b", 1)
    return made


@pytest.fixture
def follower(redis_client: redis.Redis, tmp_path: Path) -> Follower:
    return Follower(redis_client, tmp_path / "state" / "releases")


def test_a_first_release_is_awaited_and_that_is_no_trouble(publisher: Publisher, follower: Follower) -> None:
    assert follower.pull()
    seen = follower.source.look()
    assert (seen.trouble, seen.is_awaited) == ("no release has been published yet", True)
    assert follower.source.standing.notes == ("waiting for a first release: relayctl apply publishes one",)
    publisher.publish()
    assert follower.pull()
    seen = follower.source.look()
    assert (seen.trouble, seen.is_awaited, follower.source.standing.notes) == (None, False, ())


def test_each_release_is_taken_and_what_did_not_change_stays_where_it_is(
    publisher: Publisher, follower: Follower
) -> None:
    first = publisher.publish()
    assert follower.pull()
    before = follower.source.look()
    assert {name: sighting.digest for name, sighting in before.apps.items()} == dict(first.revisions)
    assert (before.is_agreed, before.is_settled) == (True, True)
    publisher.app("b", 2)
    second = publisher.publish()
    assert follower.pull()
    after = follower.source.look()
    assert after.apps["a"] == before.apps["a"]
    assert after.apps["b"].digest == second.revisions["b"]
    assert follower.source.load("b").app is not None
    assert [(fact.revision, fact.was) for fact in follower.facts] == [("release 1", ""), ("release 2", "release 1")]
    assert " at release 2 since " in follower.source.standing.words


def test_the_same_content_again_touches_nothing(publisher: Publisher, follower: Follower) -> None:
    publisher.publish()
    assert follower.pull()
    before = follower.source.look()
    publisher.publish()
    assert follower.pull()
    after = follower.source.look()
    assert (after.apps, after.revision) == (before.apps, before.revision)
    assert follower.source.standing.revision == "release 2"


def test_a_bundle_that_is_not_what_its_digest_names_changes_nothing(publisher: Publisher, follower: Follower) -> None:
    publisher.publish()
    assert follower.pull()
    before = follower.source.look().apps
    publisher.app("b", 2)
    second = publisher.publish()
    other = pack(publisher.root.parent / "state" / "releases" / "trees", max_bytes=MAX_BYTES)
    publisher.client.hset(Keys().bundles, second.digest, other.data)  # type: ignore[arg-type]
    for _ in range(2):
        assert not follower.pull()
    view = follower.source.look()
    assert (view.apps, view.trouble) == (before, None)
    assert "not what its digest" in (view.stale or "")
    assert not list((follower.folder / "trees").glob("*.new"))


def test_a_start_knows_what_was_taken_and_gives_it_back_to_a_broker_that_lost_it(
    publisher: Publisher, follower: Follower
) -> None:
    publisher.publish()
    publisher.app("b", 2)
    second = publisher.publish()
    assert follower.pull()
    before = follower.source.look()
    publisher.client.flushall()
    source = follower.open()
    assert source.recall()
    assert source.look().apps == before.apps
    assert source.standing.revision == "release 2"
    assert follower.pull()
    assert publisher.releases.current() == second
    assert publisher.releases.bundle(second.digest) is not None
    assert follower.pull()
    assert source.look().apps == before.apps


def test_what_could_not_be_written_down_is_written_later(publisher: Publisher, follower: Follower) -> None:
    publisher.publish()
    note = follower.folder / "release.json"
    note.mkdir(parents=True)
    assert not follower.pull()
    note.rmdir()
    assert follower.pull()
    source = follower.open()
    assert source.recall()
    assert source.standing.revision == "release 1"


def test_torn_files_are_unpacked_again(publisher: Publisher, follower: Follower) -> None:
    publisher.publish()
    assert follower.pull()
    before = follower.source.look()
    (before.apps["a"].directory / "jobs.py").write_text("")
    source = follower.open()
    assert source.recall()
    assert source.look().apps == before.apps
    shutil.rmtree(follower.folder)
    assert not follower.open().recall()
    assert follower.pull()
    assert follower.source.look().apps.keys() == before.apps.keys()


def test_a_bundle_that_is_larger_than_this_worker_takes_is_trouble_with_a_way_out(
    redis_client: redis.Redis, publisher: Publisher, tmp_path: Path
) -> None:
    publisher.publish()
    small = Follower(redis_client, tmp_path / "small", max_bytes=64)
    assert not small.pull()
    assert "at most 0.1 KiB are taken here" in (small.source.look().trouble or "")
