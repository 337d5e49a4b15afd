"""The control socket: at-once answers, exactly one result, a bounded queue, hygiene of files, hostile clients."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.broker import await_fact

from relayctl.errors import ConnectionLost, FileFailure, RequestRejected, WorkerUnreachable
from relayctl.host import socket as server
from relayctl.host.client import submit
from relayctl.host.clock import SystemClock
from relayctl.host.frames import frame
from relayctl.host.socketfile import sockets_of
from relayctl.host.state import StateDir

InBackground = Callable[[Callable[[], Any]], list[Any]]


def _talk(path: Path, data: bytes) -> dict[str, Any]:
    """What the server answers to raw bytes."""
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(10)
        raw.connect(str(path))
        raw.sendall(data)
        return json.loads(raw.makefile().readline())


def test_the_socket_is_its_owners_alone(desk: Any) -> None:
    made = desk.open()
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700


def test_events_stream_back_and_the_result_comes_last(desk: Any) -> None:
    made = desk.open()
    desk.gate.set()
    events: list[str] = []
    result = submit(made.path, "wait", {"n": 7}, events.append)
    assert events == ["queued", "started"]
    assert result.is_ok and result.document == {"n": 7, "was_cancelled": False}


def test_a_question_is_answered_while_work_runs(desk: Any, in_background: InBackground) -> None:
    made = desk.open()
    outcome = in_background(lambda: submit(made.path, "wait", {"n": 1}))
    assert desk.begun.acquire(timeout=30)
    assert submit(made.path, "echo", {"a": [1]}, within_s=5).document == {"got": {"a": [1]}}
    desk.gate.set()
    await_fact(lambda: outcome, "the work never ended")
    assert outcome[0].document["n"] == 1


def test_work_runs_one_by_one_in_the_order_of_acceptance(desk: Any, in_background: InBackground) -> None:
    made = desk.open()
    outcomes = []
    for n in range(6):
        queued = threading.Event()
        outcomes.append(
            in_background(lambda n=n, queued=queued: submit(made.path, "wait", {"n": n}, lambda _: queued.set()))
        )
        assert queued.wait(5)
    desk.gate.set()
    await_fact(lambda: all(outcomes), "some request never got its result")
    assert desk.done == list(range(6))
    assert [outcome[0].document["n"] for outcome in outcomes] == list(range(6))


def test_a_full_queue_refuses_at_once_and_forgets_nothing(desk: Any, in_background: InBackground) -> None:
    made = desk.open(capacity=2)
    running = in_background(lambda: submit(made.path, "wait", {"n": 0}))
    assert desk.begun.acquire(timeout=30)
    waiting = []
    for n in (1, 2):
        queued = threading.Event()
        waiting.append(
            in_background(lambda n=n, queued=queued: submit(made.path, "wait", {"n": n}, lambda _: queued.set()))
        )
        assert queued.wait(5)
    with pytest.raises(RequestRejected, match=r"\(full\)"):
        submit(made.path, "wait", {"n": 3}, within_s=5)
    desk.gate.set()
    await_fact(lambda: running and all(waiting), "an accepted request got no result")
    assert desk.done == [0, 1, 2]
    assert submit(made.path, "wait", {"n": 4}).is_ok


def test_a_run_that_raises_is_a_result_and_its_text_stays_inside(desk: Any) -> None:
    made = desk.open()
    for name in ("crash", "boom"):
        result = submit(made.path, name, {})
        assert (result.is_ok, result.reason) == (False, "internal error: ZeroDivisionError")
    refused = submit(made.path, "refuse", {})
    assert (refused.is_ok, refused.reason, refused.help) == (False, "no such thing", "name another")
    desk.gate.set()
    assert submit(made.path, "wait", {"n": 1}).is_ok


def test_closing_refuses_work_cancels_what_waits_and_lets_the_running_one_end(
    desk: Any, in_background: InBackground
) -> None:
    made = desk.open()
    running = in_background(lambda: submit(made.path, "wait", {"n": 0}))
    assert desk.begun.acquire(timeout=30)
    queued = threading.Event()
    waiting = in_background(lambda: submit(made.path, "wait", {"n": 1}, lambda _: queued.set()))
    assert queued.wait(5)
    made.close()
    with pytest.raises(RequestRejected, match=r"\(closing\)"):
        submit(made.path, "wait", {}, within_s=5)
    assert submit(made.path, "echo", {}, within_s=5).is_ok
    desk.gate.set()
    await_fact(lambda: running and waiting, "somebody was left without a result")
    assert running[0].is_ok
    assert (waiting[0].is_ok, waiting[0].reason) == (False, "cancelled")
    assert desk.done == [0]


def test_a_stop_answers_for_work_that_does_not_end(desk: Any, in_background: InBackground) -> None:
    made = desk.open()
    running = in_background(lambda: submit(made.path, "wait", {"n": 0, "stubborn": True}))
    assert desk.begun.acquire(timeout=30)
    made.stop(within_s=0.2)
    await_fact(lambda: running, "the client was left waiting")
    assert running[0].reason == "cancelled"
    assert not made.path.exists()
    made.stop()


def test_a_client_that_left_costs_neither_its_work_nor_the_next(desk: Any) -> None:
    made = desk.open()
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(made.path))
        raw.sendall(frame({"path": "wait", "request": {"n": 1}}))
        assert desk.begun.acquire(timeout=30)
    desk.gate.set()
    assert submit(made.path, "wait", {"n": 2}).is_ok
    assert desk.done == [1, 2]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\n", "malformed"),
        (b"[]\n", "malformed"),
        (b'{"v":1}\n', "malformed"),
        (b'{"v":1,"path":"echo","request":3}\n', "malformed"),
        (b"\xff\xfe\n", "malformed"),
        (b"[" * 200_000 + b"\n", "malformed"),
        (b'{"v":2,"path":"echo","request":{}}\n', "version"),
        (b'{"path":"echo","request":{}}\n', "version"),
        (b'{"v":1,"path":"nope","request":{}}\n', "unknown"),
        (b'{"v":1,"path":"echo","request":{"a":"' + b"x" * 400_000 + b'"}}\n', "too-large"),
    ],
)
def test_a_bad_frame_is_refused_with_its_reason(desk: Any, data: bytes, reason: str) -> None:
    made = desk.open(limit=300_000)
    assert _talk(made.path, data) == {"v": 1, "event": "rejected", "reason": reason}


def test_silent_and_slow_clients_are_dropped_and_keep_nobody_out(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_REQUEST_WITHIN_S", 0.3)
    made = desk.open()
    silent = [socket.socket(socket.AF_UNIX) for _ in range(server._MOST_CONNECTIONS)]
    for raw in silent:
        raw.connect(str(made.path))
    await_fact(lambda: len(made._serving) == len(silent), "not all are served")
    with pytest.raises(RequestRejected, match=r"\(full\)"):
        submit(made.path, "echo", {}, within_s=5)
    slow = silent[0]
    slow.sendall(b"{")
    await_fact(lambda: not made._serving, "a silent client holds its thread")
    slow.settimeout(5)
    assert json.loads(slow.makefile().readline())["reason"] == "late"
    assert submit(made.path, "echo", {}, within_s=5).is_ok
    for raw in silent:
        raw.close()


def test_nobody_there_and_gone_before_the_end_are_different_errors(desk: Any, short_dir: Path) -> None:
    with pytest.raises(WorkerUnreachable, match="no worker answers"):
        submit(desk.state.path / "control-00000000.sock", "echo", {})
    path = short_dir / "quitter.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def quit_after_accepting() -> None:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.sendall(frame({"event": "queued"}))
            connection.close()

        thread = threading.Thread(target=quit_after_accepting)
        thread.start()
        with pytest.raises(ConnectionLost) as lost:
            submit(path, "wait", {})
        thread.join(5)
        assert "may still end" in (lost.value.help or "")
        with pytest.raises(WorkerUnreachable, match="does not answer within"):
            submit(path, "wait", {}, within_s=0.2)


def test_stale_sockets_go_and_live_ones_stay(desk: Any) -> None:
    stale = desk.state.path / "control-dead0000.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stale))
    first, second = desk.open("00000001"), desk.open("00000002")
    assert not stale.exists()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stale))
    assert sockets_of(desk.state, SystemClock()) == [first.path, second.path]
    assert not stale.exists()
    for made in (first, second):
        assert submit(made.path, "echo", {}, within_s=5).is_ok
        made.stop()
    assert sockets_of(desk.state, SystemClock()) == []


def test_a_socket_that_is_about_to_listen_is_not_taken_for_a_stale_one(desk: Any) -> None:
    from relayctl.host.lock import FileLock
    from relayctl.host.socketfile import GUARD

    young = desk.state.path / "control-00000009.sock"
    guard = FileLock(desk.state.path / GUARD, SystemClock())
    guard.share()
    with socket.socket(socket.AF_UNIX) as raw:
        raw.bind(str(young))
        assert sockets_of(desk.state, SystemClock()) == []
        assert young.exists()
        raw.listen()
        guard.release()
        assert sockets_of(desk.state, SystemClock()) == [young]


def test_a_long_path_gets_a_short_socket_that_clients_find(tmp_path: Path) -> None:
    from relayctl.host.socket import ControlSocket

    state = StateDir(tmp_path / ("long" * 30)).create()
    made = ControlSocket(state, "0a1b2c3d", SystemClock(), questions={"echo": dict}, work={})
    made.start()
    try:
        assert len(os.fsencode(made.path)) < 107
        assert sockets_of(StateDir(state.path), SystemClock()) == [made.path]
    finally:
        made.stop()
    assert not made.path.exists()
    made.path.parent.rmdir()


def test_a_token_that_is_taken_leaves_the_living_one_alone(desk: Any) -> None:
    made = desk.open()
    with pytest.raises(FileFailure):
        desk.open()
    assert submit(made.path, "echo", {}, within_s=5).is_ok


def test_no_state_directory_is_no_worker(tmp_path: Path) -> None:
    assert sockets_of(StateDir(tmp_path / "none"), SystemClock()) == []
    assert not (tmp_path / "none").exists()


_AS_NOBODY = """
import os, sys
from pathlib import Path
from relayctl.errors import RelayError
from relayctl.host.client import submit
from relayctl.host.clock import SystemClock
from relayctl.host.frames import Frames, frame
from relayctl.host.socketfile import sockets_of
from relayctl.host.state import StateDir
import relayctl.host.lock, pwd, socket
os.setgroups([]); os.setgid(65534); os.setuid(65534)
def tell(call):
    try:
        print(call())
    except RelayError as error:
        print(type(error).__name__, error.message)
state, path = Path(sys.argv[1]), Path(sys.argv[2])
if sys.argv[3] == "raw":
    raw = socket.socket(socket.AF_UNIX); raw.connect(str(path))
    try:
        raw.sendall(frame({"path": "echo", "request": {}}))
    except BrokenPipeError:
        pass  # it was quicker to refuse
    print(raw.makefile().readline())
else:
    tell(lambda: submit(path, "echo", {}))
    tell(lambda: sockets_of(StateDir(state), SystemClock()))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_users_attempt_is_refused_and_names_the_owner(desk: Any) -> None:
    made = desk.open()
    os.chmod(made.path.parent.parent, 0o755)

    def as_nobody(how: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, str(desk.state.path), str(made.path), how],
            capture_output=True, text=True, timeout=30, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    for line in as_nobody("closed").splitlines():
        assert line.startswith("RequestRejected") and "belongs to root (0)" in line
    # Where the modes were opened by hand, the kernel still tells the server who is asking.
    os.chmod(made.path.parent, 0o777)
    os.chmod(made.path, 0o777)
    assert json.loads(as_nobody("raw")) == {"v": 1, "event": "rejected", "reason": "foreign", "owner": "root (0)"}
    assert as_nobody("open").startswith("RequestRejected the control socket")
