"""A worker's own road to the broker, which can be cut, slowed down, made deaf, or half closed."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from support.broker import Proxy


class Link:
    """One connection through the road: two sockets and a thread for each direction."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far
        self.is_deaf = False
        self._left = 2
        self._lock = threading.Lock()

    def shut(self) -> None:
        """End it: both threads come to their end, and the last of them closes the sockets."""
        for each in (self.near, self.far):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def half_close(self) -> None:
        """No more answers come; what is asked still arrives."""
        self.is_deaf = True
        with suppress(OSError):
            self.near.shutdown(socket.SHUT_WR)

    def leave(self) -> bool:
        """One direction has ended; whether it was the last."""
        self.shut()
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self.near.close()
            self.far.close()
        return is_last


class Road(Proxy):
    """`Proxy` with a will of its own: `cut`, `deafen`, `half_close`, `slow`, and `heal` for all of them."""

    def __init__(self, path: str) -> None:
        self._links: set[Link] = set()
        self._guard = threading.Lock()
        self._is_cut = False
        self._delay_s = 0.0
        self._never = threading.Event()

        def upstream() -> socket.socket:
            made = socket.socket(socket.AF_UNIX)
            try:
                made.connect(path)
            except OSError:
                made.close()
                raise
            return made

        super().__init__(upstream)

    def cut(self) -> None:
        """End every connection, and let no other one through."""
        self._is_cut = True
        for link in self._all():
            link.shut()

    def deafen(self) -> None:
        """From now on the present connections pass on what is asked and swallow what is answered."""
        for link in self._all():
            link.is_deaf = True

    def half_close(self) -> None:
        """End the answers' direction of the present connections."""
        for link in self._all():
            link.half_close()

    def slow(self, delay_s: float) -> None:
        """Hold every answer for that long."""
        self._delay_s = delay_s

    def heal(self) -> None:
        """Let everything through again. A deaf connection stays deaf until its owner gives it up."""
        self._is_cut, self._delay_s = False, 0.0

    def close(self) -> None:
        self._never.set()
        self.cut()
        super().close()

    def _all(self) -> list[Link]:
        with self._guard:
            return list(self._links)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._is_cut:
                    raise ConnectionRefusedError
                far = self.upstream()
            except OSError:
                near.close()
                continue
            link = Link(near, far)
            with self._guard:
                self._links.add(link)
            for is_reply in (False, True):
                thread = threading.Thread(target=self._carry, args=(link, is_reply))
                self._threads.append(thread)
                thread.start()
            # Only those that live are joined in the end.
            self._threads = [thread for thread in self._threads if thread.is_alive()]

    def _carry(self, link: Link, is_reply: bool) -> None:
        source, sink = (link.far, link.near) if is_reply else (link.near, link.far)
        with suppress(OSError):
            while data := source.recv(65536):
                if is_reply and self._delay_s:
                    self._never.wait(self._delay_s)
                if not (is_reply and link.is_deaf):
                    sink.sendall(data)
        if link.leave():
            with self._guard:
                self._links.discard(link)
