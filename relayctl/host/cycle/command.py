"""Runs a program to its end: within time, given up when nobody wants it, its output bounded.

What must end is asked first, with all it started, and killed after a grace. What the program means is not known here.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

GRACE_S = 2.0
MOST_OUTPUT = 1 << 20
_POLL_S = 0.1
_REAP_POLL_S = 0.02
_BLOCK = 65536


class Why(Enum):
    """Why it is over: it ended, it took too long, nobody wanted it any more, or it closed its output and lived on."""

    ENDED = "ended"
    OVERDUE = "overdue"
    UNWANTED = "unwanted"
    MUTE = "mute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How it went; `code` is negative for a signal. Of `output` and `errors` the last bytes are kept."""

    why: Why
    code: int
    output: bytes
    errors: bytes


def run_command(
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    within_s: float,
    is_over: Callable[[], bool] = lambda: False,
    grace_s: float = GRACE_S,
    most_output: int = MOST_OUTPUT,
) -> Finish:
    """Run it in a session of its own, without input, and wait. OSError where it cannot be started."""
    process = subprocess.Popen(
        list(arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environ),
        start_new_session=True,
    )
    said = {"output": b"", "errors": b""}
    why = Why.UNWANTED
    with process:
        try:
            why = _attend(process, said, time.monotonic() + within_s, is_over, most_output)
            if why is Why.ENDED:
                why = _await_end(process, grace_s)
        finally:
            # Once it has ended its number may be another's, and what it left running is there on purpose.
            if process.returncode is None:
                _end(process, grace_s)
    return Finish(why=why, code=process.returncode, output=said["output"], errors=said["errors"])


def _attend(
    process: subprocess.Popen[bytes],
    said: dict[str, bytes],
    until: float,
    is_over: Callable[[], bool],
    most_output: int,
) -> Why:
    """Read what it says until it says no more."""
    with selectors.DefaultSelector() as selector:
        for name, stream in (("output", process.stdout), ("errors", process.stderr)):
            assert stream is not None
            selector.register(stream.fileno(), selectors.EVENT_READ, name)
        while selector.get_map():
            ready = selector.select(_POLL_S)
            if not ready and process.poll() is not None:
                # Something that outlives it on purpose, as a connection that ssh shares, may keep the pipes open.
                return Why.ENDED
            for key, _ in ready:
                block = os.read(key.fd, _BLOCK)
                if not block:
                    selector.unregister(key.fd)
                said[key.data] = (said[key.data] + block)[-most_output:]
            if is_over():
                return Why.UNWANTED
            if time.monotonic() > until:
                return Why.OVERDUE
    return Why.ENDED


def _await_end(process: subprocess.Popen[bytes], grace_s: float) -> Why:
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        return Why.MUTE
    return Why.ENDED


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End it and what it started; asked first, since a program may have to clean up."""
    _signal(process, signal.SIGTERM)
    until, never = time.monotonic() + grace_s, threading.Event()
    # Not buried before the rest of its group is killed: until then the group's number is its own.
    while not _has_ended(process) and time.monotonic() < until:
        never.wait(_REAP_POLL_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True
