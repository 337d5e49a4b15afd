"""Files that are replaced whole: their mode, a full disk, a death in the middle, and who clears up after it."""

from __future__ import annotations

import os
import resource
import signal
import stat
from pathlib import Path

import pytest

from relayctl.host import wholefile
from relayctl.host.secrets import SecretStore
from relayctl.host.wholefile import is_alive, sweep_unfinished, write_whole


def _in_child(act) -> int:
    """Run that in a process of its own; its wait status."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]


def _dead_pid() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_the_mode_is_what_was_asked_for_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    there = tmp_path / "file"
    there.write_text("old")
    there.chmod(0o777)
    before = os.umask(0o077)
    try:
        write_whole(there, b"new", mode=mode)
    finally:
        os.umask(before)
    assert (there.read_bytes(), stat.S_IMODE(there.stat().st_mode)) == (b"new", mode)
    assert os.listdir(tmp_path) == ["file"]


def test_it_can_be_like_another(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    (tmp_path / "model").chmod(0o4751)
    write_whole(tmp_path / "file", b"new", like=(tmp_path / "model").stat(), is_synced=True)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o4751


@pytest.mark.parametrize("length", [201, 255])
def test_a_long_name_is_no_obstacle(tmp_path: Path, length: int) -> None:
    write_whole(tmp_path / ("n" * length), b"new")
    assert os.listdir(tmp_path) == ["n" * length]


def test_no_room_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    there = tmp_path / "file"
    there.write_bytes(b"old")

    def write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        try:
            write_whole(there, b"x" * 4096)
        except OSError as error:
            os._exit(error.errno or 1)

    assert os.waitstatus_to_exitcode(_in_child(write)) == 27, "EFBIG, as a full disk is ENOSPC"
    assert (there.read_bytes(), os.listdir(tmp_path)) == (b"old", ["file"])


def test_a_death_in_the_middle_leaves_the_old_file_and_a_draft_to_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "file"
    there.write_bytes(b"old")
    # The moment between the whole draft and its name.
    monkeypatch.setattr(wholefile.Path, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    assert os.waitstatus_to_exitcode(_in_child(lambda: write_whole(there, b"new"))) == -signal.SIGKILL
    monkeypatch.undo()
    [draft] = [entry for entry in tmp_path.iterdir() if entry != there]
    assert (there.read_bytes(), draft.read_bytes()) == (b"old", b"new")
    write_whole(there, b"newer")
    sweep_unfinished(tmp_path)
    assert (there.read_bytes(), os.listdir(tmp_path)) == (b"newer", ["file"])


def test_the_draft_of_one_who_lives_is_left_alone(tmp_path: Path) -> None:
    mine, other, theirs = (tmp_path / f".{name}.{os.getpid()}" for name in ("a.1", "a.2", "b.1"))
    other = other.with_suffix(f".{_dead_pid()}")
    for path in (mine, other, theirs):
        path.touch()
    sweep_unfinished(tmp_path, "a")
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, theirs.name}


def test_who_lives() -> None:
    assert is_alive(os.getpid())
    assert is_alive(1), "also what is not ours"
    assert not is_alive(_dead_pid())
    assert not is_alive(1 << 70)


def test_a_removed_secret_is_in_no_draft_either(tmp_path: Path) -> None:
    store = SecretStore(None, tmp_path)
    store.set("token", "value")
    (tmp_path / f".token.abcdefgh.{_dead_pid()}").write_text("value")
    assert store.names() == ["token"]
    assert store.remove("token")
    assert os.listdir(tmp_path) == []
