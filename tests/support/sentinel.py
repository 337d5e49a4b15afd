"""A primary, replicas and three Sentinels from the bundled binary on free local ports, and ways to hurt each of them."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from support.broker import RawServer, await_fact

from relayctl.broker.binary import find_server
from relayctl.errors import BrokerError
from relayctl.store.connect import connect, probe, translate
from relayctl.store.target import Target

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = "main"
SENTINELS = 3
_DURABLE = ("appendonly yes", "aof-use-rdb-preamble no", 'save ""', "repl-diskless-sync-delay 0")


class Member(RawServer):
    """A server that can die, stand still and come back on its port and data."""

    def __init__(self, directory: Path, *directives: str, password: str = "", arguments: tuple[str, ...] = ()) -> None:
        self._command = [find_server().path, directory / "server.conf", *arguments]
        login = f":{quote(password, safe='')}@" if password else ""
        super().__init__(directory, *directives, arguments=arguments)
        self.target = Target.parse(f"redis://{login}127.0.0.1:{self.port}")

    def await_ready(self) -> None:
        await_fact(lambda: probe(self.target) == "ready", "a server does not start", within_s=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def stall(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def ask(self, *command: Any) -> Any:
        with translate(), connect(self.target) as client:
            return client.execute_command(*command)

    def replication(self) -> dict[str, Any]:
        with translate(), connect(self.target, timeout_s=1.0) as client:
            facts: dict[str, Any] = client.info("replication")
            return facts

    def is_in(self, role: str) -> bool:
        """Whether it answers, and says that it is `master` or `slave`."""
        try:
            return bool(self.replication()["role"] == role)
        except BrokerError:
            return False


class SentinelSet:
    """`servers` (the first is the primary at first), `sentinels`, and the `url` through which workers find the primary.

    With `password` the servers want one, with `sentinel_password` the Sentinels do.
    """

    def __init__(self, root: Path, *, replicas: int = 2, password: str = "", sentinel_password: str = "") -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.servers: list[Member] = []
        self.sentinels: list[Member] = []
        self._login = f":{quote(password, safe='')}@" if password else ""
        self._options = f"?sentinel_password={quote(sentinel_password, safe='')}" if sentinel_password else ""
        try:
            self._start_servers(root, replicas, password)
            self._start_sentinels(root, replicas, password, sentinel_password)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        return f"redis+sentinel://{self._login}{hosts}/{SERVICE}{self._options}"

    @property
    def target(self) -> Target:
        return Target.parse(self.url)

    def primary(self) -> Member | None:
        """The server that all Sentinels that answer name now, if it says so itself."""
        ports = set()
        for sentinel in self.sentinels:
            if sentinel.process.poll() is None:
                ports.add(int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1]))
        [found] = [one for one in self.servers if one.port in ports] if len(ports) == 1 else [None]
        return found if found is not None and found.is_in("master") else None

    def await_primary(self, wanted: Member, within_s: float = 25.0) -> None:
        await_fact(lambda: _is_primary(self, wanted), "the fail-over does not come", within_s)

    def close(self) -> None:
        for member in (*self.sentinels, *self.servers):
            member.resume()
            member.stop()

    def _start_servers(self, root: Path, replicas: int, password: str) -> None:
        auth = (f"requirepass {password}", f"masterauth {password}") if password else ()
        self.servers.append(Member(root / "server-0", *_DURABLE, *auth, password=password))
        follow = f"replicaof 127.0.0.1 {self.servers[0].port}"
        for number in range(1, replicas + 1):
            self.servers.append(Member(root / f"server-{number}", *_DURABLE, *auth, follow, password=password))
        for server in self.servers:
            server.await_ready()
        for replica in self.servers[1:]:
            # Nothing fails over to a replica that has never been in step.
            await_fact(lambda one=replica: one.replication().get("master_link_status") == "up", "a replica hangs", 30)

    def _start_sentinels(self, root: Path, replicas: int, password: str, sentinel_password: str) -> None:
        directives = (
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.servers[0].port} 2",
            f"sentinel down-after-milliseconds {SERVICE} 1000",
            f"sentinel failover-timeout {SERVICE} 5000",
            *((f"sentinel auth-pass {SERVICE} {password}",) if password else ()),
            *((f"requirepass {sentinel_password}",) if sentinel_password else ()),
        )
        for number in range(SENTINELS):
            self.sentinels.append(
                Member(root / f"sentinel-{number}", *directives, password=sentinel_password, arguments=("--sentinel",))
            )
        for sentinel in self.sentinels:
            sentinel.await_ready()
        for sentinel in self.sentinels:
            await_fact(lambda one=sentinel: _knows_all(one, replicas), "the Sentinels do not meet", 30)


def _is_primary(group: SentinelSet, wanted: Member) -> bool:
    try:
        return group.primary() is wanted
    except BrokerError:
        return False


def _knows_all(sentinel: Member, replicas: int) -> bool:
    facts = sentinel.ask("SENTINEL", "MASTER", SERVICE)
    if isinstance(facts, list):
        facts = dict(zip(facts[::2], facts[1::2], strict=True))
    return int(facts["num-slaves"]) == replicas and int(facts["num-other-sentinels"]) == SENTINELS - 1
