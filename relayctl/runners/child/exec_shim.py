"""Becomes the program of an `exec` handler or a service, after asking the kernel to end it together with the worker.

Standard library only. Says on its channel why the program could not be run; the channel closes when it could.
Arguments: the program, the channel's descriptor, the worker's pid, a data limit in bytes with `:` and a control group
where there is one, the program's arguments.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the request was in force
        os._exit(1)


def limit_data(limit: int) -> None:
    if limit:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def enter(group: str) -> None:
    if group:
        with open(f"{group}/cgroup.procs", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(b"0")


def reset_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not None:  # the C library keeps some for itself
            signal.signal(number, signal.SIG_DFL)


def tell(fd: int, reason: str) -> None:
    data = json.dumps(["end", 0, False, 126, reason, False]).encode()
    os.write(fd, struct.pack(">I", len(data)) + data)


def main(program: str, fd: int, parent: int, limits: str, *arguments: str) -> None:
    os.set_inheritable(fd, False)
    die_with(parent)
    limit, _, group = limits.partition(":")
    try:
        enter(group)
    except OSError as error:
        tell(fd, f"its control group cannot be entered: {error.strerror}")
        os._exit(126)
    reset_signals()
    limit_data(int(limit))
    try:
        os.execve(program, [program, *arguments], os.environ)  # noqa: S606 - no shell is the point
    except OSError as error:
        inside = os.path.relpath(program)
        tell(fd, f"{program if inside.startswith('..') else inside} cannot be run: {error.strerror}")
        os._exit(126)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], *sys.argv[5:])
