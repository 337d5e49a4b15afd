"""Handlers that misbehave, under every way to run one: each ends clearly, and the next run is none the worse.

A row says what the handler does, which handler of each kind does it, and how the run must end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from runner_stage import Stage, is_alive, open_descriptors, zoo_build

from relayctl.core.model import Isolation, Resources
from relayctl.runners import orphans
from relayctl.runners.invocation import Outcome

GLUTTONS = Resources(memory=256 * 1024 * 1024)
KINDS = {
    "warm": {"runtime": "python"},
    "fresh": {"runtime": "python", "isolation": Isolation.FRESH},
    "node": {"runtime": "node"},
    "exec": {"runtime": "exec"},
}
BOTH_PYTHONS = ("warm", "fresh")


class Row(NamedTuple):
    """What a handler does, who does it, and the end that is expected of it: outcome, and how its reason begins."""

    does: str
    handlers: dict[str, str]
    outcome: Outcome
    reason: str = ""
    event: bytes = b"{}"
    timeout_s: float = 30.0
    printed: int | None = None
    limited: bool = False


def by(python: str = "", node: str = "", program: str = "") -> dict[str, str]:
    found = dict.fromkeys(BOTH_PYTHONS, f"animals.{python}") if python else {}
    found |= {"node": f"beasts.{node}"} if node else {}
    return found | ({"exec": f"bin/{program}.sh"} if program else {})


GOOD, BAD = Outcome.SUCCEEDED, Outcome.FAILED
LATE = "timed out after 0.5s"
ROWS = (
    Row("ignores SIGTERM", by("stubborn", "stubborn", "stubborn"), Outcome.TIMEOUT, LATE, timeout_s=0.5),
    Row("stops itself", by("stopped"), Outcome.TIMEOUT, LATE, timeout_s=0.5),
    Row("forks and detaches", by("detach", "detach", "detach"), GOOD),
    Row("forks and both return", by("fork_and_return"), GOOD),
    Row("prints no text", by("binary", "binary", "binary"), GOOD),
    Row("prints much", by("print_much", "flood", "flood"), GOOD, event=b'{"mb": 5}', printed=5_000_000),
    Row("allocates 10 GB", by("allocate", "allocate"), BAD, event=b'{"bytes": 10000000000}', limited=True),
    Row("recurses", by("recursion", "recursion"), BAD),
    Row("closes fd 1", by("close_stdout", "close_stdout", "mute"), GOOD),
    Row("closes fd 1 and prints", by("print_after_close", "print_after_close"), BAD),
    Row("closes all descriptors", by("close_everything"), BAD, "the handler closed the runner's own channel"),
    Row("writes to the channel", by("garbage", "garbage"), BAD, "the handler wrote to the runner's own channel"),
    Row("leaves threads", by("leave_daemon_thread", "leave_timer"), GOOD),
    Row("changes its process", by("mess_up", "mess_up"), GOOD),
    Row("reads none of stdin", by("noop", "noop", "blind"), GOOD, event=b'"' + b"x" * 2_000_000 + b'"'),
    Row("reads all of stdin", by("echo_descriptor", "echo_stdin", "reader"), GOOD, event=b'"' + b"x" * 900_000 + b'"'),
    Row("returns a huge value", by("huge_value", "huge_value"), GOOD),
    Row("raises", by("raises", "raises", "seven"), BAD),
    Row("ends its process", by("vanish", "leave"), BAD, event=b'{"code": 7}'),
    Row("crashes", by("crash", "abort"), BAD, "killed by SIG"),
    Row("kills itself", by("kill_itself", "kill_itself"), Outcome.LOST, "killed by SIGKILL"),
    Row("becomes another program", by("become"), BAD, "the handler closed the runner's own channel"),
    Row("kills its parent", {"fresh": "animals.kill_parent"}, Outcome.LOST, "killed by SIGKILL"),
)
CASES = [(row, kind) for row in ROWS for kind in row.handlers]


def builds() -> Iterator[object]:
    for kind, changes in KINDS.items():
        if kind != "node" or shutil.which("node"):
            loaded = () if kind == "exec" else (f"{'beasts' if kind == 'node' else 'animals'}.noop",)
            yield zoo_build(app=kind, handlers=loaded, **changes)
            yield zoo_build(app=f"{kind}-limited", handlers=loaded, resources=GLUTTONS, **changes)


@pytest.fixture(scope="module")
def zoo() -> Iterator[Stage]:
    stage = Stage(grace_s=0.5, max_children=12)
    for build in builds():
        stage.pool.deploy(build)  # type: ignore[arg-type]
    yield stage
    stage.close()


@pytest.mark.parametrize(("row", "kind"), CASES, ids=[f"{row.does.replace(' ', '-')}-{kind}" for row, kind in CASES])
def test_each_ends_clearly_and_harms_no_other(zoo: Stage, row: Row, kind: str) -> None:
    if kind == "node" and not shutil.which("node"):
        pytest.skip("node is not on the PATH")
    zoo.lines.clear()
    zoo.ended.clear()
    app = f"{kind}-limited" if row.limited else kind
    if kind != "exec":
        zoo.ready(app=app)
    ended = zoo.one(row.handlers[kind], app=app, event=row.event, timeout_s=row.timeout_s)
    assert (ended.outcome, ended.started) == (row.outcome, True), ended
    assert ended.reason.startswith(row.reason) and bool(ended.reason) is (row.outcome is not GOOD)
    assert row.printed is None or row.printed <= ended.output_bytes <= row.printed * 1.05 + 10
    noop = {"node": "beasts.noop", "exec": "bin/noop.sh"}.get(kind, "animals.noop")
    assert zoo.one(noop, app=app).outcome is GOOD
    assert zoo.pool.busy() == 0


def test_a_program_that_wants_too_much_memory(zoo: Stage) -> None:
    ended = zoo.one("bin/glutton.sh", app="exec-limited")
    assert ended.outcome in (BAD, Outcome.LOST) and ended.reason


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "handler"), [("warm", "print_much"), ("fresh", "print_much"), ("node", "flood")])
def test_a_gigabyte_is_counted_and_not_kept(zoo: Stage, kind: str, handler: str) -> None:
    zoo.ended.clear()
    before = resident()
    ended = zoo.finish(
        zoo.run(
            f"{'beasts' if kind == 'node' else 'animals'}.{handler}", app=kind, event=b'{"mb": 1000}', timeout_s=800
        ),
        within=800,
    )[0]
    assert ended.outcome is GOOD and ended.output_bytes >= 1_000_000_000
    assert resident() < before + 30_000_000


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", BOTH_PYTHONS)
def test_twenty_seconds_of_imports_cost_no_run_time(kind: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("import time\ntime.sleep(20)\ndef handler(event):\n    print('at last')\n")
    stage = Stage()
    try:
        stage.pool.deploy(zoo_build(directory=tmp_path, handlers=("jobs.handler",), **KINDS[kind]))
        stage.pool.demand("zoo", 1)
        stage.until(lambda: stage.pool.capacity("zoo"), within=100)
        assert stage.one("jobs.handler", timeout_s=5).outcome is GOOD
    finally:
        stage.close()


WORKER = """
import sys
sys.path[:0] = sys.argv[1:3]
from runner_stage import Stage, zoo_build
stage = Stage()
stage.pool.deploy(zoo_build(concurrency=2, handlers=("animals.noop",)))
stage.pool.start(stage.run("animals.breed"))
stage.until(lambda: stage.texts())
stage.ready()
print(stage.texts()[0], *(child.process.pid for child in stage.pool._nursery.children), flush=True)
sys.stdin.readline()
stage.pool.start(stage.run("animals.kill_parent"))
while True:
    stage.pool.turn(1.0)
