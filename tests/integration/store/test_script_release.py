"""Publishing releases: one number after the other, all or nothing, and what is kept of the old ones."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import APP, SCHEDULE, T0_MS

from relayctl.core.definition import TOMBSTONE
from relayctl.core.release import KEPT_BUNDLES, KEPT_RELEASES, Draft
from relayctl.errors import BrokerRefused, ModeConflict
from relayctl.store.keys import Keys
from relayctl.store.releases import LEASE_MS, Answer, Definition, Releases, ReleaseVerdict

if TYPE_CHECKING:
    import redis
    from support.storedesk import Desk

NAME = (APP, SCHEDULE)


@pytest.fixture
def releases(redis_client: redis.Redis) -> Releases:
    return Releases(redis_client, Keys("relay"))


def draft(base: int, digest: str = "d1", **changes: Any) -> Draft:
    known = {"id": secrets.token_hex(4), "tree": "t", "by": "ann@desk", "revisions": {APP: f"r{base + 1}"}}
    return Draft(**known | {"base": base, "digest": digest} | changes)


def definition(hash_: str, gen: int = 0, schedule: str = SCHEDULE) -> Definition:
    spec = "" if hash_ == TOMBSTONE else f"spec of {hash_}"
    return Definition(app=APP, schedule=schedule, hash=hash_, spec=spec, gen=gen)


def publish(releases: Releases, base: int, *definitions: Definition, digest: str = "d1", **more: Any) -> Answer:
    releases.stage(digest, f"bundle {digest}".encode())
    return releases.publish(draft(base, digest, **more), definitions, now_ms=T0_MS + base)


def test_a_release_puts_record_definitions_and_revisions_in_force(desk: Desk, releases: Releases) -> None:
    assert (releases.serial(), releases.current(), releases.pins()) == (0, None, {})
    answer = publish(releases, 0, definition("h1"), definition("k1", schedule="hourly"), message="first")
    assert (answer.verdict, answer.serial) == (ReleaseVerdict.PUBLISHED, 1)
    current = releases.current()
    assert current is not None
    assert (current.serial, current.draft.by, current.draft.message) == (1, "ann@desk", "first")
    assert current.made_ms == T0_MS
    assert current.made_at == answer.made_at
    assert releases.pins() == {APP: "r1"}
    assert desk.fleet.mode() == "push"
    heads = desk.definitions.heads([NAME, (APP, "hourly")])
    assert {name: (head.gen, head.hash, head.from_ms) for name, head in heads.items()} == {
        NAME: (1, "h1", T0_MS),
        (APP, "hourly"): (1, "k1", T0_MS),
    }
    assert desk.definitions.all_names() == set(heads)


def test_workers_hear_of_each_change_and_only_of_changes(desk: Desk, releases: Releases) -> None:
    publish(releases, 0, definition("h1"), definition("k1", schedule="hourly"))
    seq = desk.definitions.seq()
    publish(releases, 1, definition("h2", gen=1))
    assert desk.definitions.changes_since(seq) == [NAME]
    assert desk.definitions.heads([NAME])[NAME].gen == 2
    publish(releases, 2, definition(TOMBSTONE, gen=2), definition(TOMBSTONE, gen=1, schedule="hourly"))
    assert desk.definitions.all_names() == set()
    assert desk.definitions.removed_names() == [(APP, "hourly"), NAME]


def test_very_many_changes_make_everybody_look_at_all(desk: Desk, releases: Releases) -> None:
    publish(releases, 0, *(definition("h1", schedule=f"s{number}") for number in range(600)))
    assert len(desk.definitions.all_names()) == 600
    assert desk.definitions.changes_since(0) is None
    seq = desk.definitions.seq()
    publish(releases, 1, definition("h2", gen=1, schedule="s7"))
    assert desk.definitions.changes_since(seq) == [(APP, "s7")]
    assert desk.definitions.changes_since(0) is None


def test_the_serial_is_the_fence(desk: Desk, releases: Releases) -> None:
    publish(releases, 0, definition("h1"))
    releases.stage("d2", b"x")
    before = desk.contents()
    for base in (0, 2, 118):
        answer = releases.publish(draft(base, "d2"), [definition("h2", gen=1)])
        assert (answer.verdict, answer.serial) == (ReleaseVerdict.MOVED, 1)
    assert desk.contents() == before


def test_the_same_draft_again_is_answered_and_done_once(desk: Desk, releases: Releases) -> None:
    releases.stage("d1", b"x")
    first = draft(0)
    answer = releases.publish(first, [definition("h1")], now_ms=T0_MS)
    before = desk.contents()
    assert releases.publish(first, [definition("h1")]) == answer
    assert desk.contents() == before
    publish(releases, 1, digest="d2")
    assert releases.publish(first, [definition("h1")]) == answer
    assert releases.serial() == 2


@pytest.mark.parametrize(
    ("definitions", "what"),
    [
        ([definition("h2", gen=1), definition("k2", gen=4, schedule="hourly")], f"{APP}/hourly"),
        ([definition("h2", gen=0)], f"{APP}/{SCHEDULE}"),
        ([definition("n1", gen=1, schedule="new")], f"{APP}/new"),
    ],
    ids=["another head", "already there", "not there"],
)
def test_a_registry_that_moved_leaves_all_as_it_was(
    desk: Desk, releases: Releases, definitions: list[Definition], what: str
) -> None:
    publish(releases, 0, definition("h1"), definition("k1", schedule="hourly"))
    releases.stage("d2", b"x")
    before = desk.contents()
    answer = releases.publish(draft(1, "d2"), definitions)
    assert (answer.verdict, answer.what) == (ReleaseVerdict.CHANGED, what)
    assert desk.contents() == before


@pytest.mark.parametrize("what", ["sch", "head", "set", "log", "counter"])
def test_what_relayctl_did_not_write_stops_a_release_whole_or_not_at_all(
    desk: Desk, redis_client: redis.Redis, releases: Releases, what: str
) -> None:
    publish(releases, 0, definition("h1"), definition("k1", schedule="hourly"))
    releases.stage("d2", b"x")
    keys = Keys("relay")
    if what == "sch":
        redis_client.hdel(keys.schedule(APP, "hourly"), "from")
    elif what == "head":
        redis_client.hset(keys.schedule(APP, "hourly"), "floor", "yesterday")
    else:
        key = {"set": keys.definitions, "log": keys.definitions_log, "counter": keys.definitions_seq}[what]
        redis_client.set(key, "nothing of ours") if what != "log" else redis_client.delete(keys.definitions_seq)
    before = desk.contents()
    answer = releases.publish(draft(1, "d2"), [definition("h2", gen=1), definition("k2", gen=1, schedule="hourly")])
    if what in {"log", "counter"}:
        assert answer.verdict is ReleaseVerdict.PUBLISHED
        assert {head.gen for head in desk.definitions.heads([NAME, (APP, "hourly")]).values()} == {2}
    else:
        assert answer.verdict is ReleaseVerdict.FOREIGN
        assert desk.contents() == before


def test_without_its_bundle_or_in_pull_mode_nothing_is_published(desk: Desk, releases: Releases) -> None:
    assert releases.publish(draft(0), [definition("h1")]).verdict is ReleaseVerdict.UNSTAGED
    desk.fleet.enter_mode("pull")
    releases.stage("d1", b"x")
    before = desk.contents()
    answer = releases.publish(draft(0), [definition("h1")])
    assert (answer.verdict, answer.what) == (ReleaseVerdict.MODE, "pull")
    assert desk.contents() == before


def test_a_definition_of_files_is_what_the_first_release_builds_on(desk: Desk, releases: Releases) -> None:
    desk.register("h1", now_ms=T0_MS - 5000)
    publish(releases, 0, definition("h2", gen=1))
    assert [(each.gen, each.hash, each.to_ms) for each in desk.definitions.generations(*NAME)] == [
        (1, "h1", T0_MS),
        (2, "h2", None),
    ]


def test_the_last_twenty_bundles_are_kept_and_shared_ones_while_somebody_refers_to_them(releases: Releases) -> None:
    for base in range(KEPT_BUNDLES + 5):
        publish(releases, base, digest="shared" if base % 3 == 0 else f"d{base}")
    wanted = {release.digest for release in releases.all()[:KEPT_BUNDLES]}
    assert releases.kept_bundles() == wanted
    assert releases.bundle("shared") == b"bundle shared"
    assert releases.bundle("d1") is None


def test_the_last_hundred_records_are_kept(releases: Releases) -> None:
    for base in range(KEPT_RELEASES + 2):
        publish(releases, base)
    assert [release.serial for release in releases.all()] == list(range(KEPT_RELEASES + 2, 2, -1))
    assert releases.get(2) is None


def test_a_record_that_is_none_stops_no_later_release(redis_client: redis.Redis, releases: Releases) -> None:
    publish(releases, 0, digest="d0")
    publish(releases, 1, digest="d1")
    for field, text in (("1", "no record"), ("x", "1|a|b|{}"), ("7", "1|a|b|[]"), ("8", "1|a|b|{}")):
        redis_client.hset("{relay}:releases", field, text)
    with pytest.raises(BrokerRefused, match="release 1 is nothing that relayctl wrote"):
        releases.get(1)
    assert publish(releases, 2, digest="d2").verdict is ReleaseVerdict.PUBLISHED
    assert [each.serial for each in releases.all()] == [3, 2]
    assert releases.kept_bundles() == {"d1", "d2"}
    redis_client.hset("{relay}:releases", "3", "no record")
    releases.set_mode("pull", "push")
    releases.set_mode("push", "pull")
    assert releases.pins() == {}


def test_a_bundle_that_is_staged_again_replaces_what_bears_its_name(releases: Releases) -> None:
    releases.stage("d1", b"damaged")
    releases.stage("d1", b"whole")
    assert releases.bundle("d1") == b"whole"


def test_what_is_on_its_way_stays_for_an_hour(redis_client: redis.Redis, releases: Releases) -> None:
    releases.stage("mine", b"\xff\x00 any bytes")
    releases.stage("old", b"x")
    now = int(redis_client.time()[0]) * 1000
    redis_client.zadd(Keys("relay").bundles_staged, {"old": now - 3_700_000})
    releases.stage("d1", b"x")
    releases.publish(draft(0), [])
    assert releases.kept_bundles() == {"mine", "d1"}
    assert releases.bundle("mine") == b"\xff\x00 any bytes"


def test_a_lease_has_one_holder_and_names_it(redis_client: redis.Redis, releases: Releases) -> None:
    def take(token: str, by: str) -> Any:
        return releases.take_lease(token, by=by, pid=7, command="relayctl apply")

    assert take("t1", "ann@desk") is None
    assert take("t1", "ann@desk") is None
    other = take("t2", "bob@laptop")
    assert (other.by, other.pid, other.command) == ("ann@desk", 7, "relayctl apply")
    assert 0 < other.left.total_seconds() <= LEASE_MS / 1000
    releases.give_lease_back("t2")
    assert take("t2", "bob@laptop") is not None
    releases.give_lease_back("t1")
    releases.give_lease_back("t1")
    assert take("t2", "bob@laptop") is None
    redis_client.delete(Keys("relay").release_lease)
    assert take("t1", "ann@desk") is None


def test_a_server_that_lost_it_is_given_the_highest_release_back(
    desk: Desk, redis_client: redis.Redis, releases: Releases
) -> None:
    publish(releases, 0, definition("h1"))
    publish(releases, 1, definition("h2", gen=1), digest="d2")
    first, second = releases.get(1), releases.get(2)
    assert first is not None
    assert second is not None
    redis_client.flushall()
    assert releases.offer(first, b"bundle d1") is True
    assert releases.offer(second, b"bundle d2") is True
    assert releases.offer(first, b"bundle d1") is False
    assert releases.current() == second
    assert releases.pins() == {APP: "r2"}
    assert releases.bundle("d2") == b"bundle d2"
    assert desk.fleet.mode() == "push"
    publish(releases, 2, digest="d3")
    assert releases.serial() == 3


def test_a_mode_changes_from_what_was_seen_and_to_pull_the_pins_go(desk: Desk, releases: Releases) -> None:
    publish(releases, 0, definition("h1"))
    with pytest.raises(ModeConflict, match="is in push mode by now"):
        releases.set_mode("pull", None)
    releases.set_mode("pull", "push")
    assert (desk.fleet.mode(), releases.pins(), releases.serial()) == ("pull", {}, 1)
    releases.set_mode("pull", "push")
    releases.set_mode("push", "pull")
    assert (desk.fleet.mode(), releases.pins()) == ("push", {APP: "r1"})


def test_a_release_moves_a_schedule_with_its_past_and_back(
    desk: Desk, releases: Releases, redis_client: redis.Redis
) -> None:
    publish(releases, 0, definition("h1"))
    redis_client.hset(Keys("relay").schedule(*NAME), mapping={"hw": T0_MS // 1000, "paused": 7, "paused_why": "works"})
    new = Definition(app="other", schedule="late", hash="h2", spec="spec of h2", gen=0, moved_from=NAME)
    assert publish(releases, 1, new, definition(TOMBSTONE, gen=1)).verdict is ReleaseVerdict.PUBLISHED
    heads = desk.definitions.heads([NAME, ("other", "late")])
    there, here = heads[NAME], heads["other", "late"]
    assert (there.hash, there.moved_to, here.moved_from) == (TOMBSTONE, ("other", "late"), (NAME,))
    assert (here.gen, here.hash, here.paused_at, here.highest_published) == (2, "h2", 7, T0_MS // 1000)
    assert desk.definitions.removed_names() == []
    assert desk.definitions.all_names() == {("other", "late")}

    back = Definition(app=APP, schedule=SCHEDULE, hash="h1", spec="spec of h1", gen=2, moved_from=("other", "late"))
    gone = Definition(app="other", schedule="late", hash=TOMBSTONE, spec="", gen=2)
    assert publish(releases, 2, gone, back).verdict is ReleaseVerdict.PUBLISHED
    head = desk.definitions.heads([NAME])[NAME]
    assert (head.gen, head.hash, head.paused_at, head.moved_from) == (3, "h1", 7, (("other", "late"),))
