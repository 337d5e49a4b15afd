"""Makes a zygote of a Python child: a process with one thread that forks a clean child for every order it gets.

Standard library only, and nothing of the package it ships with; Python 3.8 and later, Linux only. It tells pids and
exit statuses; who is killed, and why, the worker decides. A dead child is left unburied until the worker has let go of
it, so that its pid cannot mean another process meanwhile.
"""

# Plain calls cost less than paths as objects.
# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import array
import fcntl
import gc
import os
import select
import signal
import socket
import stat
import struct
import sys
from typing import Any, Callable  # noqa: UP035 - also for Python 3.8

ORDER = struct.Struct(">I")
"""The number of the child; with it come its channel, its stdout and stderr, and the pipe for its exit status."""
DESCRIPTORS = 4
STATUS = struct.Struct(">ii")
LENGTH = struct.Struct(">I")
MARK = "RELAY_CHILD"


class Zygote:
    """The loop. `serve` returns in the children only, with the descriptor of their channel.

    `die_with` makes the kernel end a process together with its parent, `enter` takes the child of a number to the
    control group that waits for it.
    """

    def __init__(self, control: socket.socket, die_with: Callable[[int], None], enter: Callable[[int], None]) -> None:
        self.control = control
        self.die_with = die_with
        self.enter = enter
        self.pid = os.getpid()
        self.living: dict[int, int] = {}
        self.dead: dict[int, int] = {}
        self.mark = Mark()
        self.poll = select.poll()
        self.poll.register(control.fileno(), select.POLLIN)
        self.wake, self.waker = os.pipe()
        for fd in (self.wake, self.waker):
            os.set_blocking(fd, False)
        self.poll.register(self.wake, select.POLLIN)
        self.action = signal.signal(signal.SIGCHLD, do_nothing)
        self.wakeup = signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)

    def serve(self, tell: Any) -> int:
        """Fork for each order until no more come and all children are gone. `tell` sends a frame to the worker."""
        # What is there now stays for good: children that never look at it share it.
        gc.collect()
        gc.freeze()
        is_wanted = True
        while is_wanted or self.living or self.dead:
            for fd, _ in self.poll.poll():
                if fd == self.wake:
                    drain(fd)
                elif fd != self.control.fileno():
                    self.bury(fd)
                else:
                    order = self.take()
                    if order is None:
                        is_wanted = False
                        self.poll.unregister(fd)
                        continue
                    channel = self.bear(*order, tell)
                    if channel is not None:
                        return channel
            self.note_ends()
        os._exit(0)

    def take(self) -> tuple[int, list[int]] | None:
        fds = array.array("i")
        try:
            data, extra, _, _ = self.control.recvmsg(ORDER.size, socket.CMSG_SPACE(DESCRIPTORS * fds.itemsize))
        except OSError:
            return None
        for level, kind, content in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        if len(data) < ORDER.size or len(fds) != DESCRIPTORS:
            return None
        return ORDER.unpack(data)[0], list(fds)

    def bear(self, number: int, fds: list[int], tell: Any) -> int | None:
        """Fork. The descriptor of the child's channel in the child, None in the zygote."""
        try:
            pid = os.fork()
        except OSError as error:
            # The pipe for its status closes without one, which the worker takes for a child that never was.
            print(f"no child could be forked: {error.strerror}", file=sys.stderr, flush=True)
            for fd in fds:
                os.close(fd)
            return None
        if pid == 0:
            self.become_child(number, fds)
            return fds[0]
        for fd in fds[:3]:
            os.close(fd)
        self.living[pid] = fds[3]
        tell(["born", number, pid])
        return None

    def become_child(self, number: int, fds: list[int]) -> None:
        # First of all: a zygote that is killed now never tells, and nobody would know whose this process group was.
        frame = b'["born",%d]' % os.getpid()
        os.write(fds[0], LENGTH.pack(len(frame)) + frame)
        self.die_with(self.pid)
        os.setsid()
        signal.set_wakeup_fd(self.wakeup)
        signal.signal(signal.SIGCHLD, self.action)
        os.dup2(fds[1], 1)
        os.dup2(fds[2], 2)
        for fd in (*fds[1:], *self.living.values(), *self.dead, self.wake, self.waker):
            os.close(fd)
        self.enter(number)
        self.mark.set(number)
        # The `random` module seeds itself anew in a fork; others do not.
        seeded = getattr(sys.modules.get("numpy.random"), "seed", None)
        if seeded is not None:
            seeded()

    def note_ends(self) -> None:
        """Tell the status of children that have ended, and leave them there."""
        for pid, fd in list(self.living.items()):
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                continue
            del self.living[pid]
            self.dead[fd] = pid
            try:
                os.write(fd, STATUS.pack(found.si_code, found.si_status))
            except OSError:
                pass  # the worker has let go of it already; poll says so
            self.poll.register(fd, 0)

    def bury(self, fd: int) -> None:
        """The worker has closed its end, so it signals that child no more."""
        self.poll.unregister(fd)
        os.close(fd)
        os.waitpid(self.dead.pop(fd), 0)


class Mark:
    """The number in the marking that all descendants of a child carry.

    A fork shows the environment that its parent's program was started with, and a descendant that is forked from it
    and leaves its session would be known by nothing else: so the number is written over where the kernel looks.
    """

    def __init__(self) -> None:
        self.prefix, _, number = os.environ.get(MARK, "").rpartition(".")
        self.width = len(number)
        self.address = 0
        try:
            import ctypes

            self.move = ctypes.memmove
            with open("/proc/self/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            start, end = int(fields[47]), int(fields[48])
            place = ctypes.string_at(start, end - start).find(os.fsencode(f"{MARK}={self.prefix}.{number}") + b"\0")
            if place >= 0 and number:
                self.address = start + place + len(os.fsencode(f"{MARK}={self.prefix}."))
        except (ImportError, OSError, ValueError, IndexError):
            pass

    def set(self, number: int) -> None:
        text = f"{number:0{self.width}d}"
        os.environ[MARK] = f"{self.prefix}.{text}"
        if self.address and len(text) == self.width:
            self.move(self.address, text.encode(), self.width)


def do_nothing(*_: Any) -> None:
    """For SIGCHLD, which only has to interrupt the wait."""


def drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def descriptors() -> dict[int, tuple[int, int]]:
    """What is open, with what tells files apart."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            seen = os.fstat(int(name))
        except OSError:
            continue
        found[int(name)] = (seen.st_dev, seen.st_ino)
    return found


def obstacle(before: dict[int, tuple[int, int]], has_children: bool) -> str:
    """Why what was imported since `before` must not be shared by forks; empty when it may be."""
    if len(os.listdir("/proc/self/task")) > 1:
        return "importing them starts threads"
    if has_children:
        return "importing them starts processes"
    if any(before.get(fd) != file and is_shared_state(fd) for fd, file in descriptors().items()):
        return "importing them opens connections or files"
    return ""


def is_shared_state(fd: int) -> bool:
    """Whether two processes that hold this descriptor would get in each other's way."""
    try:
        kind = os.fstat(fd).st_mode
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    except OSError:
        return False
    if stat.S_ISCHR(kind):
        return False
    if stat.S_ISREG(kind):
        # Readers share a position, so only one that appends is safe; a database is open for both.
        return not flags & os.O_APPEND
    return True
