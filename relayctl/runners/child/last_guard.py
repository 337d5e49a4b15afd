"""Outlives a worker that was killed by the moment it takes to kill what its handlers had started. Linux only.

Standard library only. Standard input is a pipe from the worker: a byte says that all is well, its end that the worker
is gone. Arguments: the marking that all descendants of the worker's children carry in their environment, and what the
paths of their control groups begin with, or nothing.
"""

from __future__ import annotations

import glob
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


def end_groups(prefix: str) -> bool:
    """Kill all that is in the control groups, and remove those that are empty; whether some are left."""
    left = False
    for group in glob.glob(glob.escape(prefix) + "*") if prefix else ():  # noqa: PTH207
        try:
            with open(f"{group}/cgroup.kill", "w") as file:  # noqa: PTH123
                file.write("1")
        except OSError:
            pass
        try:
            os.rmdir(group)  # noqa: PTH106
        except OSError:
            left = True
    return left


def main(marking: bytes, groups: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a stop is for the worker; this one goes when the worker has gone
    if os.read(0, 1):
        return
    for _ in range(ROUNDS):
        has_groups = end_groups(groups)
        left = marked(marking)
        if not left and not has_groups:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(os.fsencode(sys.argv[1]), sys.argv[2])
