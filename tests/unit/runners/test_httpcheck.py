"""One check against real sockets: every way in which a port can answer or not."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from relayctl.runners.httpcheck import HttpCheck


@contextmanager
def answering(answer: bytes | None, host: str = "127.0.0.1") -> Iterator[tuple[int, list[bytes]]]:
    """A port that gives everybody this answer, or stays silent; and what it was asked."""
    asked: list[bytes] = []
    over = threading.Event()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                asked.append(client.recv(4096))
                if answer is None:
                    over.wait(10)
                else:
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], asked
        finally:
            over.set()
            thread.join()


def check(port: int, path: str = "/up", timeout_s: float = 5.0) -> str:
    """Ask to the end; why it failed, or empty."""
    done: list[str] = []
    with selectors.DefaultSelector() as selector:
        request = HttpCheck(selector, port, path, timeout_s=timeout_s, now=time.monotonic(), on_done=done.append)
        request.begin()
        while not done:
            for key, mask in selector.select(max(0.0, request.alarm - time.monotonic())):
                key.data(mask)
            request.tick(time.monotonic())
        assert len(selector.get_map()) == 0
    assert len(done) == 1
    return done[0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", ""),
        (b"HTTP/1.0 399\r\n\r\n", ""),
        (b"HTTP/1.1 204 No Content\n", ""),
        (b"HTTP/1.1 500 Oops\r\n\r\n", "/up answered 500"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "/up answered 404"),
        (b"", "port {port} closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH\r\n", "port {port} does not speak HTTP: 'SSH-2.0-OpenSSH\\r'"),
        (b"HTTP/1.1 \xff\x00\n", "port {port} does not speak HTTP: 'HTTP/1.1 \\\\xff\\x00'"),
        (b"x" * 5000, "port {port} does not speak HTTP: '" + "x" * 60 + "'"),
    ],
)
def test_the_status_line_decides(answer: bytes, reason: str) -> None:
    with answering(answer) as (port, asked):
        assert check(port) == reason.format(port=port)
    assert asked[0].startswith(b"GET /up HTTP/1.1\r\nHost: localhost:")


def test_silence_ends_at_its_timeout_and_nobody_at_once() -> None:
    with answering(None) as (port, _):
        assert check(port, timeout_s=0.1) == "no answer within 0.1s"
    assert check(port) == f"nothing listens on port {port}"


def test_a_path_cannot_add_to_the_request() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n") as (port, asked):
        assert check(port, "/a b?c=d&e=%20\r\nX-More: 1/é") == ""
    assert asked[0].splitlines()[0] == b"GET /a%20b?c=d&e=%20%0D%0AX-More:%201/%C3%A9 HTTP/1.1"


def test_one_that_listens_on_the_other_loopback_is_found() -> None:
    try:
        with answering(b"HTTP/1.1 200 OK\r\n\r\n", "::1") as (port, _):
            assert check(port) == ""
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
