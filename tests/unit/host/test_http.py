"""The small HTTP server: routes, bounds, and clients that mean no good."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from support.broker import await_fact

from relayctl.errors import RelayError
from relayctl.host import http
from relayctl.host.http import HttpServer, Request, Response, split_address


def _boom(_request: Request) -> Response:
    raise ZeroDivisionError("hunter2")


def _echo(request: Request) -> Response:
    seen = {"path": request.path, "mark": request.headers.get("x-mark"), "size": len(request.body)}
    return Response(status=202, body=json.dumps(seen).encode(), content_type="application/json")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    made = HttpServer(":0", {("GET", "/echo"): _echo, ("POST", "/hook"): _echo, ("GET", "/boom"): _boom})
    made.start()
    yield made
    made.stop()


def _connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(split_address(server.address), timeout=10)


def _ask(server: HttpServer, data: bytes) -> tuple[int, bytes]:
    with _connect(server) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_routes_get_what_was_sent(server: HttpServer) -> None:
    status, body = _ask(server, b"GET /echo?x=1 HTTP/1.1\r\nHost: h\r\nX-Mark: m\r\n\r\n")
    assert (status, json.loads(body)) == (202, {"path": "/echo", "mark": "m", "size": 0})
    status, body = _ask(server, b"POST /hook HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
    assert (status, json.loads(body)["size"]) == (202, 5)
    assert _ask(server, b"HEAD /echo HTTP/1.0\r\n\r\n") == (202, b"")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /none HTTP/1.0\r\n\r\n", 404),
        (b"GET /../etc/passwd HTTP/1.0\r\n\r\n", 404),
        (b"GET /hook HTTP/1.0\r\n\r\n", 405),
        (b"POST /echo HTTP/1.0\r\n\r\n", 405),
        (b"DELETE /echo HTTP/1.0\r\n\r\n", 501),
        (b"POST /hook HTTP/1.0\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /hook HTTP/1.0\r\nContent-Length: -1\r\n\r\n", 413),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.0\r\n\r\n", 414),
    ],
    ids=["unknown", "dots", "get-of-post", "post-of-get", "method", "large", "negative", "nonsense", "long"],
)
def test_what_is_not_served(server: HttpServer, data: bytes, status: int) -> None:
    assert _ask(server, data)[0] == status


def test_a_route_that_fails_says_nothing_of_itself(server: HttpServer, capfd: pytest.CaptureFixture[str]) -> None:
    assert _ask(server, b"GET /boom HTTP/1.0\r\n\r\n") == (500, b"internal server error\n")
    assert capfd.readouterr().err == ""


def test_silent_clients_hold_their_places_for_a_while_only(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_REQUEST_WITHIN_S", 0.4)
    silent = [_connect(server) for _ in range(http._MOST_CONNECTIONS)]
    places = server._server._places
    await_fact(lambda: places._value == 0, "not all are served")
    silent[0].sendall(b"GET /ec")
    await_fact(lambda: places._value == http._MOST_CONNECTIONS, "a slow client holds its place")
    for connection in silent:
        connection.close()


_SLOW = [b"", b"GET /ec", b"GET /echo HTTP/1.0\r\nX-Mark", b"POST /hook HTTP/1.0\r\nContent-Length: 900000\r\n\r\nbody"]


@pytest.mark.parametrize("sent", _SLOW, ids=["silent", "request-line", "headers", "body"])
def test_slow_clients_give_way_to_a_probe(server: HttpServer, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(http, "_REQUEST_WITHIN_S", 60.0)
    slow = [_connect(server) for _ in range(http._MOST_CONNECTIONS * 2)]
    for connection in slow:
        with suppress(OSError):
            connection.sendall(sent)
    answers = [_ask(server, b"GET /echo HTTP/1.0\r\nX-Mark: probe\r\n\r\n") for _ in range(20)]
    assert {(status, json.loads(body)["mark"]) for status, body in answers} == {(202, "probe")}
    for connection in slow:
        connection.close()


def test_one_that_does_not_take_its_answer_gives_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_REQUEST_WITHIN_S", 60.0)
    large = Response(body=b"x" * (64 << 20))
    made = HttpServer(":0", {("GET", "/large"): lambda _: large, ("GET", "/echo"): _echo})
    made.start()
    deaf = [_connect(made) for _ in range(http._MOST_CONNECTIONS)]
    for connection in deaf:
        connection.sendall(b"GET /large HTTP/1.0\r\n\r\n")
    await_fact(lambda: made._server._places._value == 0, "not all are served")
    assert _ask(made, b"GET /echo HTTP/1.0\r\n\r\n")[0] == 202
    for connection in deaf:
        connection.close()
    made.stop()


def test_whoever_is_being_answered_keeps_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_REQUEST_WITHIN_S", 60.0)
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def hold(request: Request) -> Response:
        begun.release()
        go_on.wait(30)
        return _echo(request)

    made = HttpServer(":0", {("GET", "/hold"): hold, ("GET", "/echo"): _echo})
    made.start()
    held = [_connect(made) for _ in range(http._MOST_CONNECTIONS)]
    for connection in held:
        connection.sendall(b"GET /hold HTTP/1.0\r\n\r\n")
    assert all(begun.acquire(timeout=10) for _ in held)
    assert _ask(made, b"GET /echo HTTP/1.0\r\n\r\n")[0] == 503
    go_on.set()
    assert [connection.recv(12) for connection in held] == [b"HTTP/1.0 202"] * len(held)
    for connection in held:
        connection.close()
    made.stop()


def test_places_come_back_where_there_was_no_room_for_a_thread(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_room)
        for _ in range(http._MOST_CONNECTIONS + 1):
            with _connect(server) as connection:
                assert connection.recv(1) == b""
    assert server._server._places._value == http._MOST_CONNECTIONS
    assert _ask(server, b"GET /echo HTTP/1.0\r\n\r\n")[0] == 202


def test_a_body_that_ends_early_reaches_no_route(server: HttpServer) -> None:
    with _connect(server) as connection:
        connection.sendall(b"POST /hook HTTP/1.0\r\nContent-Length: 50\r\n\r\nhello")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65536).startswith(b"HTTP/1.0 400 ")


def test_an_address_in_use_is_an_error_with_a_way_out(server: HttpServer) -> None:
    with pytest.raises(RelayError, match="cannot listen on") as taken:
        HttpServer(server.address, {})
    assert "--http" in (taken.value.help or "")


def test_it_listens_on_loopback_unless_told_otherwise(server: HttpServer) -> None:
    assert server.address.startswith("127.0.0.1:")
    assert split_address("[::1]:9100") == ("::1", 9100)
    assert split_address("0.0.0.0:80") == ("0.0.0.0", 80)


def test_a_stopped_server_is_gone() -> None:
    made = HttpServer("127.0.0.1:0", {})
    made.start()
    address = made.address
    made.stop()
    made.stop()
    with pytest.raises(OSError):
        socket.create_connection(split_address(address), timeout=1)
