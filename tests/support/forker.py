"""Workers as forks of one process that has imported everything: a start costs what the worker does, and no imports.

A fork has a pid, a session, streams, a directory and an environment of its own, as if it had been started by path.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = Path(__file__).with_name("fork_process.py")


class Forked:
    """A forked worker, with what `subprocess.Popen` offers of it."""

    def __init__(self, pid: int, stderr: IO[str]) -> None:
        self.pid = pid
        self.stderr: IO[str] | None = stderr
        self.returncode: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(["relayctl"], timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals | int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def end(self, code: int) -> None:
        """Called with the exit code, or the negative number of the signal."""
        self.returncode = code
        self._ended.set()


class Forker:
    """The process that forks, and what it tells."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environ,
            )
        self._asking = threading.Lock()
        self._news = threading.Condition()
        self._living: dict[int, Forked] = {}
        self._fresh: int | None = None
        self._early: dict[int, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self.close)

    def close(self) -> None:
        """End it; what it forked runs on."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait(10)
        self._socket.close()

    def start(self, arguments: list[str], environ: Mapping[str, str], cwd: Path) -> Forked:
        """Fork a worker; raises AssertionError if none comes."""
        reading, writing = os.pipe()
        request = {"arguments": arguments, "environ": dict(environ), "cwd": str(cwd)}
        with self._asking:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [writing])
            os.close(writing)
            with self._news:
                assert self._news.wait_for(lambda: self._fresh is not None, timeout=60), "nothing was forked"
                pid, self._fresh = self._fresh or 0, None
                made = self._living[pid] = Forked(pid, os.fdopen(reading, encoding="utf-8"))
                if pid in self._early:
                    self._living.pop(pid).end(self._early.pop(pid))
        return made

    def _listen(self) -> None:
        with suppress(OSError):
            while text := self._socket.recv(4096):
                self._hear(json.loads(text))

    def _hear(self, answer: dict[str, Any]) -> None:
        with self._news:
            if "forked" in answer:
                self._fresh = answer["forked"]
                self._news.notify_all()
            elif answer["ended"] in self._living:
                self._living.pop(answer["ended"]).end(answer["code"])
            else:
                self._early[answer["ended"]] = answer["code"]


@functools.cache
def forker() -> Forker:
    """The one of this test process; it ends with it."""
    return Forker({name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ})
