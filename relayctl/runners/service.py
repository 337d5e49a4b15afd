"""One process of a service from its start to its last byte: output, end, stop with a grace. No policy.

Driven by the caller's selector and alarms; it never waits. When to start one and what its end means, `core.service`
says.
"""

from __future__ import annotations

import errno
import math
import selectors
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from relayctl.core.model import Resources
from relayctl.runners.channel import Channel, ChannelBroken
from relayctl.runners.limits import excess_of
from relayctl.runners.output import Limits, Masker, Output, harmless
from relayctl.runners.process import Exit, Process
from relayctl.runners.verdict import name_of, of_exit

GRACE_S = 3.0
WINDOW_S = 10.0
WINDOW = Limits(farewell="[the service prints too much: what it prints in the next seconds is not shown]")
"""What is shown of a replica's output within `WINDOW_S`."""
_MOST_READ = 16 * 1024 * 1024
"""What is read within `WINDOW_S`; whoever prints more waits, or it would take the worker's time from the schedules."""
_READ_SIZE = 64 * 1024
_DRAIN_S = 0.3
_SWEEP_S = 1.0
"""How long an ended one counts as there while descendants of it, that were killed, are."""
_RECHECK_S = 0.02
_POLL_S = 0.05
_LONGEST_WORDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a replica ended, in words, and whether it had to be killed after it was told to end."""

    reason: str
    is_killed: bool


class ReplicaProcess:
    """`on_news` is called when it has become its program, has ended and is gone, `show` with each line it prints.

    `has_orphans` says whether descendants of it are still there once it has ended.
    """

    __slots__ = (
        "_channel",
        "_has_orphans",
        "_is_killed",
        "_is_reading_paused",
        "_kill_at",
        "_last_line",
        "_masker",
        "_on_news",
        "_output",
        "_read",
        "_refusal",
        "_resources",
        "_selector",
        "_status",
        "_until",
        "_watched",
        "_window_ends",
        "alarm",
        "end",
        "is_begun",
        "number",
        "process",
    )

    def __init__(
        self,
        selector: selectors.BaseSelector,
        number: int,
        process: Process,
        masker: Masker,
        *,
        now: float,
        show: Callable[[str, str], None],
        on_news: Callable[[], None],
        has_orphans: Callable[[int], bool],
        resources: Resources,
    ) -> None:
        self._selector = selector
        self.number = number
        self.process = process
        self._masker = masker
        self._on_news = on_news
        self._has_orphans = has_orphans
        self._resources = resources
        self._last_line = ""
        self._output = Output(masker, self._shower(show), WINDOW)
        self._channel = Channel(process.channel)
        self._refusal = ""
        self._read = 0
        self._is_reading_paused = False
        self._status: Exit | None = None
        self._kill_at = math.inf
        self._is_killed = False
        self._until: float | None = None
        self._watched: dict[int, Callable[[int], None]] = {}
        self.is_begun = False
        self.end: End | None = None
        self.alarm = now
        self._window_ends = now + WINDOW_S
        self._set_alarm(now)
        self._watch(process.channel.fileno(), self._on_channel)
        self._watch(process.outputs[0], self._on_stdout)
        self._watch(process.outputs[1], self._on_stderr)
        if process.exit_fd is not None:
            self._watch(process.exit_fd, self._on_exit)

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, read out or not."""
        return self._status is not None

    def stop(self, now: float) -> None:
        """Ask the whole group to end; after `GRACE_S` it is killed."""
        if not self.is_over and self._kill_at == math.inf:
            self._kill_at = now + GRACE_S
            self.process.signal_group(signal.SIGTERM)
            # A stopped process would not notice.
            self.process.signal_group(signal.SIGCONT)
            self._set_alarm(now)

    def kill(self) -> None:
        """Kill the whole group now."""
        self._is_killed = True
        self.process.signal_group(signal.SIGKILL)

    def tick(self, now: float) -> None:
        """The alarm has come, or the kernel gives no descriptor for an exit."""
        if self.process.exit_fd is None and not self.is_over and self.process.has_exited():
            self._on_exit(0)
        if self._status is not None:
            self._finish_if_read_out(now)
            return
        if now >= self._kill_at:
            self.kill()
            self._kill_at = now + 1.0
        if now >= self._window_ends:
            self._open_window(now)
        self._set_alarm(now)

    # Output

    def _shower(self, show: Callable[[str, str], None]) -> Callable[[str, str], None]:
        def take(stream: str, line: str) -> None:
            if line.strip() and stream == "stderr":
                self._last_line = line.strip()
            show(stream, line)

        return take

    def _open_window(self, now: float) -> None:
        self._window_ends = now + WINDOW_S
        self._output.renew()
        self._read = 0
        self._resume_reading()

    def _resume_reading(self) -> None:
        if self._is_reading_paused:
            self._is_reading_paused = False
            for fd in self.process.outputs:
                if fd in self._watched:
                    self._selector.register(fd, selectors.EVENT_READ, self._watched[fd])

    def _pause_reading(self) -> None:
        self._is_reading_paused = True
        for fd in self.process.outputs:
            if fd in self._watched:
                self._selector.unregister(fd)

    def _on_stdout(self, _mask: int) -> None:
        self._take_output(0, _READ_SIZE)

    def _on_stderr(self, _mask: int) -> None:
        self._take_output(1, _READ_SIZE)

    def _take_output(self, which: int, size: int) -> int:
        fd = self.process.outputs[which] if self.process.outputs else -1
        if fd not in self._watched:
            return 0
        data = self.process.read(which, size)
        if data is None:
            return 0
        if not data:
            self._unwatch(fd)
            return 0
        self._output.feed(which, data)
        self._read += len(data)
        if self._read >= _MOST_READ and not self._is_reading_paused and not self.is_over:
            self._pause_reading()
        return len(data)

    def _drain(self) -> None:
        """What is in the pipes now, and not what descendants write meanwhile."""
        for which in (0, 1):
            left = self.process.pipe_size
            while left > 0 and (got := self._take_output(which, min(left, _READ_SIZE))):
                left -= got

    # The start

    def _on_channel(self, _mask: int) -> None:
        try:
            for frame in self._channel.receive():
                self._refusal = str(frame[4]) if frame[0] == "end" and len(frame) == 6 else self._refusal
        except ChannelBroken:
            self._refusal = "the start of the program was disturbed"
        if self._channel.is_open:
            return
        self._unwatch(self.process.channel.fileno())
        if not self.is_over and not self._refusal:
            self.is_begun = True
            self._on_news()

    # The end

    def _on_exit(self, _mask: int) -> None:
        if self.is_over:
            return
        if self.process.channel.fileno() in self._watched:
            self._on_channel(0)
            self._unwatch(self.process.channel.fileno())
        # Before the leader is reaped, since its number may mean somebody else then.
        self.process.signal_group(signal.SIGKILL)
        if self.process.exit_fd is not None:
            self._unwatch(self.process.exit_fd)
        self._status = self.process.reap()
        self._resume_reading()
        self._drain()
        self.alarm = 0.0
        self._on_news()

    def _finish_if_read_out(self, now: float) -> None:
        if self.end is not None or self._status is None:
            return
        if self._until is None:
            self._until = now + _DRAIN_S
        is_read_out = not any(fd in self._watched for fd in self.process.outputs)
        has_orphans = self._has_orphans(self.number)
        if (is_read_out or now >= self._until) and (not has_orphans or now >= self._until + _SWEEP_S):
            self._finish(self._status)
        else:
            self.alarm = now + _RECHECK_S

    def _finish(self, status: Exit) -> None:
        self._drain()
        self._output.finish()
        for fd in list(self._watched):
            self._unwatch(fd)
        self.process.close()
        self.alarm = math.inf
        self.end = End(reason=self._reason(status), is_killed=self._is_killed)
        self._on_news()

    def _reason(self, status: Exit) -> str:
        if self._refusal:
            return harmless(self._masker.masked(self._refusal.encode("utf-8", "backslashreplace")))
        excess = excess_of(self.process.group, self._resources) if status.signal == signal.SIGKILL else ""
        if excess:
            return excess
        if status.signal is not None and self._is_killed:
            return f"killed by {name_of(status.signal)}"
        reason = of_exit(status, is_program=True).reason or "it ended by itself, with exit code 0"
        words = self._last_line[:_LONGEST_WORDS]
        return f"{reason}: {words}" if words and status.signal is None and status.code else reason

    # The selector

    def _set_alarm(self, now: float) -> None:
        # Where the kernel gives no descriptor for an exit, somebody has to look.
        look_at = now + _POLL_S if self.process.exit_fd is None else math.inf
        self.alarm = min(self._kill_at, self._window_ends, look_at)

    def _watch(self, fd: int, callback: Callable[[int], None]) -> None:
        self._watched[fd] = callback
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            with suppress(KeyError, ValueError):
                self._selector.unregister(fd)


def is_port_taken(port: int) -> bool:
    """Whether somebody listens on that port of this machine, whatever the address."""
    for family, host in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 - nothing listens here
        with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do, so that connections that linger do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return True
    return False
