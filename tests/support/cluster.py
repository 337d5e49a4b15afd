"""Three bundled servers as a Cluster on free local ports, every slot assigned, ready in about two seconds.

A test that wants a fail-over adds a replica; without one nobody takes the place of a node that dies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.broker import await_fact, free_port
from support.sentinel import Member

from relayctl.store.connect import connect, probe
from relayctl.store.target import Target

if TYPE_CHECKING:
    from pathlib import Path

    import redis

NODES = 3
_PLAIN = ("appendonly yes", "aof-use-rdb-preamble no", 'save ""', "repl-diskless-sync-delay 0")
SLOTS = 16_384


class Cluster:
    """A running Cluster: `url`, `target`, its `nodes`, and which of them serves a key."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self.nodes: list[Member] = []
        self._buses: list[int] = []
        try:
            for number in range(NODES):
                self._buses.append(free_port())
                self.nodes.append(Member(root / f"node-{number}", *_directives(self._buses[-1])))
            for port in self.ports:
                await_fact(lambda port=port: probe(_plain(port)) == "ready", "a node does not start", within_s=30)
            self._join()
        except BaseException:
            self.close()
            raise

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.nodes]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in self.ports[:NODES])

    @property
    def target(self) -> Target:
        return Target.parse(self.url)

    def add_replica(self, key: str) -> Member:
        """One more node, in step with the one that serves this key."""
        primary = self.node_of(key)
        bus = free_port()
        made = Member(self._root / f"node-{len(self.nodes)}", *_directives(bus))
        self.nodes.append(made)
        self._buses.append(bus)
        made.await_ready()
        name = primary.ask("CLUSTER", "MYID")
        primary.ask("CLUSTER", "MEET", "127.0.0.1", made.port, bus)
        await_fact(lambda: name in str(made.ask("CLUSTER", "NODES")), "the replica meets nobody", 20)
        made.ask("CLUSTER", "REPLICATE", name)
        await_fact(lambda: made.replication().get("master_link_status") == "up", "the replica hangs", 20)
        # All must know it, or nobody votes for it.
        mine = made.ask("CLUSTER", "MYID")
        for node in self.nodes[:NODES]:
            await_fact(lambda node=node: mine in str(node.ask("CLUSTER", "NODES")), "it is not known", 20)
        return made

    def node_of(self, key: str) -> Member:
        """The node that serves this key."""
        with connect(_plain(self.ports[0])) as client:
            slot = int(client.execute_command("CLUSTER", "KEYSLOT", key))
        return self.nodes[next(number for number in range(NODES) if slot < SLOTS * (number + 1) // NODES)]

    def move(self, key: str, source: Member, target: Member) -> None:
        """Move the slot of this key, with all that is in it, to another node while clients go on."""
        with connect(_plain(source.port)) as giver, connect(_plain(target.port)) as taker:
            slot = int(giver.execute_command("CLUSTER", "KEYSLOT", key))
            names = [client.execute_command("CLUSTER", "MYID") for client in (giver, taker)]
            taker.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
            giver.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
            while found := giver.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
                giver.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *found)
            taker.execute_command("CLUSTER", "SETSLOT", slot, "NODE", names[1])
            giver.execute_command("CLUSTER", "SETSLOT", slot, "NODE", names[1])

    def close(self) -> None:
        for node in self.nodes:
            node.stop()

    def _join(self) -> None:
        """Share out the slots and make the nodes meet."""
        clients = [connect(_plain(port)) for port in self.ports]
        for number, client in enumerate(clients):
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            first, end = SLOTS * number // NODES, SLOTS * (number + 1) // NODES
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for node, bus in list(zip(self.nodes, self._buses, strict=True))[1:]:
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        for client in clients:
            await_fact(lambda client=client: _is_whole(client), "the cluster does not form", within_s=30)
            client.close()


def _directives(bus: int) -> tuple[str, ...]:
    return (f"cluster-port {bus}", "cluster-enabled yes", "cluster-node-timeout 2000", *_PLAIN)


def _plain(port: int) -> Target:
    return Target.parse(f"redis://127.0.0.1:{port}")


def _is_whole(node: redis.Redis) -> bool:
    info: Any = node.execute_command("CLUSTER", "INFO")
    facts = info if isinstance(info, dict) else dict(line.split(":", 1) for line in info.split())
    return facts["cluster_state"] == "ok" and int(facts["cluster_known_nodes"]) == NODES
