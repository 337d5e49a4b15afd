"""The state directory: private, invisible to git, and with socket paths that fit."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import subprocess
import threading

import pytest

from relayctl.errors import FileFailure
from relayctl.host.state import MAX_SOCKET_BYTES, StateDir


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_create_is_private_and_repeatable(tmp_path):
    state = StateDir(tmp_path / "a" / "state").create().create()
    assert mode(state.path) == 0o700
    assert mode(state.broker_data) == 0o700


def test_create_tightens_what_was_open(tmp_path):
    (tmp_path / "state").mkdir(mode=0o755)
    assert mode(StateDir(tmp_path / "state").create().path) == 0o700


def test_git_does_not_see_it(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    state = StateDir(tmp_path / ".relayctl").create()
    state.outbox.write_text("x")
    seen = subprocess.run(["git", "-C", tmp_path, "status", "--porcelain"], capture_output=True, text=True).stdout
    assert seen == ""


def test_git_does_not_see_it_after_a_full_disk_either(tmp_path):
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            StateDir(tmp_path / "state").create()
        except FileFailure:
            os._exit(7)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert (StateDir(tmp_path / "state").create().path / ".gitignore").read_text() == "*\n"
    assert sorted(os.listdir(tmp_path / "state")) == [".gitignore", "broker"]


def test_a_file_in_its_place_is_a_clear_error(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(FileFailure, match="cannot be used") as caught:
        StateDir(tmp_path / "state").create()
    assert "--state-dir" in caught.value.help


def test_a_link_to_itself_is_a_clear_error(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(FileFailure, match="cannot be") as caught:
        StateDir(tmp_path / "loop" / "x").create()
    assert "--state-dir" in caught.value.help


def test_what_cannot_be_looked_at_is_a_clear_error(tmp_path):
    assert not StateDir(tmp_path / "absent").exists()
    assert StateDir(tmp_path / "there").create().exists()
    with pytest.raises(FileFailure, match="cannot be looked at") as caught:
        StateDir(tmp_path / ("x" * 300)).exists()
    assert "--state-dir" in caught.value.help


def test_two_spellings_are_one_directory(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert StateDir(tmp_path / "link" / ".." / "link").path == StateDir(tmp_path / "real").path


def test_a_short_path_keeps_its_socket(short_dir):
    state = StateDir(short_dir / "s")
    assert state.short_socket_path() == state.path / "broker.sock"
    assert state.short_socket_path("control-1.sock") == state.path / "control-1.sock"
    assert not state.path.exists()


@pytest.fixture
def deep(short_dir):
    state = StateDir(short_dir / ("d" * 150)).create()
    yield state
    if state.runtime_record.exists():
        shutil.rmtree(os.fsdecode(state.runtime_record.read_bytes()), ignore_errors=True)


def test_a_long_path_gets_a_short_private_recorded_one(deep):
    socket = deep.short_socket_path()
    assert len(os.fsencode(socket)) <= MAX_SOCKET_BYTES
    assert mode(socket.parent) == 0o700
    assert os.fsencode(socket.parent) == deep.runtime_record.read_bytes()
    assert StateDir(deep.path).short_socket_path() == socket


def test_the_limit_is_exact(short_dir):
    room = MAX_SOCKET_BYTES - len(os.fsencode(short_dir)) - len("//broker.sock")
    fitting = StateDir(short_dir / ("x" * room))
    assert len(os.fsencode(fitting.short_socket_path())) == MAX_SOCKET_BYTES
    assert fitting.short_socket_path().parent == fitting.path


def test_a_runtime_directory_that_was_cleaned_away_comes_back(deep):
    socket = deep.short_socket_path()
    socket.parent.rmdir()
    assert deep.short_socket_path() == socket
    assert mode(socket.parent) == 0o700


def test_a_runtime_directory_that_others_may_enter_is_not_used(deep):
    planted = deep.short_socket_path().parent
    planted.chmod(0o755)
    fresh = deep.short_socket_path().parent
    assert fresh != planted
    assert mode(fresh) == 0o700
    planted.rmdir()


def test_of_many_at_once_all_get_the_same(deep):
    found, gate = [], threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        found.append(StateDir(deep.path).short_socket_path())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
