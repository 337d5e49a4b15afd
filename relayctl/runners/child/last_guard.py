"""Outlives a worker that was killed by the moment it takes to kill what its handlers had started. Linux only.

Standard library only. Standard input is a pipe from the worker: a byte says that all is well, its end that the worker
is gone. Argument: the marking that all descendants of the worker's children carry in their environment.
"""

from __future__ import annotations

import os
import signal
import sys
import time

ROUNDS = 20
PAUSE_S = 0.05


def marked(marking: bytes) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                    environ = b"\0" + file.read()
            except OSError:
                continue
            if b"\0" + marking in environ:
                found.append(int(name))
    return found


def main(marking: bytes) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a stop is for the worker; this one goes when the worker has gone
    if os.read(0, 1):
        return
    for _ in range(ROUNDS):
        left = marked(marking)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(os.fsencode(sys.argv[1]))
