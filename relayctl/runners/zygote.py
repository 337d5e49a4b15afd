"""The worker's side of a zygote: orders children from it, hears of their births, notices its end.

One per build of `isolation: fresh`. Which children are wanted, and what their ends mean, is decided by others.
"""

from __future__ import annotations

import math
import selectors
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from relayctl.runners.build import Build
from relayctl.runners.cgroups import Group
from relayctl.runners.channel import Channel, ChannelBroken
from relayctl.runners.forked import ForkedProcess
from relayctl.runners.orphans import bury
from relayctl.runners.process import Process

_ORDER = struct.Struct(">I")
_READ_SIZE = 64 * 1024
_LONGEST_WORDS = 2048
_MOST_UNBURIED = 64
GRACE_S = 3.0
"""How long a zygote that was told to go may take after its last child has gone."""


class Zygote:
    """`on_born` hears of (number, pid), `on_unshared` why every child imports the handlers itself.

    `alarm` is the monotonic instant at which `wake` wants to be called.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        build: Build,
        process: Process,
        *,
        idle_s: float,
        on_born: Callable[[int, int], None],
        on_unshared: Callable[[Build, str], None],
        on_gone: Callable[[Zygote], None],
    ) -> None:
        self._selector = selector
        self.build = build
        self.process = process
        self._channel = Channel(process.channel)
        self._idle_s = idle_s
        self._on_born = on_born
        self._on_unshared = on_unshared
        self._on_gone = on_gone
        self._unborn: dict[int, ForkedProcess] = {}
        self._released: deque[int] = deque(maxlen=_MOST_UNBURIED)
        self._children = 0
        self.has_borne = False
        self._words = b""
        self.alarm = math.inf
        self.is_open = True
        self.is_gone = False
        self._watched: set[int] = set()
        self._watch(process.channel.fileno(), self._on_channel)
        for which in (0, 1):
            self._watch(process.outputs[which], partial(self._on_output, which))
        if process.exit_fd is not None:
            self._watch(process.exit_fd, self._on_exit)

    def fork(self, number: int, group: Group | None) -> ForkedProcess:
        """Order a child; it begins when the zygote has come so far. Raises OSError."""
        process = ForkedProcess(self, number, group)
        self._unborn[number] = process
        self._children += 1
        self.alarm = math.inf
        return process

    def release(self, number: int, pid: int, now: float) -> None:
        """That child is gone."""
        self._unborn.pop(number, None)
        self._released.append(pid)
        self._children -= 1
        if not self._children:
            self.alarm = now + (self._idle_s if self.is_open else GRACE_S)

    def leave(self, now: float) -> None:
        """Order no more; it goes once its children have."""
        if self.is_open:
            self.is_open = False
            self._channel.say_no_more()
            self.alarm = math.inf if self._children else now + GRACE_S

    def wake(self, now: float) -> None:
        """The alarm has come."""
        if self.is_open:
            self.leave(now)
        else:
            self.kill()
            self.alarm = now + 1.0

    def kill(self) -> None:
        """End it now, and with it the children that it has."""
        self.process.signal_group(signal.SIGKILL)

    def look(self) -> None:
        """Notice what it tells and its end, where nobody waits for its descriptors."""
        self.hear()
        if self._watched and self.process.has_exited():
            self._on_exit(0)

    def order(self, number: int, fds: Sequence[int]) -> None:
        """Pass a child's ends of its channel, stdout, stderr and status on. Raises OSError."""
        socket.send_fds(self.process.channel, [_ORDER.pack(number)], list(fds))

    def hear(self) -> None:
        """Take the births that were told meanwhile."""
        self._on_channel(0)

    def give_up(self, *, is_hung: bool) -> None:
        """A child that is not born would have to be killed, or nothing was heard of one for too long."""
        # Before it has borne any it hangs in an import, and all that wait for it hang with it.
        if is_hung or not self.has_borne:
            self.kill()

    def last_words(self) -> bytes:
        """The end of what it has printed itself."""
        for which in (0, 1):
            self._read(which)
        return self._words

    def _read(self, which: int) -> None:
        fd = self.process.outputs[which] if self.process.outputs else -1
        if fd not in self._watched:
            return
        data = self.process.read(which, _READ_SIZE)
        if data:
            self._words = (self._words + data)[-_LONGEST_WORDS:]
        elif data is not None:
            self._unwatch(fd)

    def _on_output(self, which: int, _mask: int) -> None:
        self._read(which)

    def _on_channel(self, _mask: int) -> None:
        if self.process.channel.fileno() not in self._watched:
            return
        try:
            for frame in self._channel.receive():
                self._take(frame)
        except ChannelBroken:
            self.kill()
            self._channel.is_open = False
        if not self._channel.is_open:
            self._unwatch(self.process.channel.fileno())

    def _take(self, frame: list[Any]) -> None:
        match frame:
            case ["born", int(number), int(pid)]:
                self.has_borne = True
                process = self._unborn.pop(number, None)
                if process is not None:
                    process.be_born(pid)
                    self._on_born(number, pid)
            case ["unshared", str(reason)]:
                self._on_unshared(self.build, reason)
            case _:
                raise ChannelBroken

    def _on_exit(self, _mask: int) -> None:
        self._on_channel(0)
        self.last_words()
        self.kill()
        for fd in list(self._watched):
            self._unwatch(fd)
        self.process.reap()
        self.process.close()
        for pid in self._released:
            bury(pid)  # what it has not come to do itself is this process's child now
        self.is_open = False
        self.is_gone = True
        self.alarm = math.inf
        self._on_gone(self)

    def _watch(self, fd: int, callback: Callable[[int], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, callback)
        self._watched.add(fd)

    def _unwatch(self, fd: int) -> None:
        if fd in self._watched:
            self._watched.discard(fd)
            self._selector.unregister(fd)
