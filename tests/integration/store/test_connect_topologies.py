"""The same factory before Sentinel and Cluster, with real servers of each."""

from __future__ import annotations

import socket

import pytest
from support.broker import Proxy, RawServer, await_fact

from relayctl.errors import BrokerError, BrokerUnavailable, BrokerUnsuitable
from relayctl.host.clock import SystemClock
from relayctl.store.connect import Target, check_server, connect, measure_offset, ping, probe, translate

SCRIPT = "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('XADD', KEYS[2], '*', 'a', ARGV[1])"


@pytest.fixture
def servers(short_dir):
    made: list[RawServer] = []

    def make(*directives: str, arguments: tuple[str, ...] = ()) -> RawServer:
        made.append(RawServer(short_dir / f"server-{len(made)}", *directives, arguments=arguments))
        target = Target.parse(f"redis://127.0.0.1:{made[-1].port}")
        await_fact(lambda: probe(target) == "ready", "the server does not start")
        return made[-1]

    yield make
    for server in made:
        server.stop()


def test_a_cluster_runs_our_scripts_on_tagged_keys(servers):
    from support.broker import free_port

    node = servers("cluster-enabled yes", f"cluster-port {free_port()}", 'save ""')
    with connect(Target.parse(f"redis://127.0.0.1:{node.port}")) as direct:
        direct.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        await_fact(lambda: "cluster_state:ok" in raw_info(direct), "the cluster does not form")
        with pytest.raises(BrokerUnsuitable) as unsuitable:
            check_server(direct)
        assert "redis+cluster://" in unsuitable.value.help
    target = Target.parse(f"redis+cluster://127.0.0.1:{node.port}")
    ping(target)
    with connect(target) as client:
        entry = client.eval(SCRIPT, 2, "{relay}:x", "{relay}:events", "1")
        assert client.xrange("{relay}:events") == [(entry, {"a": "1"})]
        assert check_server(client).mode == "cluster"
        assert measure_offset(client, SystemClock(), key="{relay}:epoch") > 0
        node.stop()
        with pytest.raises(BrokerUnavailable), translate():
            client.get("{relay}:x")
    with pytest.raises(BrokerUnavailable, match=r"redis\+cluster://"):
        ping(target)


def raw_info(client) -> str:
    answer = client.execute_command("CLUSTER", "INFO")
    return answer if isinstance(answer, str) else "\n".join(f"{key}:{value}" for key, value in answer.items())


def test_sentinel_leads_to_the_master_and_to_the_next_one(servers):
    first, second = servers('save ""'), servers('save ""')
    replica = connect(Target.parse(f"redis://127.0.0.1:{second.port}"))
    replica.replicaof("127.0.0.1", first.port)
    sentinel = servers(
        f"sentinel monitor main 127.0.0.1 {first.port} 1",
        "sentinel down-after-milliseconds main 500",
        arguments=("--sentinel",),
    )
    target = Target.parse(f"redis+sentinel://127.0.0.1:{sentinel.port}/main")
    with connect(target) as client:
        client.set("a", "1")
        assert check_server(client).pid == first.process.pid
        # A demotion without a death: the writer must hear of it and find the new master by itself.
        replica.replicaof("NO", "ONE")
        with connect(Target.parse(f"redis://127.0.0.1:{first.port}")) as demoted:
            demoted.replicaof("127.0.0.1", second.port)
        with pytest.raises(BrokerUnavailable) as caught, translate():
            client.set("a", "2")
        assert caught.value.is_retryable
        with connect(Target.parse(f"redis://127.0.0.1:{sentinel.port}")) as keeper:
            keeper.execute_command("SENTINEL", "REMOVE", "main")
            keeper.execute_command("SENTINEL", "MONITOR", "main", "127.0.0.1", second.port, 1)
        await_fact(lambda: writes(client), "the new master is not found")
        assert check_server(client).pid == second.process.pid
    replica.close()


def writes(client) -> bool:
    try:
        with translate():
            return bool(client.set("a", "3"))
    except BrokerError:
        return False


def test_behind_an_address_that_moves_a_demoted_server_is_left(servers):
    first, second = servers('save ""'), servers('save ""')
    moving = Proxy(lambda: socket.create_connection(("127.0.0.1", first.port)))
    client = connect(Target.parse(f"redis://127.0.0.1:{moving.port}"))
    try:
        client.set("a", "1")
        with connect(Target.parse(f"redis://127.0.0.1:{first.port}")) as demoted:
            demoted.replicaof("127.0.0.1", second.port)
        moving.upstream = lambda: socket.create_connection(("127.0.0.1", second.port))
        with pytest.raises(BrokerUnavailable, match="read-only replica"), translate():
            client.eval(SCRIPT, 2, "{relay}:x", "{relay}:events", "1")
        assert client.eval(SCRIPT, 2, "{relay}:x", "{relay}:events", "2")
        assert check_server(client).pid == second.process.pid
        assert not check_server(client).is_replica
    finally:
        client.close()
        moving.close()


def test_a_master_sentinel_does_not_know_is_unavailable(servers):
    sentinel = servers(arguments=("--sentinel",))
    target = Target.parse(f"redis+sentinel://:hunter2@127.0.0.1:{sentinel.port}/nobody")
    with connect(Target.parse(f"redis://127.0.0.1:{sentinel.port}")) as direct:
        with pytest.raises(BrokerUnsuitable) as unsuitable:
            check_server(direct)
        assert "redis+sentinel://" in unsuitable.value.help
    with pytest.raises(BrokerUnavailable, match="nobody") as caught:
        ping(target)
    assert "hunter2" not in caught.value.message