"""


def test_a_warm_handler_that_kills_the_worker_takes_everything_along() -> None:
    here = Path(__file__).parent
    command = [sys.executable, "-c", WORKER, str(here), str(here.parents[2])]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None and worker.stdin is not None
    with worker.stdout, worker.stdin:
        pids = [int(pid) for pid in worker.stdout.readline().split()]
        assert len(pids) == 5 and all(map(is_alive, pids))
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert worker.wait(30) == -signal.SIGKILL
    await_none(pids)


def await_none(pids: list[int]) -> None:
    from time import monotonic

    limit = monotonic() + 10.0
    while left := [pid for pid in pids if is_alive(pid)]:
        assert monotonic() < limit, left
        os.sched_yield()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def children_of(pid: int) -> set[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {int(child) for task in tasks for child in (task / "children").read_text().split()}


SOAK = (
    *[
        ("warm", f"animals.{name}")
        for name in ("noop", "noop", "noop", "echo", "count", "mess_up", "raises", "coroutine")
    ],
    *[("fresh", f"animals.{name}") for name in ("noop", "noop", "count", "leave", "fork_and_return", "raises")],
    *[("node", f"beasts.{name}") for name in ("noop", "noop", "echo", "mess_up", "raises", "awaits")],
    ("exec", "bin/noop.sh"),
)
RARE = (
    *[("warm", f"animals.{name}") for name in ("vanish", "crash", "kill_itself", "leave_thread", "close_stdout", "detach")],
    *[("fresh", f"animals.{name}") for name in ("vanish", "crash", "kill_itself", "leave_thread", "detach", "kill_parent")],
    *[("node", f"beasts.{name}") for name in ("leave", "abort", "close_stdout", "leave_timer", "throws_later")],
    ("exec", "bin/seven.sh"), ("exec", "bin/detach.sh"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not on the PATH")
def test_ten_thousand_runs_leave_nothing(zoo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "STATUS_KEPT_S", 2.0)
    batches = [soaked(zoo, number) for number in range(100)]
    assert sum(count for count, _, _ in batches) == 10_000
    settle(zoo)
    # The first batches fill caches and pools; from then on nothing may grow.
    assert max(memory for _, memory, _ in batches[20:]) < batches[20][1] + 8_000_000
    assert batches[-1][2] <= max(count for _, _, count in batches[:20])
    for zygote in zoo.pool._nursery._all_zygotes():
        assert len(children_of(zygote.process.pid)) <= 4
    zoo.until(lambda: not strays(zoo), within=10)


def strays(zoo: Stage) -> set[int]:
    """Children of this process that died and were not buried, or that live and are nobody's."""
    nursery = zoo.pool._nursery
    own = {each.process.pid for each in (*nursery.children, *nursery._all_zygotes())} | {nursery._guard.pid}
    return children_of(os.getpid()) - own


def soaked(zoo: Stage, number: int) -> tuple[int, int, int]:
    """A hundred runs; how many ended, and then the memory and the descriptors of this process."""
    kinds = [SOAK[(number * 98 + n) % len(SOAK)] for n in range(98)] + [
        RARE[(number * 2 + n) % len(RARE)] for n in (0, 1)
    ]
    event = b'{"n": 1, "code": 0, "s": 0}'
    ended = zoo.finish(*(zoo.run(handler, app=app, event=event, timeout_s=120) for app, handler in kinds), within=300)
    bad = [one for one in ended if one.outcome not in (GOOD, BAD, Outcome.LOST) or not one.started]
    assert not bad, bad
    zoo.ended.clear()
    zoo.lines.clear()
    settle(zoo)
    return len(ended), resident(), open_descriptors()


def settle(zoo: Stage) -> None:
    """Wait until nothing is on its way out or in."""
    zoo.until(lambda: all(child.run is None and child.state.name == "IDLE" for child in zoo.pool._nursery.children))
