"""Children that are forked for each run, and children in node, under a real worker."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from support.fleet import Fleet, ServeProcess

RULE = "- {handler: jobs.on_event, pattern: {kind: [go]}, backoff: [1s]}"
JOBS = """
import os, threading, time
{start}
seen = 0
def on_event(event):
    global seen
    seen += 1
    print("run", event["id"], seen, os.getpid(), os.getppid(), flush=True)
"""


def printed(worker: ServeProcess) -> list[list[str]]:
    lines = [fact["line"].split() for fact in worker.told("output")]
    return [line for line in lines if line[0] == "run"]


def test_each_run_is_a_fork_that_nobody_has_used(fleet: Fleet) -> None:
    folder = fleet.tree.app("app", events=RULE, head="isolation: fresh\nconcurrency: 3")
    (folder / "jobs.py").write_text(JOBS.format(start=""))
    worker = fleet.start()
    for number in range(6):
        fleet.emit(kind="go", id=str(number))
    fleet.await_idle()
    runs = printed(worker)
    assert sorted(number for _, number, *_ in runs) == [str(number) for number in range(6)]
    assert {seen for _, _, seen, *_ in runs} == {"1"}
    assert len({pid for *_, pid, _ in runs}) == 6 and len({parent for *_, parent in runs}) == 1
    assert worker.told("imports-unshared") == []
    # The zygote; a fork that waits for work may take this run with it, and then it is tried again.
    os.kill(int(runs[0][-1]), signal.SIGKILL)
    fleet.emit(kind="go", id="after")
    fleet.await_idle()
    assert printed(worker)[-1][1:3] == ["after", "1"]


def test_imports_that_start_threads_are_told_once(fleet: Fleet) -> None:
    folder = fleet.tree.app("app", events=RULE, head="isolation: fresh")
    start = "threading.Thread(target=time.sleep, args=(300,), daemon=True).start()"
    (folder / "jobs.py").write_text(JOBS.format(start=start))
    worker = fleet.start()
    for number in range(4):
        fleet.emit(kind="go", id=str(number))
    fleet.await_idle()
    assert len(printed(worker)) == 4
    assert [fact["reason"] for fact in worker.told("imports-unshared")] == ["importing them starts threads"]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not on the PATH")
def test_node_serves_events(fleet: Fleet) -> None:
    folder = Path(fleet.tree.root / "web")
    folder.mkdir()
    (folder / "template.yaml").write_text(f"runtime: node\nevents:\n  {RULE}\n")
    (folder / "jobs.mjs").write_text(
        "let seen = 0;\nexport async function on_event(event) {\n"
        "  console.log('run', event.id, ++seen, process.env.RELAY_APP);\n}\n"
    )
    worker = fleet.start()
    for number in range(5):
        fleet.emit(kind="go", id=str(number))
    fleet.await_idle()
    runs = printed(worker)
    assert sorted(number for _, number, *_ in runs) == [str(number) for number in range(5)]
    assert {app for *_, app in runs} == {"web"}
    worker.await_told("run-ended", count=5)
