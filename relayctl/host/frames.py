"""Frames of the control socket: one JSON object per line, with a version, within a size and within a time.

A peer that sends nothing, or a byte at a time, or no end of a line, costs at most one deadline.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from typing import Any

from relayctl.errors import RelayError

VERSION = 1


class FrameError(RelayError):
    """A frame cannot be used. The message is the reason on the wire."""


class Frames:
    """Reads and writes the frames of one connection."""

    def __init__(self, connection: socket.socket, *, limit: int) -> None:
        """`limit` is the most bytes that a frame read here may have."""
        self._connection = connection
        self._limit = limit
        self._buffer = bytearray()

    def read(self, within_s: float | None) -> dict[str, Any] | None:
        """The next frame, or None when the peer has closed. Raises FrameError, TimeoutError or OSError."""
        deadline = None if within_s is None else time.monotonic() + within_s
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > self._limit:
                raise FrameError("too-large")
            self._connection.settimeout(_left(deadline))
            data = self._connection.recv(65536)
            if not data:
                return None
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if len(line) > self._limit:
            raise FrameError("too-large")
        return _parsed(line)

    def write(self, document: Mapping[str, Any], within_s: float) -> None:
        """Send one frame. Raises TimeoutError when the peer does not take it in time, or OSError."""
        self._connection.settimeout(within_s)
        # sendall measures the whole frame against the timeout, so a peer that reads slowly cannot stretch it.
        self._connection.sendall(frame(document))

    def is_closed_by_peer(self) -> bool:
        """Whether the peer has gone; what it may have sent beyond its request is ignored."""
        try:
            self._connection.setblocking(False)
            return self._connection.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def frame(document: Mapping[str, Any]) -> bytes:
    """The bytes of a frame."""
    return json.dumps({"v": VERSION, **document}, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise FrameError("malformed") from None
    if not isinstance(document, dict):
        raise FrameError("malformed")
    if document.get("v") != VERSION:
        raise FrameError("version")
    return document


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
