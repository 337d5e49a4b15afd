"""The worker's end of a child's channel: frames out without blocking, frames in without trust.

Out: two lengths of four bytes, a JSON head, the event as it is. In: one length, a JSON list.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

_OUT = struct.Struct(">II")
_IN = struct.Struct(">I")
MAX_FRAME = 64 * 1024
_SMALL = 32 * 1024
_WELL, _DONE = b'["end",', b',true,null,"",true]'
"""Around the number of a run that went well, as children write it: most frames, and read without the decoder."""
_decode = json.JSONDecoder().decode
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class ChannelBroken(Exception):
    """What came from the child is no frame."""


class Channel:
    """`is_open` turns False when the child's end is closed."""

    __slots__ = ("_backlog", "_buffer", "_socket", "is_open")

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._buffer = b""
        self._backlog = memoryview(b"")
        self.is_open = True

    @property
    def has_backlog(self) -> bool:
        """Whether something still waits to be sent."""
        return len(self._backlog) > 0

    def send(self, sequence: int, handler: str, variables: Mapping[str, str], event: bytes) -> bool:
        """Send one run, or what fits of it now; `flush` sends the rest. False when nobody can have got any of it."""
        head = _encode((sequence, handler, variables)).encode()
        data = b"".join((_OUT.pack(len(head), len(event)), head, event))
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        if sent < len(data):
            self._backlog = memoryview(data)[sent:]
        return True

    def flush(self) -> None:
        """Send what fits. A child that closed its end is noticed by `receive` or by its exit."""
        while self._backlog:
            try:
                sent = self._socket.send(self._backlog)
            except BlockingIOError:
                return
            except OSError:
                self._backlog = memoryview(b"")
                return
            self._backlog = self._backlog[sent:]

    def receive(self) -> list[list[Any]]:
        """Every whole frame that has arrived. Raises ChannelBroken for anything else."""
        frames: list[list[Any]] = []
        try:
            data = self._socket.recv(_SMALL)
        except BlockingIOError:
            return frames
        except OSError:
            data = b""
        if not data:
            self.is_open = False
            return frames
        buffer = self._buffer + data if self._buffer else data
        start = 0
        while len(buffer) - start >= _IN.size:
            (size,) = _IN.unpack_from(buffer, start)
            if size > MAX_FRAME:
                raise ChannelBroken
            end = start + _IN.size + size
            if len(buffer) < end:
                break
            frames.append(_decoded(buffer[start + _IN.size : end]))
            start = end
        self._buffer = buffer[start:]
        return frames

    def say_no_more(self) -> None:
        """Tell the child that no run will follow."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def _decoded(data: bytes) -> list[Any]:
    if data.startswith(_WELL) and data.endswith(_DONE):
        sequence = data[len(_WELL) : -len(_DONE)]
        if sequence.isdigit():
            return ["end", int(sequence), True, None, "", True]
    try:
        frame = _decode(data.decode())
    except ValueError:
        raise ChannelBroken from None
    if not isinstance(frame, list) or not frame:
        raise ChannelBroken
    return frame
