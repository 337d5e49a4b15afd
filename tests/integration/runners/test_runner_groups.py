"""Process trees in control groups of the real kernel. What no controller is there for is left out, with the reason."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runner_stage import Stage, is_alive, zoo_build
from support.broker import await_fact
from support.kernelgroup import KillingOnly, group_of_test

from relayctl.core.model import Isolation, Resources
from relayctl.runners.build import Build
from relayctl.runners.cgroups import NOTHING, PREFIX, Delegation, Group
from relayctl.runners.invocation import Outcome

ESCAPES = """
import os, subprocess, sys, time


def escape(event):
    # Out of its session and group, and maybe with an empty environment: then by neither would it be found.
    grandchild = [sys.executable, "-S", "-c", "import time; time.sleep(300)"]
    environ = {} if event.get("empty") else None
    process = subprocess.Popen(grandchild, env=environ, start_new_session=True, stdout=subprocess.DEVNULL)
    print(process.pid, flush=True)
    if event.get("s"):
        time.sleep(event["s"])
    if event.get("fail"):
        raise SystemExit(3)


def where(event):
    with open("/proc/self/cgroup") as file:
        print(*[line[3:].strip() for line in file if line.startswith("0::")])
"""

EXEC = """#!/bin/sh
grep -q empty && empty="env -i"
$empty setsid sleep 300 >/dev/null 2>&1 &
echo $!
exec sleep 300
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with group_of_test() as path:
        yield path


def build_of(directory: Path, **changes: object) -> Build:
    (directory / "jobs.py").write_text(ESCAPES)
    program = directory / "escape.sh"
    program.write_text(EXEC)
    program.chmod(0o755)
    fields = {"directory": directory, "resources": Resources(pids=50), **changes}
    return zoo_build(**fields)


KINDS = pytest.mark.parametrize(
    ("handler", "changes"),
    [
        ("jobs.escape", {}),
        ("jobs.escape", {"isolation": Isolation.FRESH}),
        ("escape.sh", {"runtime": "exec"}),
    ],
    ids=["warm", "fresh", "exec"],
)


@KINDS
def test_a_timeout_takes_whoever_left_session_and_environment(
    make_stage: Callable[..., Stage], root: Path, tmp_path: Path, handler: str, changes: dict[str, object]
) -> None:
    stage = make_stage(build_of(tmp_path, **changes), delegation=KillingOnly(root=root), grace_s=0.1)
    times_out(stage, handler, changes, b'{"s": 300, "empty": 1}')
    stage.pool.close()
    assert not list(root.glob("relayctl-*"))


@KINDS
def test_without_a_group_it_takes_whoever_left_the_session(
    make_stage: Callable[..., Stage], tmp_path: Path, handler: str, changes: dict[str, object]
) -> None:
    stage = make_stage(build_of(tmp_path, **changes), delegation=NOTHING, grace_s=0.1)
    times_out(stage, handler, changes, b'{"s": 300}')


def times_out(stage: Stage, handler: str, changes: dict[str, object], event: bytes) -> None:
    if "runtime" not in changes:
        stage.ready()
    (ended,) = stage.finish(stage.run(handler, event=event, timeout_s=1.5))
    assert ended.outcome is Outcome.TIMEOUT
    (pid,) = (int(line) for line in stage.texts("stdout"))
    stage.until(lambda: not is_alive(pid))


def test_a_failure_takes_them_too(make_stage: Callable[..., Stage], root: Path, tmp_path: Path) -> None:
    stage = make_stage(build_of(tmp_path, isolation=Isolation.FRESH), delegation=KillingOnly(root=root))
    ended = stage.one("jobs.escape", event=b'{"fail": 1, "empty": 1}')
    assert ended.outcome is Outcome.FAILED
    stage.until(lambda: not is_alive(int(stage.texts("stdout")[0])))
    stage.pool.close()


@pytest.mark.parametrize("isolation", Isolation)
def test_each_tree_is_in_a_group_of_its_own(
    make_stage: Callable[..., Stage], root: Path, tmp_path: Path, isolation: Isolation
) -> None:
    stage = make_stage(build_of(tmp_path, isolation=isolation), delegation=KillingOnly(root=root))
    stage.finish(*(stage.run("jobs.where") for _ in range(2)))
    found = {Path(text).name for text in stage.texts("stdout")}
    assert all(name.startswith(PREFIX) for name in found)
    assert len(found) == 2 or isolation is Isolation.WARM
    stage.pool.close()
    assert not list(root.glob("relayctl-*"))


GUARDED = """
import selectors, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from runner_stage import Stage, zoo_build
from support.kernelgroup import KillingOnly

stage = Stage(delegation=KillingOnly(root=Path({root!r})))
stage.pool.deploy(zoo_build(directory=Path({directory!r})))
stage.pool.start(stage.run("jobs.escape", event=b'{{"s": 300, "empty": 1}}', timeout_s=300))
stage.until(lambda: stage.texts("stdout"))
print(stage.texts("stdout")[0], flush=True)
stage.until(lambda: False, within=60)
"""


