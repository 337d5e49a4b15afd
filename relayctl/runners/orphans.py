"""Descendants of handlers that left their session, found when the kernel hands them to the worker (Linux only).

A descendant is known by the mark in its environment, by the session of a child, or because it was seen below a child
that was about to go. One that empties its environment, leaves its session *and* loses its parent before that escapes;
only cgroups would hold it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Container
from pathlib import Path

from relayctl.runners.environ import MARK

PR_SET_CHILD_SUBREAPER = 36
STATUS_KEPT_S = 60.0


class Orphans:
    """`token` is this pool's; the mark of child n is `<token>.<n>`."""

    def __init__(self, token: str) -> None:
        self._prefix = f"{MARK}={token}.".encode()
        self._adopted: dict[int, int] = {}
        self._dead_since: dict[int, float] = {}
        self._seen: dict[int, tuple[int, bytes]] = {}
        self._session = os.getsid(0)
        self.is_supported = _become_subreaper()

    def note(self, pid: int, number: int) -> None:
        """Remember who descends from a living child: when it is gone, nothing may be left that tells of them."""
        if self.is_supported:
            for below in _descendants(pid):
                self._seen[below] = (number, _began(below))

    def find(self, known: Container[int], owner_of_session: Callable[[int], int | None], now: float) -> dict[int, int]:
        """Living adopted processes as pid -> number of the child they descend from; dead ones are reaped."""
        if not self.is_supported:
            return {}
        self._reap()
        for pid in _children():
            if pid in known or pid in self._adopted:
                continue
            owner = self._owner(pid, owner_of_session)
            if owner is not None:
                self._adopted[pid] = owner
            elif is_zombie(pid):
                self._bury(pid, now)
        self._seen = {pid: seen for pid, seen in self._seen.items() if is_there(pid)} if self._seen else self._seen
        self._reap()
        return dict(self._adopted)

    def kill(self, pid: int) -> None:
        """Kill an adopted process, and its group where it leads one."""
        for kill in (os.killpg, os.kill):
            try:
                kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def _reap(self) -> None:
        for pid in list(self._adopted):
            try:
                done, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done = pid
            if done:
                del self._adopted[pid]

    def _bury(self, pid: int, now: float) -> None:
        """Reap a dead adopted process that tells nothing about itself any more.

        What another room started is either in the worker's session or leads its own; the latter cannot be told from a
        daemon, so it is left alone for as long as anybody who started it may want to ask for its status.
        """
        session = _session_of(pid)
        if session == self._session:
            return
        if session == pid and now - self._dead_since.setdefault(pid, now) < STATUS_KEPT_S:
            return
        self._dead_since.pop(pid, None)
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass

    def _owner(self, pid: int, owner_of_session: Callable[[int], int | None]) -> int | None:
        owner = owner_of_session(_session_of(pid))
        if owner is None:
            owner = self._marked(pid)
        if owner is None and pid in self._seen:
            number, began = self._seen[pid]
            owner = number if began == _began(pid) else None  # or it is another by now, of the same pid
        return owner

    def _marked(self, pid: int) -> int | None:
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return None
        marks = (entry for entry in environ.split(b"\0") if entry.startswith(self._prefix))
        number = next(marks, b"").removeprefix(self._prefix)
        return int(number) if number.isdigit() else None


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def bury(pid: int) -> None:
    """Reap a dead child of this process, if it is one."""
    if pid and is_zombie(pid):
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass


def is_there(pid: int) -> bool:
    """Whether there is such a process, be it a zombie."""
    return Path(f"/proc/{pid}").exists()


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and waits for its parent to notice."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] == b"Z"


def _began(pid: int) -> bytes:
    """When a process was started, which tells it from another of the same pid; nothing for one that is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return b""
    return stat.rpartition(b")")[2].split()[19]


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for each in found:  # which grows meanwhile
        for task in _listed(f"/proc/{each}/task"):
            try:
                found.extend(_below(each, task))
            except OSError:
                continue
    return found[1:]


def _below(pid: int | str, task: str) -> list[int]:
    # Plain calls take a third of what a path as an object does, and a worker has a dozen threads to ask for.
    with open(f"/proc/{pid}/task/{task}/children", "rb", buffering=0) as file:  # noqa: PTH123
        return list(map(int, file.read().split()))


def _children() -> list[int]:
    found: list[int] = []
    for task in _listed("/proc/self/task"):
        try:
            found.extend(_below("self", task))
        except FileNotFoundError:
            return _children_by_parent()  # a kernel without that file, or a thread that has just ended
        except OSError:
            continue
    return found


def _children_by_parent() -> list[int]:
    own = str(os.getpid()).encode()
    found = []
    for name in _listed("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_bytes()
            except OSError:
                continue
            if stat.rpartition(b")")[2].split()[1] == own:
                found.append(int(name))
    return found


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208 - names only, on a hot path
    except OSError:
        return []


def _become_subreaper() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
