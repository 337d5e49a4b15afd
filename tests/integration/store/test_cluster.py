"""Three bundled servers as a Cluster: all keys of a namespace live together, so every step works unchanged."""

from __future__ import annotations

import socket
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.storedesk import APP, HANDLER, LEASE_MS, SCHEDULE, T0, T0_MS, Desk, occurrence

from relayctl.broker.binary import find_server
from relayctl.core.lifecycle import Kind
from relayctl.errors import BrokerUnavailable
from relayctl.store.connect import connect, ping
from relayctl.store.stream import Publication, PublishVerdict
from relayctl.store.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

NODES = 3
SLOTS = 16_384


def free_ports(count: int) -> list[int]:
    """Ports free at this moment; all are held until the last is found, so that none comes twice."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def start_node(folder: Path, port: int, bus: int) -> subprocess.Popen[bytes]:
    folder.mkdir()
    config = folder / "node.conf"
    config.write_text(
        f'bind 127.0.0.1\nport {port}\ncluster-port {bus}\ndir "{folder}"\nsave ""\n'
        "cluster-enabled yes\ncluster-node-timeout 2000\n"
    )
    return subprocess.Popen([find_server().path, config], stdout=subprocess.DEVNULL)


def is_up(port: int) -> bool:
    try:
        ping(Target.parse(f"redis://127.0.0.1:{port}"))
    except BrokerUnavailable:
        return False
    return True


def join(ports: list[int], buses: list[int]) -> None:
    """Share out the slots and make the nodes meet."""
    nodes = [connect(Target.parse(f"redis://127.0.0.1:{port}")) for port in ports]
    for number, node in enumerate(nodes):
        node.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        first, end = SLOTS * number // NODES, SLOTS * (number + 1) // NODES
        node.execute_command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
    for port, bus in zip(ports[1:], buses[1:], strict=True):
        nodes[0].execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
    for node in nodes:
        await_fact(lambda node=node: is_whole(node), "the cluster does not form", within_s=30)
        node.close()


def is_whole(node: redis.Redis) -> bool:
    info: Any = node.execute_command("CLUSTER", "INFO")
    facts = info if isinstance(info, dict) else dict(line.split(":", 1) for line in info.split())
    return facts["cluster_state"] == "ok" and int(facts["cluster_known_nodes"]) == NODES


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    root = tmp_path_factory.mktemp("cluster")
    ports = free_ports(2 * NODES)
    clients, buses = ports[:NODES], ports[NODES:]
    processes = []
    try:
        for number, (port, bus) in enumerate(zip(clients, buses, strict=True)):
            processes.append(start_node(root / str(number), port, bus))
        for port in clients:
            await_fact(lambda port=port: is_up(port), "a node does not start")
        join(clients, buses)
        yield Target.parse("redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in clients))
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_work_runs_from_publication_to_its_end(cluster: Target) -> None:
    client = connect(cluster)
    try:
        # Namespaces in different slots, so that each node is asked.
        for namespace in ("relay", "team-a", "team-b", "team-c", "x"):
            live(Desk(client, namespace))
    finally:
        client.close()


def live(desk: Desk) -> None:
    desk.register("h1")
    asked = [occurrence(T0 + second) for second in range(20)]
    answers = [answer for _, answer in desk.stream.publish(asked, "w1", now_ms=T0_MS + 60_000)]
    assert all(isinstance(item, Publication) and item.verdict is PublishVerdict.PUBLISHED for item in answers)
    again = [answer for _, answer in desk.stream.publish(asked, "w2", now_ms=T0_MS + 60_000)]
    assert all(isinstance(item, Publication) and item.verdict is PublishVerdict.DUPLICATE for item in again)
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
