"""One operating-system process with its output pipes: start, signals to its group, exit status. No policy.

The process leads its own session and group, so a terminal's Ctrl-C does not reach it, and the group can be killed
whole. On Linux the kernel ends it together with the thread that started it: that thread must live as long as the pool.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relayctl.runners.cgroups import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a process ended: a code, or the signal that ended it."""

    code: int | None
    signal: int | None


class Process:
    """A started child; `channel` is our end of its private socket pair, `exit_fd` is readable once it has ended."""

    __slots__ = ("_is_reaped", "_poll", "_popen", "channel", "exit_fd", "group", "outputs", "pid", "pipe_size")

    def __init__(
        self,
        argv: Sequence[str],
        channel_at: int,
        directory: Path,
        environ: Mapping[str, str],
        stdin: bytes | None,
        group: Group | None = None,
    ) -> None:
        """Start `argv` with the number of the channel's descriptor put in at index `channel_at`. Raises OSError.

        `stdin` is what the child will find on standard input; it sits in a file, so nobody waits for it to be read.
        `group` is the control group that it will enter, and that is killed with it.
        """
        ours, theirs = socket.socketpair()
        reads: list[int] = []
        writes: list[int] = []
        source = subprocess.DEVNULL
        try:
            for _ in range(2):
                read, write = os.pipe()
                reads.append(read)
                writes.append(write)
                os.set_blocking(read, False)
            if stdin is not None:
                source = _file_with(stdin)
            command = [*argv[:channel_at], str(theirs.fileno()), *argv[channel_at:]]
            self._popen = subprocess.Popen(
                command,
                stdin=source,
                stdout=writes[0],
                stderr=writes[1],
                cwd=directory,
                env=environ,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            for fd in reads:
                os.close(fd)
            raise
        finally:
            theirs.close()
            if source >= 0:
                os.close(source)
            for fd in writes:
                os.close(fd)
        ours.setblocking(False)
        self.pid = self._popen.pid
        self.group = group
        self._is_reaped = False
        self.channel: socket.socket = ours
        self.outputs = reads
        self.pipe_size = pipe_size(reads[0])
        self._poll = poll_of(reads)
        self.exit_fd = _exit_descriptor(self.pid)

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the whole group. Safe until `reap`: an unreaped leader keeps its pid from being used again.

        SIGKILL is for all of its control group, wherever in it they are.
        """
        if number == signal.SIGKILL and self.group is not None:
            self.group.kill()
        if self._is_reaped:
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # on macOS a group of zombies answers EPERM

    def has_exited(self) -> bool:
        """Whether it has ended; it stays a zombie until `reap`."""
        if not hasattr(os, "waitid"):
            return self._popen.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def reap(self) -> Exit:
        """Take the status of a process that has ended."""
        code = self._popen.wait()
        self._is_reaped = True
        return Exit(code=code, signal=None) if code >= 0 else Exit(code=None, signal=-code)

    def read(self, which: int, size: int) -> bytes | None:
        """What is there of stdout (0) or stderr (1): b"" at the end, None when there is nothing yet."""
        try:
            return os.read(self.outputs[which], size)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def unread(self) -> list[int]:
        """Which of stdout (0) and stderr (1) have something, or have ended: one question, where two reads cost more."""
        return [self.outputs.index(fd) for fd, _ in self._poll.poll(0)] if self.outputs else []

    def be_born(self, pid: int) -> None:
        """Its pid has been told, where it was not known from the start."""

    def last_words(self) -> bytes:
        """What was printed at last in its stead, if it could not do so itself."""
        return b""

    def lost_its_parent(self) -> bool:
        """Whether it ended because somebody who was to start it did."""
        return False

    def close(self) -> None:
        """Close our descriptors."""
        self.channel.close()
        for fd in self.outputs:
            os.close(fd)
        self.outputs = []
        if self.exit_fd is not None:
            os.close(self.exit_fd)
            self.exit_fd = None


def _exit_descriptor(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _file_with(content: bytes) -> int:
    """A descriptor of a nameless file, at its beginning."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


def poll_of(fds: Sequence[int]) -> select.poll:
    """What waits for these descriptors to be readable."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll


def pipe_size(fd: int) -> int:
    """What a pipe can hold, so that one look takes all that was written before it."""
    if not hasattr(fcntl, "F_GETPIPE_SZ"):
        return 64 * 1024
    return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
