"""One HTTP request to a port of this machine, without waiting: is a replica well, and if not, why not.

Driven by the caller's selector and an alarm. It reads the status line and nothing more.
"""

from __future__ import annotations

import errno
import math
import os
import selectors
import socket
from collections.abc import Callable
from urllib.parse import quote

_HOSTS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_LONGEST_LINE = 1024
_MOST_SHOWN = 60
_WELL = range(200, 400)
_KEPT = "/%?&=:@!$'()*+,;~-._"
"""What of a path is sent as it is written; the rest is escaped, line ends above all."""


class HttpCheck:
    """A request under way. `on_done` is called once, with why it failed, empty where it did not."""

    __slots__ = ("_deadline", "_hosts", "_on_done", "_path", "_port", "_received", "_selector", "_socket", "_timeout_s")

    def __init__(
        self,
        selector: selectors.BaseSelector,
        port: int,
        path: str,
        *,
        timeout_s: float,
        now: float,
        on_done: Callable[[str], None],
    ) -> None:
        self._selector = selector
        self._port = port
        self._path = quote(path, safe=_KEPT)
        self._timeout_s = timeout_s
        self._deadline = now + timeout_s
        self._on_done = on_done
        self._hosts = list(_HOSTS)
        self._received = b""
        self._socket: socket.socket | None = None

    @property
    def alarm(self) -> float:
        """The monotonic instant at which `tick` wants to be called."""
        return math.inf if self._socket is None else self._deadline

    def begin(self) -> None:
        """Send it. Apart from the constructor, since it may be done at once."""
        self._connect()

    def tick(self, now: float) -> None:
        """The alarm may have come."""
        if self._socket is not None and now >= self._deadline:
            self._done(f"no answer within {self._timeout_s:g}s")

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self._close()

    def _connect(self) -> None:
        family, host = self._hosts.pop(0)
        try:
            fresh = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._failed(error.errno or 0)
            return
        fresh.setblocking(False)
        self._socket = fresh
        code = fresh.connect_ex((host, self._port))
        if code in (0, errno.EINPROGRESS):
            self._selector.register(fresh, selectors.EVENT_WRITE, self._on_connected)
        else:
            self._failed(code)

    def _on_connected(self, _mask: int) -> None:
        sock = self._socket
        if sock is None:
            return
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._failed(code)
            return
        self._selector.modify(sock, selectors.EVENT_READ, self._on_readable)
        lines = (f"GET {self._path} HTTP/1.1", f"Host: localhost:{self._port}", "User-Agent: relayctl")
        request = "\r\n".join((*lines, "Accept: */*", "Connection: close", "", "")).encode("ascii")
        try:
            sock.send(request)
        except OSError as error:
            self._failed(error.errno or 0)

    def _failed(self, code: int) -> None:
        """Whoever listens may do so in the other family of addresses only."""
        is_silent = code in (errno.ECONNREFUSED, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETUNREACH)
        if self._hosts and is_silent:
            self._close()
            self._connect()
        elif is_silent:
            self._done(f"nothing listens on port {self._port}")
        else:
            self._done(f"port {self._port}: {os.strerror(code)}")

    def _on_readable(self, _mask: int) -> None:
        sock = self._socket
        if sock is None:
            return
        try:
            data = sock.recv(_LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError as error:
            self._done(f"port {self._port}: {error.strerror}")
            return
        self._received += data
        if not data or b"\n" in self._received or len(self._received) > _LONGEST_LINE:
            self._done(self._judged(self._received.partition(b"\n")[0]))

    def _judged(self, line: bytes) -> str:
        if not line:
            return f"port {self._port} closed the connection without an answer"
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            return f"port {self._port} does not speak HTTP: {line[:_MOST_SHOWN].decode('ascii', 'backslashreplace')!r}"
        return "" if int(words[1]) in _WELL else f"{self._path} answered {int(words[1])}"

    def _done(self, reason: str) -> None:
        self._close()
        self._on_done(reason)

    def _close(self) -> None:
        if self._socket is not None:
            try:
                self._selector.unregister(self._socket)
            except KeyError:
                pass
            self._socket.close()
            self._socket = None
