"""A small HTTP server on its own thread, for probes and metrics: fixed routes, few places, every wait bounded.

Whoever is slow gives way to whoever comes: a probe finds a place however many clients dawdle. It listens on loopback
unless an address says otherwise, speaks HTTP/1.0 (one request to a connection), and has no TLS and no login: whoever
opens it further puts those before it.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from relayctl.errors import RelayError, os_reason

MAX_BODY_BYTES = 1024 * 1024
_REQUEST_WITHIN_S = 5.0
_MOST_CONNECTIONS = 8
_POLL_S = 0.1
_HANDOVER_S = 1.0
"""A thread whose connection was taken from it has long ended by then."""
_FAREWELL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as a route sees it; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a route answers."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Request], Response]


class HttpServer:
    """Serves `routes`, each a method and a path. A GET route answers HEAD too."""

    def __init__(self, address: str, routes: Mapping[tuple[str, str], Route]) -> None:
        """Bind to `HOST:PORT`; an empty host is loopback, port 0 a free one. RelayError when that cannot be had."""
        host, port = split_address(address)
        try:
            self._server = _Server((host, port), routes)
        except OSError as error:
            raise RelayError(
                f"cannot listen on {address}: {os_reason(error)}",
                help="give another address with --http (RELAYCTL_HTTP), or end what listens there",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="http", daemon=True)

    @property
    def address(self) -> str:
        """Where it listens, as `HOST:PORT`."""
        host, port = self._server.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering. Safe to repeat."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(_FAREWELL_S)
        self._server.server_close()


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[V6]:PORT` or `:PORT`."""
    host, _, port = address.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


class _Server(HTTPServer):
    request_queue_size = 32

    def __init__(self, address: tuple[str, int], routes: Mapping[tuple[str, str], Route]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.routes = routes
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._mutex = threading.Lock()
        self._awaited: dict[socket.socket, None] = {}
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The stock one asks the resolver for this machine's name, which can take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._has_place():
            with suppress(OSError):
                request.settimeout(_POLL_S)
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        self.awaits(request)
        thread = threading.Thread(target=self._answer, args=(request, client_address), name="http-client", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The machine has no room for a thread now; the place is for when it has.
            self.answers(request)
            self._places.release()
            raise

    def _has_place(self) -> bool:
        return self._places.acquire(blocking=False) or (
            self._ends_slowest() and self._places.acquire(timeout=_HANDOVER_S)
        )

    def _ends_slowest(self) -> bool:
        """End the connection that has waited longest for its client; False where all are being answered."""
        with self._mutex:
            slowest = next(iter(self._awaited), None)
            if slowest is None:
                return False
            del self._awaited[slowest]
            # Not closed: its thread does that, and until then the number of this socket stays its own.
            with suppress(OSError):
                slowest.shutdown(socket.SHUT_RDWR)
            return True

    def awaits(self, request: socket.socket) -> None:
        """From now on this connection waits for its client, to send something or to take it."""
        with self._mutex:
            self._awaited[request] = None

    def answers(self, request: socket.socket) -> bool:
        """Its client has sent all, and is owed an answer; False where the connection was ended meanwhile."""
        with self._mutex:
            is_there = request in self._awaited
            self._awaited.pop(request, None)
            return is_there

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's error."""

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001  a broken connection, which concerns nobody else
            self.handle_error(request, client_address)
        finally:
            self.answers(request)
            self.shutdown_request(request)
            self._places.release()


class _Deadlined(io.RawIOBase):
    """Reads from a socket until a moment, however slowly the bytes arrive."""

    def __init__(self, connection: socket.socket, within_s: float) -> None:
        self._connection = connection
        self._until = time.monotonic() + within_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "relayctl"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Deadlined(self.connection, _REQUEST_WITHIN_S))

    def do_GET(self) -> None:
        self._respond("GET")

    def do_HEAD(self) -> None:
        self._respond("GET")

    def do_POST(self) -> None:
        self._respond("POST")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """The stock page repeats what was sent, and leaves the status line out where the request had no version."""
        self.request_version = "HTTP/1.0"
        self._send(_plain(HTTPStatus(code)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the parent's name
        """Say nothing: a probe every second is not worth a line."""

    def _respond(self, method: str) -> None:
        path = self.path.partition("?")[0]
        routes = self.server.routes
        route = routes.get((method, path))
        if route is None:
            is_known = any(known == path for _, known in routes)
            self._send(_plain(HTTPStatus.METHOD_NOT_ALLOWED if is_known else HTTPStatus.NOT_FOUND))
            return
        length = self._length() if method == "POST" else 0
        if length is None:
            self._send(_plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(length) if length else b""
        if not self.server.answers(self.connection):
            return
        if len(body) < length:
            response = _plain(HTTPStatus.BAD_REQUEST)
        else:
            response = _outcome(route, Request(path=path, headers=headers, body=body))
        self.server.awaits(self.connection)
        self._send(response)

    def _length(self) -> int | None:
        text = self.headers.get("Content-Length", "0")
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            return None
        return int(text) if int(text) <= MAX_BODY_BYTES else None

    def _send(self, response: Response) -> None:
        self.connection.settimeout(_REQUEST_WITHIN_S)
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if getattr(self, "command", None) != "HEAD":
            self.wfile.write(response.body)


def _outcome(route: Route, request: Request) -> Response:
    try:
        return route(request)
    except Exception:  # noqa: BLE001  the worker behind this server must not feel it
        return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)


def _plain(status: HTTPStatus) -> Response:
    return Response(status=status.value, body=f"{status.phrase.lower()}\n".encode())
