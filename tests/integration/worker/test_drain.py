"""Stopping: what each signal does, what becomes of running handlers, and a broker that is down or silent."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.fleet import PROGRAM, Fleet, ServeProcess, await_true, is_running

if TYPE_CHECKING:
    from pathlib import Path

SLOW = "- {handler: jobs.on_slow_event, pattern: {kind: [go]}, timeout: 60s}"
EVERY_SECOND = "- {name: tick, handler: jobs.run, every: 1s}"


def slow_app(fleet: Fleet, takes: float, concurrency: int = 1) -> None:
    fleet.tree.app("app", events=SLOW, head=f"concurrency: {concurrency}", env=f"TAKES: '{takes}'")


def begin(fleet: Fleet, count: int = 1) -> None:
    for number in range(count):
        fleet.emit(kind="go", id=str(number))
    await_true(lambda: fleet.tree.runs("begin"), "the handler does not begin")


def nothing_is_left(worker: ServeProcess, state: Path, children: list[int]) -> None:
    await_true(lambda: not any(is_running(pid) for pid in children), "children are left running", within_s=10)
    assert [path.name for path in state.rglob("*") if path.is_socket()] == []
    assert worker.noise == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_running_handler_may_finish(fleet: Fleet, number: signal.Signals) -> None:
    slow_app(fleet, takes=2)
    worker = fleet.start("--drain", "15s")
    begin(fleet)
    children = worker.children()
    assert children
    assert worker.stop(number) == 0
    assert [line["what"] for line in fleet.tree.runs()] == ["begin", "end"]
    stopped = worker.told("stopped")[0]
    assert (stopped["finished"], stopped["interrupted"]) == (1, 0)
    assert fleet.backlog() == 0
    assert fleet.client.zcard(fleet.keys.workers) == 0
    nothing_is_left(worker, fleet.root / "state-0", children)


def test_ctrl_c_in_a_terminal_does_not_hit_handlers(fleet: Fleet) -> None:
    slow_app(fleet, takes=2)
    worker = fleet.start("--drain", "15s")
    begin(fleet)
    worker.send_group(signal.SIGINT)
    assert worker.await_exit() == 0
    assert [line["what"] for line in fleet.tree.runs()] == ["begin", "end"]


def test_a_long_handler_is_interrupted_uncharged_and_runs_on_a_peer_at_once(fleet: Fleet) -> None:
    slow_app(fleet, takes=3)
    first = fleet.start("--drain", "500ms")
    begin(fleet, count=2)
    peer = fleet.start()
    first.send(signal.SIGTERM)
    took = await_true(lambda: len(fleet.tree.runs("begin")) >= 2, "no peer takes it", within_s=8)
    assert took < 5, "the peer waited for a lease to end"
    assert first.await_exit() == 0
    assert first.told("stopped")[0]["interrupted"] == 1
    fleet.await_idle(within_s=30)
    assert {line["attempt"] for line in fleet.tree.runs()} == {1}, "a cut attempt was charged"
    assert sorted(line["id"] for line in fleet.tree.runs("end")) == ["0", "1"]
    assert len(fleet.tree.runs("begin")) == 3
    assert peer.stop() == 0


@pytest.mark.parametrize("how", ["second", "quit"])
def test_a_second_signal_or_quit_skips_the_wait(fleet: Fleet, how: str) -> None:
    slow_app(fleet, takes=30)
    worker = fleet.start("--drain", "60s")
    begin(fleet)
    children = worker.children()
    worker.send(signal.SIGQUIT if how == "quit" else signal.SIGTERM)
    worker.await_told("draining")
    if how == "second":
        worker.send(signal.SIGINT)
    assert worker.await_exit(within_s=10) == 0
    assert worker.told("run-interrupted")
    nothing_is_left(worker, fleet.root / "state-0", children)


def test_hang_up_looks_at_the_tree_and_stops_nothing(fleet: Fleet) -> None:
    fleet.tree.nightly("app")
    worker = fleet.start("--resync", "off", is_watch_silent=True)
    fleet.tree.nightly("app", minute=7)
    worker.send(signal.SIGHUP)
    await_true(lambda: fleet.generation() == 2, "the edit is not seen")
    assert worker.process.poll() is None
    assert worker.stop() == 0


def test_an_embedded_broker_goes_with_its_owner_and_the_next_start_carries_on(fleet: Fleet) -> None:
    fleet.tree.app("app", EVERY_SECOND)
    state = fleet.root / "own"
    worker = fleet.start(redis="", state=state)
    broker_pid = worker.await_told("broker-started")["pid"]
    worker.await_told("run-ended", count=2)
    assert worker.stop() == 0
    await_true(lambda: not is_running(broker_pid), "its broker is left running")
    nothing_is_left(worker, state, [])
    seen = {fact["scheduled_at"] for fact in worker.told("published")}
    again = fleet.start(redis="", state=state)
    again.await_told("run-ended", count=2)
    assert again.stop() == 0
    after = [fact["scheduled_at"] for fact in again.told("published")]
    assert not seen & set(after)
    # The short gap between the two was lateness: nothing in it is missing.
    assert min(after) > max(seen)
    assert again.told("loop-failed") == []


def test_a_namespace_in_the_other_mode_is_refused(fleet: Fleet) -> None:
    fleet.tree.nightly("app")
    fleet.client.set(fleet.keys.mode, "push")
    worker = fleet.start(wait=False)
    assert worker.await_exit(within_s=15) == 7
    assert "push mode" in "".join(worker.noise)
    assert "Traceback" not in "".join(worker.noise)


def test_a_stop_while_starting_ends_it(fleet: Fleet) -> None:
    fleet.tree.app("app", EVERY_SECOND)
    worker = fleet.start(wait=False)
    await_true(fleet.client.client_list, "nobody connects")
    await_true(lambda: worker.told("app-loaded") or worker.process.poll() is not None, "it does not start")
    assert worker.stop() == 0
    assert os.path.isdir(fleet.root / "state-0")


ON_TERMINAL = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)
for stream in range(3):
    os.dup2(terminal, stream)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Makes a terminal the controlling one of a new session, as a terminal program does, and becomes a worker there."""


