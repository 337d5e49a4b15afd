"""Three bundled servers as a Cluster: all keys of a namespace live together, so every step works unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.cluster import Cluster
from support.storedesk import APP, HANDLER, LEASE_MS, SCHEDULE, T0, T0_MS, Desk, occurrence

from relayctl.core.lifecycle import Kind
from relayctl.errors import BrokerRefused, BrokerUnavailable
from relayctl.host.clock import SystemClock
from relayctl.store.connect import Target, check_server, connect, measure_offset, ping
from relayctl.store.definitions import Mode
from relayctl.store.keys import Keys
from relayctl.store.moves import Move, Moves, MoveVerdict
from relayctl.store.stream import Publication, PublishVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

# Three that lie on three different nodes.
NAMESPACES = ("relay", "team-b", "z")


@pytest.fixture
def client(cluster: Cluster) -> Iterator[redis.Redis]:
    """A client of an empty Cluster whose nodes know no script."""
    made = connect(cluster.target)
    made.flushall()
    made.script_flush()
    yield made
    made.close()


def published(desk: Desk, seconds: range, token: str = "w1") -> list[PublishVerdict]:
    asked = [occurrence(T0 + second) for second in seconds]
    answers = [answer for _, answer in desk.stream.publish(asked, token, now_ms=T0_MS + 60_000)]
    assert [item for item in answers if not isinstance(item, Publication)] == []
    return [item.verdict for item in answers if isinstance(item, Publication)]


def test_work_runs_from_publication_to_its_end(cluster: Cluster, client: redis.Redis) -> None:
    assert len({cluster.node_of(f"{{{name}}}:events").port for name in NAMESPACES}) == 3
    for namespace in NAMESPACES:
        live(Desk(client, namespace))


def test_a_schedule_gets_a_new_name(client: redis.Redis) -> None:
    for namespace in NAMESPACES:
        desk, moves = Desk(client, namespace), Moves(client, Keys(namespace))
        desk.register("h1")
        published(desk, range(2))
        first, second = desk.read()
        desk.route(desk.order(first), desk.order(second))
        old, new = (APP, SCHEDULE), ("far", "renamed")
        move = Move(old=old, new=new, mode=Mode.EDIT, hash="h1", spec="")
        assert moves.move([move], now_ms=T0_MS + 50_000) == [MoveVerdict.MOVED]
        assert (moves.homes([old]), moves.rehome({new: [old]})) == ({old: new}, 2)
        assert published(desk, range(3), "w9") == [PublishVerdict.DUPLICATE] * 2 + [PublishVerdict.PUBLISHED]


def live(desk: Desk) -> None:
    desk.register("h1")
    assert set(published(desk, range(20))) == {PublishVerdict.PUBLISHED}
    assert set(published(desk, range(20), "w2")) == {PublishVerdict.DUPLICATE}
    desk.stream.emit('{"n":1}')
    *firings, event = desk.read()
    desk.route(*(desk.order(entry) for entry in firings))
    desk.route(desk.order(event, (APP, HANDLER), ("mail", HANDLER), kind=Kind.EVENT))
    wanted = [desk.wanted(entry.id, slot="@" + SCHEDULE, token=entry.id) for entry in firings]
    claims = desk.invocations.claim(wanted, lease_ms=LEASE_MS, now_ms=T0_MS)
    assert desk.invocations.renew(claims, lease_ms=LEASE_MS, now_ms=T0_MS) == []  # type: ignore[arg-type]
    for claim in (*claims, desk.claimed(event.id)):
        assert desk.end(claim)[0].value == "ended"  # type: ignore[arg-type]
    desk.claimed(event.id, app="mail", retries=0)
    assert desk.take_back(event.id, app="mail", now_ms=T0_MS + LEASE_MS) == ("failed", 1)
    assert desk.stream.backlog() == 0
    assert len(desk.history(schedule=SCHEDULE)) == 20
    assert desk.stream.highest_published([(APP, SCHEDULE)]) == [T0 + 19]


def test_what_is_asked_of_the_whole_is_answered(
    cluster: Cluster, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relayctl.store.replicas.WITHIN_MS", 20)
    ping(cluster.target)
    assert check_server(client).mode == "cluster"
    # The clock that counts is that of the node which runs the scripts.
    assert abs(measure_offset(client, SystemClock(), key="{relay}:events")) > 0
    desk = Desk(client)
    desk.register("h1")
    [(_, answer)] = desk.stream.publish([occurrence()], "w1", now_ms=T0_MS, acks=1)
    assert isinstance(answer, Publication)
    assert (answer.verdict, answer.is_safe) == (PublishVerdict.PUBLISHED, False), "there are no replicas"


def test_the_smallest_rights_suffice(cluster: Cluster, client: redis.Redis) -> None:
    rule = "reset on >s3cret ~{relay}:* +@all -@dangerous -@admin +info"
    for node in cluster.nodes:
        with connect(Target.parse(f"redis://127.0.0.1:{node.port}")) as direct:
            direct.execute_command("ACL", "SETUSER", "small", *rule.split())
    limited = connect(Target.parse(cluster.url.replace("://", "://small:s3cret@")))
    try:
        live(Desk(limited))
        assert check_server(limited).mode == "cluster"
    finally:
        limited.close()
    with pytest.raises(BrokerRefused, match="user or the password") as refused:
        ping(Target.parse(cluster.url.replace("://", "://small:wr0ng@")))
    assert "wr0ng" not in refused.value.message


def test_a_namespace_that_moves_to_another_node_is_followed(cluster: Cluster, client: redis.Redis) -> None:
    """Pipelined scripts are packed by hand here, so they must hear where their keys went, too."""
    desk = Desk(client)
    desk.register("h1")
    assert published(desk, range(1)) == [PublishVerdict.PUBLISHED]
    home = cluster.node_of(desk.keys.events)
    away = next(node for node in cluster.nodes if node is not home)
    try:
        cluster.move(desk.keys.events, home, away)
        assert published(desk, range(3)) == [PublishVerdict.PUBLISHED] * 3
        assert desk.stream.backlog() == 3
    finally:
        cluster.move(desk.keys.events, away, home)
    assert published(desk, range(2, 5)) == [PublishVerdict.PUBLISHED] * 3
    assert len(desk.read()) == 5


def test_a_cluster_that_is_not_there_is_told(short_dir: Any) -> None:
    from support.broker import free_port

    away = f"redis+cluster://:hunter2@127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    with pytest.raises(BrokerUnavailable) as caught:
        ping(Target.parse(away))
    assert "hunter2" not in f"{caught.value.message}{caught.value.help}"
