"""A road to a broker on which a test decides about each piece of a request, before it passes and before its answer does."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Way(Enum):
    """What becomes of a piece of a request."""

    PASS = "pass"
    STOP = "stop"  # it never arrives, and the road ends
    NO_ANSWER = "no answer"  # it arrives, and the road ends instead of the answer


class Turnstile:
    """A local TCP port before a server's unix socket. `decide` gets the number of each piece, from 1, and its bytes."""

    def __init__(
        self, path: str, decide: Callable[[int, bytes], Way], on_end: Callable[[], None] = lambda: None
    ) -> None:
        """`on_end` is called where a road ends, before anything else can happen on it."""
        self._path = path
        self._decide = decide
        self._on_end = on_end
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.pieces = 0
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._path)
            self._sockets += [client, server]
            mute = threading.Event()
            for run in (self._requests, self._answers):
                self._threads.append(threading.Thread(target=run, args=(client, server, mute)))
                self._threads[-1].start()

    def _requests(self, client: socket.socket, server: socket.socket, mute: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                with self._lock:
                    self.pieces += 1
                    way = self._decide(self.pieces, data)
                if way is Way.STOP:
                    self._on_end()
                    break
                if way is Way.NO_ANSWER:
                    mute.set()
                server.sendall(data)
        _shut(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, mute: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                if mute.is_set():
                    self._on_end()
                    break
                client.sendall(data)
        _shut(client, server)

    def close(self) -> None:
        for each in self._sockets:
            _shut(each)
            each.close()
        for thread in self._threads:
            thread.join(5)


def _shut(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
