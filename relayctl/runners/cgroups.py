"""Control groups (cgroup v2): which of them this process may make, and one for each process tree. Linux only.

It knows the file protocol of the kernel and nothing of apps' lives: who gets a group, and when it goes, others say.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from relayctl.core.model import Resources

PREFIX = "relayctl-"
LEAF = PREFIX + "worker"
PERIOD_US = 100_000
_SHORTEST_QUOTA_US = 1000
"""The kernel refuses a shorter one."""
_WANTED = ("cpu", "memory", "pids")
_CONTROLLER = {"memory": "memory", "cpus": "cpu", "pids": "pids"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """What of the kernel's control groups is left to this process: under `root`, with these `controllers`.

    Without a root it is nothing, and `reason` says why. `leaf` is where the process itself went.
    """

    root: Path | None = None
    controllers: frozenset[str] = frozenset()
    reason: str = ""
    leaf: Path | None = field(default=None, compare=False)

    def enforces(self, limit: str) -> bool:
        """Whether a limit of this name is kept for a whole process tree."""
        return self.root is not None and _CONTROLLER[limit] in self.controllers

    def wants_group(self, resources: Resources) -> bool:
        """Whether anything that is declared would be kept by a group."""
        return any(map(self.enforces, resources.declared))


NOTHING = Delegation(reason="control groups are not used here")


class Group:
    """The group of one process tree."""

    __slots__ = ("_is_out", "_refused", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_out = False
        self._refused = 0

    def kill(self) -> None:
        """Kill every process that is in it, whatever session it is in. Never raises."""
        try:
            _put(self.path / "cgroup.kill", "1")
        except OSError:
            self._kill_each()

    def _kill_each(self) -> None:
        """For kernels before 5.14. A tree that forks faster than this is caught by the next look."""
        for pid in self.pids():
            with suppress(OSError):
                os.kill(pid, 9)

    def pids(self) -> list[int]:
        """The processes in it that have not ended."""
        try:
            found = [int(line) for line in (self.path / "cgroup.procs").read_text().split()]
            return [pid for pid in found if pid > 0]  # 0 is one that cannot be seen from here
        except (OSError, ValueError):
            return []

    def is_out_of_memory(self) -> bool:
        """Whether the kernel has killed in it for want of memory; known also when it has been released."""
        self._is_out = self._is_out or _counted(self.path / "memory.events", "oom_kill") > 0
        return self._is_out

    def begin(self) -> None:
        """A run begins: refusals from now on are its own."""
        self._refused = _counted(self.path / "pids.events", "max")

    def has_refused_processes(self) -> bool:
        """Whether a fork was refused since `begin`."""
        return _counted(self.path / "pids.events", "max") > self._refused

    def remove(self) -> bool:
        """Take the group away; False while there is something in it. Never raises."""
        try:
            self.path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


class Groups:
    """The groups of one nursery of processes, told apart from those of others by `token`. For one thread."""

    def __init__(self, delegation: Delegation, token: str) -> None:
        self.delegation = delegation
        self._token = token
        self._leaving: list[Group] = []

    @property
    def prefix(self) -> str:
        """What the path of every group begins with, up to the child's number; empty where none are made."""
        root = self.delegation.root
        return "" if root is None else str(root / f"{PREFIX}{self._token}.")

    def make(self, number: int, resources: Resources) -> Group | None:
        """An empty group with these limits, or None where it would keep none of them. Raises OSError."""
        if not self.delegation.wants_group(resources):
            return None
        group = Group(Path(f"{self.prefix}{number}"))
        try:
            group.path.mkdir()
            self._limit(group.path, resources)
        except OSError as error:
            group.remove()
            # Without the limits that were asked for, nothing is started.
            raise OSError(error.errno, f"its control group cannot be made: {error.strerror}") from None
        return group

    def _limit(self, path: Path, resources: Resources) -> None:
        enforces = self.delegation.enforces
        if resources.memory is not None and enforces("memory"):
            _put(path / "memory.max", str(resources.memory))
            for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                with suppress(OSError):  # not every kernel has them
                    _put(path / name, value)
        if resources.cpus is not None and enforces("cpus"):
            quota = max(_SHORTEST_QUOTA_US, round(resources.cpus * PERIOD_US))
            _put(path / "cpu.max", f"{quota} {PERIOD_US}")
        if resources.pids is not None and enforces("pids"):
            _put(path / "pids.max", str(resources.pids))

    @contextmanager
    def held(self, number: int, resources: Resources) -> Iterator[Group | None]:
        """`make`; the group goes again when what is started in it cannot be."""
        group = self.make(number, resources)
        try:
            yield group
        except BaseException:
            self.release(group)
            raise

    def release(self, group: Group | None) -> None:
        """The tree is over: kill what is left of it, and take the group away as soon as it is empty."""
        if group is None:
            return
        group.is_out_of_memory()
        group.kill()
        if not group.remove():
            self._leaving.append(group)

    def sweep(self) -> bool:
        """Take away what has become empty meanwhile; whether something is left to do."""
        for group in self._leaving:
            group.kill()
        self._leaving = [group for group in self._leaving if not group.remove()]
        return bool(self._leaving)


