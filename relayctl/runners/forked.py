"""A process that a zygote forks: what `Process` is for one that is started here. No policy.

Its pid comes later than the order for it, and its exit status through a pipe, since only a parent may ask the kernel.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Sequence
from typing import Protocol

from relayctl.runners.cgroups import Group
from relayctl.runners.orphans import is_there, is_zombie
from relayctl.runners.process import Exit, Process, pipe_size, poll_of

_STATUS = struct.Struct(">ii")
_LONGEST_REAP_S = 2.0
PATIENCE_S = 5.0
"""How long a zygote may leave an order or a dead child alone, however busy the machine, before it counts as hung."""


class Parent(Protocol):
    """What a zygote does for the processes that it forks."""

    def order(self, number: int, fds: Sequence[int]) -> None:
        """Pass a child's ends of its channel, stdout, stderr and status on. Raises OSError."""
        ...

    has_borne: bool
    is_gone: bool

    def look(self) -> None:
        """Notice what it tells, and its end."""
        ...

    def hear(self) -> None:
        """Take the births that were told meanwhile."""
        ...

    def give_up(self, *, is_hung: bool) -> None:
        """A child that is not born would have to be killed, or nothing was heard of one for too long."""
        ...

    def last_words(self) -> bytes:
        """The end of what it has printed itself."""
        ...


class ForkedProcess(Process):
    """`pid` is 0 until `be_born`. `exit_fd` is the pipe: closing it lets the zygote bury the child."""

    __slots__ = ("_killed_at", "_ordered_at", "_parent", "_pending")

    def __init__(self, parent: Parent, number: int, group: Group | None) -> None:
        """Order it; the number is also that of its control group. Raises OSError."""
        ours, theirs = socket.socketpair()
        pipes: list[tuple[int, int]] = []
        try:
            pipes += (os.pipe() for _ in range(3))
            parent.order(number, (theirs.fileno(), *(write for _, write in pipes)))
        except BaseException:
            ours.close()
            for read, _ in pipes:
                os.close(read)
            raise
        finally:
            theirs.close()
            for _, write in pipes:
                os.close(write)
        ours.setblocking(False)
        reads = [read for read, _ in pipes]
        for read in reads:
            os.set_blocking(read, False)
        self.pid = 0
        self.group = group
        self._is_reaped = False
        self._pending: signal.Signals | None = None
        self._parent = parent
        self._ordered_at = time.monotonic()
        self._killed_at: float | None = None
        self.channel = ours
        self.outputs = reads[:2]
        self.exit_fd = reads[2]
        self.pipe_size = pipe_size(reads[0])
        self._poll = poll_of(self.outputs)

    def be_born(self, pid: int) -> None:
        """The zygote has told its pid, or the child itself."""
        self.pid = pid
        if self._pending is not None:
            number, self._pending = self._pending, None
            self.signal_group(number)

    def last_words(self) -> bytes:
        """What its zygote has printed at last, for a child that never was."""
        return self._parent.last_words() if not self.pid else b""

    def lost_its_parent(self) -> bool:
        """Whether its zygote, which had borne others, is gone."""
        self._parent.look()
        return self._parent.is_gone and self._parent.has_borne

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the whole group; before it is born, as soon as it is."""
        if self._is_reaped:
            return
        if not self.pid:
            # Its end may have been seen before the news of its birth was read.
            self._parent.hear()
        if self.pid:
            super().signal_group(number)
        else:
            self._pending = number
        if number == signal.SIGKILL:
            self._insist()

    def _insist(self) -> None:
        """A child that was killed should be gone; where it is and nobody has said so, its zygote hangs."""
        now = time.monotonic()
        if not self.pid:
            self._parent.give_up(is_hung=now >= self._ordered_at + PATIENCE_S)
        elif self._killed_at is None:
            self._killed_at = now
        elif now >= self._killed_at + PATIENCE_S and is_zombie(self.pid) and not self.has_exited():
            self._parent.give_up(is_hung=True)

    def has_exited(self) -> bool:
        """Whether its status is there, or its zygote is gone and it with it."""
        return self.exit_fd is None or bool(select.select([self.exit_fd], [], [], 0)[0])

    def reap(self) -> Exit:
        """Take the status of a process that has ended."""
        data = b""
        if self.exit_fd is not None:
            data = _status(self.exit_fd)
            os.close(self.exit_fd)
            self.exit_fd = None
        self._is_reaped = True
        if len(data) == _STATUS.size:
            code, status = _STATUS.unpack(data)
            return Exit(code=status, signal=None) if code == os.CLD_EXITED else Exit(code=None, signal=status)
        return _inherited(self.pid) if self.pid else Exit(code=None, signal=signal.SIGKILL)


def _status(fd: int) -> bytes:
    """What is in the pipe; nothing when the zygote is gone."""
    try:
        return os.read(fd, _STATUS.size)
    except OSError:
        return b""


def _inherited(pid: int) -> Exit:
    """The status of a child whose zygote has died: the kernel kills it then, and gives it to this process to reap."""
    until = time.monotonic() + _LONGEST_REAP_S
    while time.monotonic() < until:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            # The zygote's descriptors close a little before its children change hands.
            if not is_there(pid):
                break
            found = 0
        if found:
            code = os.waitstatus_to_exitcode(status)
            return Exit(code=code, signal=None) if code >= 0 else Exit(code=None, signal=-code)
        select.select([], [], [], 0.001)
    return Exit(code=None, signal=signal.SIGKILL)
