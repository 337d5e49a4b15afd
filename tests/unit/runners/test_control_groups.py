"""The file protocol of control groups, on a directory with a kernel of its own: it keeps the rules that matter here."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from relayctl.core.model import Resources
from relayctl.runners import cgroups
from relayctl.runners.cgroups import LEAF, Delegation, Group, Groups, claim, give_back, place_of
from relayctl.runners.invocation import Outcome
from relayctl.runners.limits import excess_of, explained, unenforced
from relayctl.runners.runner import Launch
from relayctl.runners.verdict import Verdict

OWN = os.getpid()
ALL = frozenset({"cpu", "memory", "pids"})


class Kernel:
    """What is in which group, and which controllers each hands down. Files it reads back are files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.members: dict[Path, set[int]] = {root: {OWN}}
        self.writes: list[tuple[str, str]] = []
        self.refused = ""
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            (root / name).write_text("")
        (root / "cgroup.controllers").write_text("cpu io memory pids\n")

    @property
    def handed_down(self) -> set[str]:
        return set((self.root / "cgroup.subtree_control").read_text().split())

    def put(self, path: Path, text: str) -> None:
        self.writes.append((str(path.relative_to(self.root)), text))
        if path.name == "cgroup.procs":
            if path.parent == self.root and self.handed_down:
                raise OSError(errno.EBUSY, "Device or resource busy")
            for members in self.members.values():
                members.discard(int(text))
            self.members.setdefault(path.parent, set()).add(int(text))
        elif path.name == "cgroup.subtree_control":
            name = text[1:]
            if text[0] == "+" and (self.members[self.root] or name == self.refused):
                raise OSError(errno.EBUSY, "Device or resource busy")
            changed = self.handed_down | {name} if text[0] == "+" else self.handed_down - {name}
            path.write_text(" ".join(sorted(changed)))
        elif path.name == "memory.swap.max":
            raise OSError(errno.EACCES, "Permission denied")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path)
    monkeypatch.setattr(cgroups, "_put", kernel.put)
    yield kernel


def test_it_goes_down_itself_before_it_divides_its_group(kernel: Kernel) -> None:
    delegation = claim(kernel.root)
    assert delegation == Delegation(root=kernel.root, controllers=ALL)
    assert kernel.members[kernel.root] == set()
    assert kernel.members[kernel.root / LEAF] == {OWN}
    give_back(delegation)
    assert kernel.members[kernel.root] == {OWN}
    assert kernel.handed_down == set()
    assert not (kernel.root / LEAF).exists()


def test_it_stays_where_it_is_beside_others(kernel: Kernel) -> None:
    kernel.members[kernel.root].add(4711)
    delegation = claim(kernel.root)
    assert delegation.root is None
    assert "other processes are in it" in delegation.reason
    assert kernel.members[kernel.root] == {OWN, 4711}
    assert not (kernel.root / LEAF).exists()


def test_a_controller_that_is_refused_is_not_promised(kernel: Kernel) -> None:
    kernel.refused = "cpu"
    delegation = claim(kernel.root)
    assert delegation.controllers == {"memory", "pids"}
    assert unenforced(Resources(memory=1, cpus=0.5, pids=3), delegation) == ("cpus",)
    assert not delegation.wants_group(Resources(cpus=0.5))
    assert delegation.wants_group(Resources(cpus=0.5, pids=1))


def test_what_is_handed_down_already_is_taken_as_it_is(kernel: Kernel) -> None:
    (kernel.root / "cgroup.subtree_control").write_text("cpu memory pids")
    left = kernel.root / "relayctl-0123456789abcdef.7"
    left.mkdir()
    delegation = claim(kernel.root)
    assert (delegation.root, delegation.leaf) == (kernel.root, None)
    assert not left.exists()  # of a worker that was killed
    give_back(delegation)
    assert kernel.handed_down == ALL


def test_without_controllers_or_rights_nothing_is_touched(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel.root / "cgroup.controllers").write_text("hugetlb\n")
    assert "none of the controllers" in claim(kernel.root).reason
    (kernel.root / "cgroup.controllers").write_text("memory\n")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "not delegated" in claim(kernel.root).reason
    assert kernel.writes == []


@pytest.mark.parametrize(
    ("entries", "mounts", "found"),
    [
        (["0::/user.slice/a b"], ["30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"], "/sys/fs/cgroup/user.slice/a b"),
        (["1:cpu:/", "0::/"], ["9 2 0:1 / /sys rw - sysfs x rw", "3 2 0:2 / /cg\\0402 rw - cgroup2 x rw"], "/cg 2"),
        (["0::/ns/inner"], ["30 23 0:26 /ns /sys/fs/cgroup rw shared:4 - cgroup2 x rw"], "/sys/fs/cgroup/inner"),
    ],
)  # fmt: skip
def test_where_its_group_is(entries: list[str], mounts: list[str], found: str) -> None:
    assert place_of(entries, mounts) == Path(found)