def test_a_closed_terminal_stops_it_and_leaves_nothing(fleet: Fleet) -> None:
    fleet.tree.nightly("app")
    state = fleet.root / "state-tty"
    terminal, slave = pty.openpty()
    serve = ["serve", "--apps", str(fleet.tree.root), "--state-dir", str(state), "--redis", fleet.url]
    worker = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, os.ttyname(slave), str(PROGRAM), *serve], start_new_session=True
    )
    try:
        shown = b""
        while b" started, pid" not in shown:
            shown += os.read(terminal, 4096)
        os.close(slave)
        os.close(terminal)
        assert worker.wait(15) == 0
    finally:
        worker.kill()
        worker.wait()
    assert [path.name for path in state.rglob("*") if path.is_socket()] == []
    assert fleet.client.zcard(fleet.keys.workers) == 0


@pytest.mark.slow
def test_what_was_fetched_ahead_is_left_to_peers_at_once_and_uncharged(fleet: Fleet) -> None:
    slow_app(fleet, takes=1, concurrency=2)
    worker = fleet.start("--drain", "15s")
    for number in range(20):
        fleet.emit(kind="go", id=str(number))
    await_true(lambda: len(fleet.tree.runs("begin")) == 2, "two do not begin")
    peer = fleet.start()
    worker.send(signal.SIGTERM)
    worker.await_told("draining")
    assert worker.await_exit() == 0
    stopped = worker.told("stopped")[0]
    assert stopped["interrupted"] == 0
    assert len(worker.told("run-started")) == stopped["finished"]
    fleet.await_idle(within_s=30)
    assert sorted(int(line["id"]) for line in fleet.tree.runs("end")) == list(range(20))
    assert len(fleet.tree.runs("begin")) == 20
    assert {line["attempt"] for line in fleet.tree.runs()} == {1}
    assert fleet.dead_letters() == []
    assert peer.told("run-failed") + worker.told("run-failed") == []
