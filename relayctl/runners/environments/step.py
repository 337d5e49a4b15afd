"""One command of a build: run in its own group, bounded, killed with all that it started. It judges no output."""

from __future__ import annotations

import os
import selectors
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relayctl.runners.channel import Channel, ChannelBroken
from relayctl.runners.environ import MARK
from relayctl.runners.orphans import Orphans
from relayctl.runners.process import Process
from relayctl.runners.verdict import of_exit

_SHIM = Path(__file__).parent.parent / "child" / "exec_shim.py"
_READ_SIZE = 64 * 1024
_MOST_KEPT = 64 * 1024
_LOOK_EVERY_S = 0.1
_MOST_SWEEPS = 20


class Cancelled(Exception):
    """Nobody wants the result any more."""


class TooLong(Exception):
    """The time for it is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When a build must end: at `until` (monotonic), or as soon as `is_cancelled`."""

    monotonic: Callable[[], float]
    until: float
    is_cancelled: Callable[[], bool]

    def check(self) -> None:
        """Raises Cancelled or TooLong."""
        if self.is_cancelled():
            raise Cancelled
        if self.monotonic() >= self.until:
            raise TooLong


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended: why it failed (empty where it did not), and the end of what it printed."""

    failure: str
    output: bytes


def run_step(argv: Sequence[str], directory: Path, environ: Mapping[str, str], token: str, bounds: Bounds) -> Done:
    """Run it to its end. `token` marks all that descends from it. Raises OSError, Cancelled or TooLong.

    It ends with this thread, and with the worker, whatever becomes of them.
    """
    shim = (sys.executable, "-I", "-S", "-B", str(_SHIM), argv[0])
    command = (*shim, str(os.getpid()), "0", *argv[1:])
    orphans = Orphans(token)
    process = Process(command, len(shim), directory, {**environ, MARK: f"{token}.0"}, None)
    kept = _Tail()
    try:
        _follow(process, kept, bounds)
        refusal = _refusal(process)
    finally:
        # Before the leader is reaped, since its number may mean somebody else then.
        process.signal_group(signal.SIGKILL)
        end = process.reap()
        _read(process, kept)
        process.close()
        _sweep(orphans, bounds)
    verdict = of_exit(end, is_program=True)
    return Done(failure=refusal or ("" if end.code == 0 else verdict.reason), output=kept.lines())


def _follow(process: Process, kept: _Tail, bounds: Bounds) -> None:
    with selectors.DefaultSelector() as selector:
        for fd in process.outputs:
            selector.register(fd, selectors.EVENT_READ)
        if process.exit_fd is not None:
            selector.register(process.exit_fd, selectors.EVENT_READ)
        while not process.has_exited():
            bounds.check()
            for key, _ in selector.select(_LOOK_EVERY_S):
                if key.fd in process.outputs and not _read_one(process, process.outputs.index(key.fd), kept):
                    selector.unregister(key.fd)


def _read_one(process: Process, which: int, kept: _Tail) -> bool:
    """Whether more may come."""
    data = process.read(which, _READ_SIZE)
    kept.add(data or b"")
    return data != b""


def _read(process: Process, kept: _Tail) -> None:
    """What is in the pipes now."""
    for which in (0, 1):
        left = process.pipe_size
        while left > 0 and (data := process.read(which, _READ_SIZE)):
            kept.add(data)
            left -= len(data)


class _Tail:
    """The last whole lines: in one that was cut, what is left of a secret could not be told."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._is_cut = False

    def add(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > _MOST_KEPT:
            del self._kept[:-_MOST_KEPT]
            self._is_cut = True
        if self._is_cut and (end := self._kept.find(b"\n")) >= 0:
            del self._kept[: end + 1]
            self._is_cut = False

    def lines(self) -> bytes:
        return b"" if self._is_cut else bytes(self._kept)


def _refusal(process: Process) -> str:
    """Why the program could not become one, if it could not."""
    try:
        frames = list(Channel(process.channel).receive())
    except (ChannelBroken, OSError):
        return ""
    return next((str(frame[4]) for frame in frames if frame[0] == "end" and len(frame) == 6), "")


def _sweep(orphans: Orphans, bounds: Bounds) -> None:
    """Kill what has left the group; each look may find what the last one's dead had started."""
    for _ in range(_MOST_SWEEPS):
        found = orphans.find((), lambda _session: None, bounds.monotonic())
        if not found:
            return
        for pid in found:
            orphans.kill(pid)