def test_why_there_is_no_group() -> None:
    assert "version 2" in str(place_of(["4:memory:/x"], []))
    assert "mounted" in str(place_of(["0::/x"], ["3 2 0:2 / /sys/fs/cgroup/cpu rw - cgroup x rw,cpu"]))
    assert "mounted" in str(place_of(["0::/x"], ["30 23 0:26 /elsewhere /sys/fs/cgroup rw - cgroup2 x rw"]))


def test_limits_are_written_before_anything_enters(kernel: Kernel) -> None:
    groups = Groups(Delegation(root=kernel.root, controllers=ALL), "abc")
    group = groups.make(7, Resources(memory=256 << 20, cpus=0.5, pids=8))
    assert group is not None and group.path == kernel.root / "relayctl-abc.7"
    assert kernel.writes == [
        ("relayctl-abc.7/memory.max", "268435456"),
        ("relayctl-abc.7/memory.swap.max", "0"),
        ("relayctl-abc.7/memory.oom.group", "1"),
        ("relayctl-abc.7/cpu.max", "50000 100000"),
        ("relayctl-abc.7/pids.max", "8"),
    ]
    assert groups.make(8, Resources()) is None
    tiny = groups.make(9, Resources(cpus=0.0001))
    assert tiny is not None and kernel.writes[-1] == ("relayctl-abc.9/cpu.max", "1000 100000")


def test_a_group_that_cannot_be_limited_is_not_used(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, _text: str) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(cgroups, "_put", refuse)
    groups = Groups(Delegation(root=kernel.root, controllers=ALL), "abc")
    with pytest.raises(OSError, match="its control group cannot be made: Permission denied"):
        groups.make(1, Resources(pids=3))
    assert not list(kernel.root.glob("relayctl-*"))


def test_a_group_goes_when_it_is_empty(kernel: Kernel) -> None:
    groups = Groups(Delegation(root=kernel.root, controllers=ALL), "abc")
    group = groups.make(1, Resources(memory=1 << 20))
    assert group is not None
    (group.path / "member").touch()
    (group.path / "memory.events").write_text("oom 1\noom_kill 1\n")
    groups.release(group)
    assert ("relayctl-abc.1/cgroup.kill", "1") in kernel.writes
    assert groups.sweep()
    (group.path / "member").unlink()
    (group.path / "memory.events").unlink()
    assert not groups.sweep()
    assert not group.path.exists()
    assert excess_of(group, Resources(memory=1 << 20)) == "killed: more than 1 MiB of memory"


def test_a_start_that_fails_leaves_no_group(kernel: Kernel) -> None:
    groups = Groups(Delegation(root=kernel.root, controllers=ALL), "abc")
    with pytest.raises(ValueError), groups.held(1, Resources(pids=1)):
        raise ValueError
    assert not list(kernel.root.glob("relayctl-*"))


KILLED = Verdict(Outcome.LOST, "killed by SIGKILL", None, 9)
FAILED = Verdict(Outcome.FAILED, "BlockingIOError: no")


def test_what_the_kernel_counted_explains_an_end(tmp_path: Path) -> None:
    group, limits = Group(tmp_path), Resources(memory=1536 << 10, pids=3)
    (tmp_path / "pids.events").write_text("max 4\n")
    group.begin()
    assert explained(KILLED, group, limits) == KILLED
    assert explained(FAILED, group, limits) == FAILED
    (tmp_path / "pids.events").write_text("max 5\n")
    (tmp_path / "memory.events").write_text("low 0\noom_kill 2\n")
    assert explained(FAILED, group, limits).reason == "BlockingIOError: no (it was refused more than 3 processes)"
    assert explained(KILLED, group, limits) == Verdict(Outcome.FAILED, "killed: more than 1.5 MiB of memory", None, 9)
    timeout = Verdict(Outcome.TIMEOUT, "timed out after 6s")
    assert explained(timeout, group, limits) == timeout


def test_no_group_is_killed_for_a_process_that_cannot_be_seen(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("0\n12\n")
    assert Group(tmp_path).pids() == [12]


def test_a_launch_within_a_group() -> None:
    launch = Launch(argv=("python", "child.py", "/app", "77", "1048576", "--fork", "jobs.run"), channel_at=3)
    group = Group(Path("/cg/relayctl-abc.7"))
    assert launch.within(None, keeps_memory=True) is launch
    assert launch.within(group, keeps_memory=False).argv[4] == "1048576:/cg/relayctl-abc.7"
    assert launch.within(group, keeps_memory=True).argv == (*launch.argv[:4], "0:/cg/relayctl-abc.7", *launch.argv[5:])
