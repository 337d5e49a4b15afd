"""A process that has imported what a worker needs, and forks one for each request on its socket. Run by path.

A request is one JSON line with the descriptor that becomes standard error; the answer is the pid, later the exit code.
It ends with its socket. It starts no thread, so that a fork finds the interpreter whole.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import socket
import sys
from typing import Any

LOADED = (
    "jsonschema_rs",
    "relayctl.cli.app",
    "relayctl.host.database",
    "relayctl.sources.directory",
    "relayctl.worker.process",
    "relayctl.worker.worker",
    "ruamel.yaml",
    "sqlite_utils.db",
    "watchfiles",
)


def requests(asked: socket.socket) -> dict[str, Any] | None:
    """Answer requests until the socket ends (None); in a fork, the request that it is for."""
    watched: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([asked, *watched], [], [])
        for pidfd in ready:
            if pidfd is not asked:
                pid, status = os.waitpid(watched.pop(pidfd), 0)
                os.close(pidfd)
                _say(asked, ended=pid, code=os.waitstatus_to_exitcode(status))
        if asked in ready:
            text, fds, _, _ = socket.recv_fds(asked, 1 << 20, 1)
            if not text:
                return None
            request: dict[str, Any] = json.loads(text)
            pid = os.fork()
            if not pid:
                os.dup2(fds[0], 2)
                return request
            os.close(fds[0])
            watched[os.pidfd_open(pid)] = pid
            _say(asked, forked=pid)


def become(request: dict[str, Any]) -> None:
    """Take on the streams, the session, the directory and the environment of a program that was just started."""
    os.setsid()
    # The stream knows of the old descriptor whether it can seek.
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = ["relayctl", *request["arguments"]]


def _say(asked: socket.socket, **answer: int) -> None:
    asked.send(json.dumps(answer).encode())


def main() -> None:
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    request = requests(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        become(request)
        from relayctl.cli.app import main as relayctl

        relayctl()


if __name__ == "__main__":
    main()
