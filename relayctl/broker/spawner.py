"""The thread that spawns servers, one per process, and the command it spawns.

The kernel ends a child tied to its parent when the spawning *thread* ends, so this thread lives as long as the
process: a broker may be started from any thread, and from one that ends. It supervises nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

Tie = Literal["signal", "pipe"]

# Linux tells a child of its parent's death; elsewhere a watcher on a pipe does.
DEFAULT_TIE: Tie = "signal" if sys.platform == "linux" else "pipe"

_SHIM = Path(__file__).with_name("shim.py")
_Request = tuple[list[str], int, int, Tie, "Future[Server]"]

_guard = threading.Lock()
_queue: SimpleQueue[_Request] | None = None
_queue_pid = 0


class Server:
    """A spawned server and the pipe whose closing tells the watcher that the owner is gone."""

    __slots__ = ("_pipe", "process")

    def __init__(self, process: subprocess.Popen[bytes], pipe: int | None) -> None:
        self.process = process
        self._pipe = pipe

    def close(self) -> None:
        if self._pipe is not None:
            pipe, self._pipe = self._pipe, None
            os.close(pipe)


def spawn(command: list[str], *, lock_fd: int, output_fd: int, tie: Tie = DEFAULT_TIE) -> Server:
    """Start `command` through the shim, in a session of its own, inheriting `lock_fd`; it dies with this process."""
    reply: Future[Server] = Future()
    _requests().put((command, lock_fd, output_fd, tie, reply))
    return reply.result()


def _requests() -> SimpleQueue[_Request]:
    global _queue, _queue_pid
    with _guard:
        if _queue is None or _queue_pid != os.getpid():
            _queue, _queue_pid = SimpleQueue(), os.getpid()
            threading.Thread(target=_serve, args=(_queue,), name="broker-spawner", daemon=True).start()
        return _queue


def _serve(requests: SimpleQueue[_Request]) -> None:
    while True:
        command, lock_fd, output_fd, tie, reply = requests.get()
        try:
            reply.set_result(_spawn(command, lock_fd, output_fd, tie))
        except Exception as error:  # noqa: BLE001  the thread must outlive any failure; the caller gets it
            reply.set_exception(error)


def _spawn(command: list[str], lock_fd: int, output_fd: int, tie: Tie) -> Server:
    reading, writing = os.pipe() if tie == "pipe" else (-1, -1)
    # The session keeps Ctrl-C away from the server while workers drain.
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SHIM), str(os.getpid()), str(reading), str(lock_fd), *command],
            stdin=subprocess.DEVNULL,
            stdout=output_fd,
            stderr=output_fd,
            start_new_session=True,
            pass_fds=(lock_fd, reading) if tie == "pipe" else (lock_fd,),
        )
    except BaseException:
        if tie == "pipe":
            os.close(writing)
        raise
    finally:
        if tie == "pipe":
            os.close(reading)
    return Server(process, writing if tie == "pipe" else None)
