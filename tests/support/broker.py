"""Private servers for tests, made by the project's own supervisor."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from relayctl.broker.binary import find_server
from relayctl.broker.supervise import EmbeddedBroker, Endpoint
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from relayctl.store.target import Target


class PrivateBroker:
    """A started embedded broker: `url`, `target`, `pid`, `state_dir`, and ways to hurt it."""

    def __init__(self, embedded: EmbeddedBroker, endpoint: Endpoint) -> None:
        self.embedded = embedded
        self.endpoint = endpoint

    @property
    def url(self) -> str:
        return self.endpoint.url

    @property
    def target(self) -> Target:
        return self.embedded.target

    @property
    def pid(self) -> int:
        return self.endpoint.pid

    @property
    def state_dir(self) -> Path:
        return self.embedded.state.path

    def kill(self) -> None:
        """Kill the server with -9 and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        await_fact(lambda: not self.embedded.is_alive(), "the killed server still listens")

    def restart(self) -> Endpoint:
        """Start it again on the same data and socket (after `kill` or `stop`)."""
        self.endpoint = self.embedded.start_or_attach()
        return self.endpoint

    def stop(self) -> None:
        """Stop the server in an orderly way."""
        self.embedded.stop()


class BrokerFactory:
    """`factory(name)` starts a broker on the state directory `name`, a second one of a name attaches to the first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: list[PrivateBroker] = []

    def __call__(self, name: str = "state") -> PrivateBroker:
        embedded = EmbeddedBroker(StateDir(self.root / name), SystemClock())
        made = PrivateBroker(embedded, embedded.start_or_attach())
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in reversed(self._made):
            made.stop()


def await_fact(is_true: Callable[[], object], otherwise: str, within_s: float = 30.0) -> float:
    """Wait until `is_true()` is, and say how long that took in seconds; fail with `otherwise` when too late."""
    began = time.monotonic()
    pause = threading.Event()
    while not is_true():
        if time.monotonic() - began > within_s:
            raise AssertionError(f"{otherwise} (after {within_s} s)")
        pause.wait(0.005)
    return time.monotonic() - began


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    with suppress(OSError):
        os.kill(pid, 0)
        try:
            with open(f"/proc/{pid}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return not os.path.isdir("/proc/self")
    return False


class Participant:
    """A running `broker_process.py`: another process's part in the broker of a directory."""

    def __init__(self, directory: Path, *flags: str, wait: bool = True) -> None:
        program = os.path.join(os.path.dirname(__file__), "broker_process.py")
        self.process = subprocess.Popen(
            [sys.executable, program, str(directory), *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._facts: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.up = self.await_told("up") if wait else {}

    def await_told(self, fact: str, within_s: float = 40.0) -> dict[str, Any]:
        """The next `fact` the process tells, skipping others."""
        deadline = time.monotonic() + within_s
        while True:
            told = self._facts.get(timeout=max(0.01, deadline - time.monotonic()))
            if told["fact"] == fact:
                return told

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def interrupt_group(self) -> None:
        """What Ctrl-C in a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def stop(self) -> None:
        """End it in an orderly way, or not at all if it is dead."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        self.process.wait(20)
        self._reader.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._facts.put(json.loads(line))


class RawServer:
    """A server the project does not supervise, on a free local TCP port: what an external broker is."""

    def __init__(self, directory: Path, *directives: str, arguments: tuple[str, ...] = ()) -> None:
        directory.mkdir()
        self.port = free_port()
        config = directory / "server.conf"
        config.write_text("\n".join((f"port {self.port}", "bind 127.0.0.1", f'dir "{directory}"', *directives, "")))
        with open(directory / "log", "wb") as log:
            self.process = subprocess.Popen(
                [find_server().path, config, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    """A TCP port nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy:
    """A local TCP port before a server. `upstream` can be changed; setting `eat` makes the connection of
    the next reply deaf from that reply on, while later connections work."""

    def __init__(self, upstream: Callable[[], socket.socket]) -> None:
        self.eat = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.upstream = upstream
        self._sockets: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = self.upstream()
            self._sockets += [client, server]
            for source, sink, is_reply in ((client, server, False), (server, client, True)):
                self._threads.append(threading.Thread(target=self._pump, args=(source, sink, is_reply)))
                self._threads[-1].start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_reply: bool) -> None:
        try:
            is_deaf = False
            while data := source.recv(65536):
                if is_reply and self.eat.is_set():
                    self.eat.clear()
                    is_deaf = True
                if not is_deaf:
                    sink.sendall(data)
        except OSError:
            return

    def close(self) -> None:
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()
        for thread in self._threads:
            thread.join(5)
