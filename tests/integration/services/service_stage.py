"""A stage for services: write an app, deploy it, and wait for what is told of its replicas."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from support.broker import await_fact

from relayctl.errors import SecretMissing
from relayctl.host.clock import SystemClock
from relayctl.runners.cgroups import NOTHING, Delegation
from relayctl.runners.environ import base_environ
from relayctl.templates.load import load_app
from relayctl.worker.services import Services
from relayctl.worker.snapshot import LiveApp

if TYPE_CHECKING:
    from pathlib import Path

    from relayctl.core.facts import Fact
    from relayctl.core.servicestanding import ServiceStanding

SERVER = """
import os, socket

server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
print("listening on", os.environ["PORT"])
while True:
    client, _ = server.accept()
    client.recv(4096)
    client.sendall(b"HTTP/1.0 200 fine\\r\\n\\r\\n")
    client.close()
"""
NAPPER = "import time\nprint('here')\ntime.sleep(600)\n"


class ServiceStage:
    """`facts` grows while the loop runs."""

    def __init__(self, root: Path, delegation: Delegation = NOTHING) -> None:
        self.root = root
        self.facts: list[Fact] = []
        self.secrets: dict[str, str] = {}
        self.live: dict[str, LiveApp] = {}
        self.services = Services(
            secrets=self._resolve,
            clock=SystemClock(),
            emit=self.facts.append,
            base_environ=base_environ(),
            delegation=delegation,
        )
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self.services.run, args=(self._stop,))
        self.thread.start()

    def _resolve(self, reference: str) -> str:
        if reference not in self.secrets:
            raise SecretMissing(f"secret {reference} is not set", help=f"relayctl secret set {reference}")
        return self.secrets[reference]

    def app(self, name: str, template: str, files: dict[str, str] | None = None) -> None:
        """Write an app, or edit it, and deploy it with the others."""
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "template.yaml").write_text(template)
        for file, text in (files or {}).items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if text.startswith("#!"):
                path.chmod(0o755)
        loaded = load_app(folder, root=self.root, now=datetime.now(UTC))
        assert loaded.app is not None, [problem.message for problem in loaded.problems]
        self.live[name] = LiveApp(
            app=loaded.app, revision=loaded.digest, template=loaded.template_digest, directory=folder.resolve()
        )
        self.deploy()

    def deploy(self) -> None:
        self.services.deploy(dict(self.live))

    def remove(self, name: str) -> None:
        del self.live[name]
        self.deploy()

    def told(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The facts of this kind so far whose fields are these."""
        found = [fact.to_fields() for fact in list(self.facts) if fact.event == event]
        return [fact for fact in found if all(fact.get(name) == value for name, value in fields.items())]

    def await_told(self, event: str, *, count: int = 1, within_s: float = 10.0, **fields: Any) -> dict[str, Any]:
        """Wait until that has been told `count` times; the last of them."""
        try:
            await_fact(lambda: len(self.told(event, **fields)) >= count, f"no {event} {fields}", within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.facts[-20:]}") from None
        return self.told(event, **fields)[count - 1]

    def await_line(self, label: str, part: str) -> str:
        """Wait until a replica has printed a line with that in it; the line."""

        def found() -> list[str]:
            return [it["line"] for it in self.told("output", label=label) if part in it["line"]]

        await_fact(found, f"{label} does not print {part!r}: {self.told('output')[-9:]}")
        return found()[0]

    def standing(self, name: str = "app/web") -> ServiceStanding | None:
        return next((it for it in self.services.standings if it.name == name), None)

    def await_up(self, name: str = "app/web") -> list[int]:
        """Wait until all of it runs; the pids in order of their replicas."""
        await_fact(
            lambda: (found := self.standing(name)) is not None and found.is_well, f"{name}: {self.standing(name)}"
        )
        return self.pids(name)

    def pids(self, name: str = "app/web") -> list[int]:
        app, _, service = name.partition("/")
        latest = {fact["replica"]: fact["pid"] for fact in self.told("service-started", app=app, service=service)}
        found = self.standing(name)
        return [latest[index] for index in sorted(latest) if found is not None and index < found.wanted]

    def stop(self) -> None:
        self._stop.set()
        self.services.wake()
        self.thread.join(20)
        assert not self.thread.is_alive()


def free_port(count: int = 1) -> int:
    """The first of `count` ports in a row that nobody listens on."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        if first < 30_000 or first + count > 65_000:
            continue
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
