"""The command runner: what a program says, when it is ended and how, and what is left of it then."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from support.broker import await_fact

from relayctl.host.cycle.command import Finish, Why, run_command


def sh(script: str, within_s: float = 20.0, **more: object) -> Finish:
    return run_command(["/bin/sh", "-c", script], environ={"PATH": os.environ["PATH"]}, within_s=within_s, **more)  # type: ignore[arg-type]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_what_it_says_and_how_it_ends() -> None:
    found = sh("echo out; echo err >&2; exit 3")
    assert found == Finish(why=Why.ENDED, code=3, output=b"out\n", errors=b"err\n")


def test_of_much_output_the_end_is_kept() -> None:
    found = sh("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done", most_output=1000)
    assert len(found.output) == 1000
    assert found.output.endswith(b"line 2999\n")


def test_what_takes_too_long_is_asked_first_and_may_clean_up(tmp_path: Path) -> None:
    mark = tmp_path / "cleaned"
    found = sh(f"trap 'touch {mark}; exit 0' TERM; while :; do sleep 0.02; done", within_s=0.3)
    assert (found.why, found.code) == (Why.OVERDUE, 0)
    assert mark.exists()


def test_what_does_not_listen_is_killed_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    found = sh(f"trap '' TERM; sleep 60 & echo $! $$ > {pids}; while :; do sleep 0.02; done", 0.3, grace_s=0.2)
    assert (found.why, found.code) == (Why.OVERDUE, -9)
    child, leader = (int(pid) for pid in pids.read_text().split())
    await_fact(lambda: is_gone(child) and is_gone(leader), "something of it lives on")


def test_nobody_waits_for_what_nobody_wants(tmp_path: Path) -> None:
    over = threading.Event()
    mark = tmp_path / "began"
    threading.Thread(target=lambda: (await_fact(mark.exists, "it did not begin"), over.set())).start()
    begun = time.monotonic()
    found = sh(f"touch {mark}; exec sleep 60", is_over=over.is_set)
    assert (found.why, found.code) == (Why.UNWANTED, -15)
    assert time.monotonic() - begun < 15


def test_what_it_leaves_running_on_purpose_lives(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    found = sh(f"sleep 60 & echo $! > {pid}")
    assert (found.why, found.code) == (Why.ENDED, 0)
    left = int(pid.read_text())
    assert not is_gone(left)
    os.kill(left, 9)


def test_what_closes_its_output_and_does_not_end_is_ended() -> None:
    found = sh("exec sleep 60 >&- 2>&-", grace_s=0.2)
    assert (found.why, found.code) == (Why.MUTE, -15)


def test_what_is_not_there_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_command([str(tmp_path / "none")], environ={}, within_s=1)