def test_a_killed_worker_leaves_nobody_and_no_group(root: Path, tmp_path: Path) -> None:
    build_of(tmp_path)
    text = GUARDED.format(
        paths=[str(Path(__file__).parent), str(Path(__file__).parents[2])], root=str(root), directory=str(tmp_path)
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        assert is_alive(pid)
        worker.send_signal(signal.SIGKILL)
    await_fact(lambda: not is_alive(pid), "a stray of a killed worker is gone")
    await_fact(lambda: not list(root.glob("relayctl-*")), "the groups of a killed worker are gone")


# On a plain directory: what is written where, and what is made of the kernel's counts


FAKED = """
import glob, os, resource, signal


def limits(event):
    print(resource.getrlimit(resource.RLIMIT_DATA)[0])


def is_killed(event):
    for group in glob.glob(os.environ["ROOT"] + "/relayctl-*"):
        with open(group + "/memory.events", "w") as file:
            file.write("oom_kill 1\\n")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "groups"
    path.mkdir()
    monkeypatch.setattr(Group, "remove", lambda group: shutil.rmtree(group.path, ignore_errors=True) is None)
    return path


def faked(directory: Path, root: Path, **changes: object) -> Build:
    (directory / "jobs.py").write_text(FAKED)
    limits = Resources(memory=256 << 20, cpus=0.5, pids=20)
    return zoo_build(directory=directory, resources=limits, env=(("ROOT", str(root)),), **changes)


@pytest.mark.parametrize("isolation", Isolation)
def test_what_killed_it_is_named(
    make_stage: Callable[..., Stage], plain: Path, tmp_path: Path, isolation: Isolation
) -> None:
    stage = make_stage(
        faked(tmp_path, plain, isolation=isolation),
        delegation=Delegation(root=plain, controllers=frozenset({"cpu", "memory", "pids"})),
    )
    ended = stage.one("jobs.is_killed")
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, "killed: more than 256 MiB of memory")
    assert stage.one("jobs.limits").outcome is Outcome.SUCCEEDED
    files = [(path / "memory.max").read_text() for path in plain.glob("relayctl-*")]
    assert files and set(files) == {str(256 << 20)}
    stage.pool.close()
    assert stage.texts() == ["-1"]  # the group keeps it, so nothing else does
    assert not list(plain.glob("relayctl-*"))


def test_without_that_controller_each_process_is_limited(
    make_stage: Callable[..., Stage], plain: Path, tmp_path: Path
) -> None:
    stage = make_stage(faked(tmp_path, plain), delegation=Delegation(root=plain, controllers=frozenset({"pids"})))
    assert stage.one("jobs.limits").outcome is Outcome.SUCCEEDED
    assert stage.texts() == [str(256 << 20)]
    stage.pool.close()


@pytest.mark.parametrize("runtime", ["python", "exec"])
def test_a_group_that_cannot_be_made_is_the_reason(
    make_stage: Callable[..., Stage], tmp_path: Path, runtime: str
) -> None:
    nowhere = Delegation(root=tmp_path / "nowhere", controllers=frozenset({"pids"}))
    stage = make_stage(build_of(tmp_path, runtime=runtime), delegation=nowhere)
    ended = stage.one("jobs.where" if runtime == "python" else "escape.sh")
    assert (ended.outcome, ended.started) == (Outcome.FAILED, False)
    assert "its control group cannot be made: No such file or directory" in ended.reason


# With the controllers


LIMITED = """
import os, time


def grow(event):
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20)))


def multiply(event):
    for _ in range(50):
        if os.fork() == 0:
            time.sleep(300)
            os._exit(0)
"""


@pytest.fixture
def limited(root: Path) -> Delegation:
    wanted = {"memory", "pids"}
    available = set((root.parent / "cgroup.subtree_control").read_text().split())
    if not wanted <= available:
        pytest.skip("the control group of this process hands down no memory and pids controllers of version 2")
    for name in wanted:
        (root / "cgroup.subtree_control").write_text(f"+{name}")
    return Delegation(root=root, controllers=frozenset(wanted))


@pytest.mark.parametrize("isolation", Isolation)
def test_memory_and_processes_are_bounded_for_the_tree(
    make_stage: Callable[..., Stage], limited: Delegation, tmp_path: Path, isolation: Isolation
) -> None:
    (tmp_path / "jobs.py").write_text(LIMITED)
    resources = Resources(memory=64 << 20, pids=8)
    stage = make_stage(zoo_build(directory=tmp_path, isolation=isolation, resources=resources), delegation=limited)
    grown, multiplied = stage.finish(stage.run("jobs.grow"), stage.run("jobs.multiply"))
    assert (grown.outcome, grown.reason) == (Outcome.FAILED, "killed: more than 64 MiB of memory")
    assert multiplied.outcome is Outcome.FAILED
    assert "refused more than 8 processes" in multiplied.reason
    stage.pool.close()
