"""When a publication counts as held by replicas: real servers, a replica that stands still, and several connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.console import relayctl
from support.sentinel import Member
from support.storedesk import T0_MS, Desk, occurrence

from relayctl.store.connect import check_server, connect
from relayctl.store.stream import Publication, PublishVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def pair(short_dir: Path) -> Iterator[tuple[Member, Member]]:
    """A server and its replica, in step."""
    first = Member(short_dir / "first", 'save ""', "repl-diskless-sync-delay 0")
    second = Member(short_dir / "second", 'save ""', f"replicaof 127.0.0.1 {first.port}")
    for member in (first, second):
        member.await_ready()
    await_fact(lambda: second.replication().get("master_link_status") == "up", "the replica hangs", 20)
    yield first, second
    second.resume()
    second.stop()
    first.stop()


def publish(desk: Desk, token: str = "t") -> Publication:
    [(_, answer)] = desk.stream.publish([occurrence()], token, now_ms=T0_MS, acks=1)
    assert isinstance(answer, Publication)
    return answer


@pytest.mark.parametrize("token", ["t", "u"])
def test_an_answer_on_another_connection_says_nothing_of_the_write(
    pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """The server counts replicas from each connection's own last write, and a confirmation writes nothing."""
    monkeypatch.setattr("relayctl.store.replicas.WITHIN_MS", 50)
    first, second = pair
    clients: list[Any] = [connect(first.target), connect(first.target)]
    writer, other = Desk(clients[0]), Desk(clients[1])
    writer.register("h1")
    await_fact(lambda: publish(writer, "warm").is_safe, "the replica acknowledges nothing")
    second.stall()
    clients[0].delete(writer.keys.published("shop", "nightly"))
    assert not publish(writer).is_safe
    again = publish(other, token)
    assert again.verdict is (PublishVerdict.PUBLISHED if token == "t" else PublishVerdict.DUPLICATE)
    assert not again.is_safe, "no replica has it"
    second.resume()
    await_fact(lambda: publish(other, token).is_safe, "the replica has it, and that is not seen")
    assert other.stream.backlog() == 2
    for client in clients:
        client.close()


@pytest.mark.slow
def test_a_check_says_what_is_in_step(pair: tuple[Member, Member], short_dir: Path) -> None:
    first, second = pair
    with connect(first.target) as client:
        assert (check_server(client).replicas, check_server(client).is_replica) == (1, False)
    with connect(second.target) as client:
        assert (check_server(client).replicas, check_server(client).is_replica) == (0, True)

    def check(member: Member, acks: str) -> str:
        url = f"redis://127.0.0.1:{member.port}"
        answer = relayctl(
            "status", "--check", "--redis", url, cwd=short_dir, environ={"RELAYCTL_MIN_REPLICA_ACKS": acks}
        )
        assert answer.code == 0, answer.err
        return " ".join(answer.out.split())

    assert "in step" not in check(first, "1")
    assert "1 of 2 replicas are in step" in check(first, "2")
    assert "read-only replica" in check(second, "0")