# What is left to this process


def claim(own: Path | None = None) -> Delegation:
    """Take over the control group `own` (that of this process): make room in it, and see what can be limited.

    A group that limits its children may hold no processes itself, so this process moves to a group below; all that it
    starts from now on follows it there. Where that is of no use it stays where it is. Never raises.
    """
    found = own_group() if own is None else own
    if isinstance(found, str):
        return Delegation(reason=found)
    available = _words(found / "cgroup.controllers") & set(_WANTED)
    if not available:
        return Delegation(reason="its control group has none of the controllers for memory, processors and processes")
    if not _may_write(found):
        return Delegation(reason="its control group is not delegated to it")
    leaf = None
    try:
        if not available <= _words(found / "cgroup.subtree_control"):
            leaf = _move_down(found)
            for name in sorted(available):
                with suppress(OSError):
                    _put(found / "cgroup.subtree_control", f"+{name}")
        enabled = _words(found / "cgroup.subtree_control") & available
    except OSError as error:
        _move_back(found, leaf)
        return Delegation(reason=f"its control group cannot be divided: {error.strerror}")
    if not enabled:
        _move_back(found, leaf)
        return Delegation(reason="its control group cannot be divided: other processes are in it")
    _remove_leftovers(found)
    return Delegation(root=found, controllers=frozenset(enabled), leaf=leaf)


def give_back(delegation: Delegation) -> None:
    """Undo `claim`, as far as nothing else is in the way. Never raises."""
    root, leaf = delegation.root, delegation.leaf
    if root is None or leaf is None:
        return
    for name in sorted(delegation.controllers):
        with suppress(OSError):
            _put(root / "cgroup.subtree_control", f"-{name}")
    _move_back(root, leaf)


def own_group() -> Path | str:
    """The directory of this process's control group, or why there is none."""
    if sys.platform != "linux":
        return "only Linux has control groups"
    try:
        entries = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return "this process cannot see its control group"
    return place_of(entries, mounts)


def place_of(entries: list[str], mounts: list[str]) -> Path | str:
    """Where a process with these `/proc/self/cgroup` and `mountinfo` lines finds its group, or why it does not."""
    path = next((entry.removeprefix("0::") for entry in entries if entry.startswith("0::")), None)
    if path is None:
        return "this system has no control groups of version 2"
    for mount in mounts:
        fields, _, kind = mount.partition(" - ")
        if kind.split(" ")[:1] != ["cgroup2"]:
            continue
        root, point = (_unescaped(text) for text in fields.split(" ")[3:5])
        if Path(path).is_relative_to(root):
            return Path(point) / Path(path).relative_to(root)
    return "no control groups of version 2 are mounted here"


def _unescaped(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


def _may_write(group: Path) -> bool:
    places = (group, group / "cgroup.procs", group / "cgroup.subtree_control")
    return all(os.access(place, os.W_OK) for place in places)


def _move_down(group: Path) -> Path:
    leaf = group / LEAF
    leaf.mkdir(exist_ok=True)
    try:
        _put(leaf / "cgroup.procs", str(os.getpid()))
    except OSError:
        with suppress(OSError):
            leaf.rmdir()
        raise
    return leaf


def _move_back(group: Path, leaf: Path | None) -> None:
    if leaf is None:
        return
    with suppress(OSError):
        _put(group / "cgroup.procs", str(os.getpid()))
    with suppress(OSError):
        leaf.rmdir()


def _remove_leftovers(root: Path) -> None:
    """Groups of a worker that was killed. Only empty ones can be removed."""
    for path in root.glob(f"{PREFIX}*.*"):
        with suppress(OSError):
            path.rmdir()


# Files of the kernel


def _put(path: Path, text: str) -> None:
    """One write, as the kernel wants it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if os.write(fd, text.encode()) != len(text):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
    finally:
        os.close(fd)


def _words(path: Path) -> set[str]:
    try:
        return set(path.read_text().split())
    except OSError:
        return set()


def _counted(path: Path, name: str) -> int:
    """The counter of that name in an events file; 0 where there is none."""
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
        return next((int(row[1]) for row in rows if row[0] == name), 0)
    except (OSError, ValueError, IndexError):
        return 0
