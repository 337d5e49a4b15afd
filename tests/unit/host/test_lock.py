"""The file lock: one holder, known to others, freed by death, lent to a child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest
from support.broker import await_fact

from relayctl.errors import FileFailure, StateBusy
from relayctl.host.clock import HeldClock
from relayctl.host.lock import FileLock

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CLOCK = HeldClock(NOW)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.lock"


def test_one_holds_it_and_the_other_learns_who(path):
    first, second = FileLock(path, CLOCK), FileLock(path, CLOCK)
    assert first.try_acquire()
    assert not second.try_acquire()
    assert not first.try_acquire()
    holder = second.holder()
    assert (holder.pid, holder.since_at) == (os.getpid(), NOW)
    first.release()
    first.release()
    assert second.try_acquire()
    second.release()


def test_release_leaves_no_record_and_the_file(path):
    with FileLock(path, CLOCK):
        assert FileLock(path, CLOCK).is_held()
    assert path.exists()
    assert FileLock(path, CLOCK).holder() is None
    assert not FileLock(path, CLOCK).is_held()


def test_a_refused_block_names_the_holder(path):
    with FileLock(path, CLOCK), pytest.raises(StateBusy, match=rf"{os.getpid()} since 2026-03-01T12:00") as caught:
        FileLock(path, CLOCK).__enter__()
    assert caught.value.help


def test_a_torn_record_is_no_record(path):
    path.write_bytes(b"12")
    assert FileLock(path, CLOCK).holder() is None
    path.write_bytes(b"\xff\xfe 1")
    assert FileLock(path, CLOCK).holder() is None


def test_asking_makes_no_file(path):
    assert not FileLock(path, CLOCK).is_held()
    assert not path.exists()


def test_an_unusable_place_is_a_clear_error(tmp_path):
    with pytest.raises(FileFailure, match="cannot be used") as caught:
        FileLock(tmp_path / "none" / "x.lock", CLOCK).try_acquire()
    assert caught.value.help


def test_only_a_holder_has_a_descriptor(path):
    with pytest.raises(StateBusy):
        FileLock(path, CLOCK).fileno()


def test_those_who_share_it_are_seen_only_when_asked_for(path):
    first, second, asking = (FileLock(path, CLOCK) for _ in range(3))
    first.share()
    second.share()
    assert not asking.is_held()
    assert asking.is_held(counting_shared=True)
    first.release()
    assert asking.is_held(counting_shared=True)
    second.release()
    assert not asking.is_held(counting_shared=True)


HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_death_by_kill_frees_it(path):
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        lock = FileLock(path, CLOCK)
        assert not lock.try_acquire()
        holder.send_signal(signal.SIGKILL)
        await_fact(lock.try_acquire, "the lock of a dead process is still held")
        lock.release()


def test_handed_over_it_lasts_as_long_as_the_child(path):
    lock, other = FileLock(path, CLOCK), FileLock(path, CLOCK)
    assert lock.try_acquire()
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=(lock.fileno(),)
    )
    lock.record(child.pid)
    lock.hand_over()
    assert not other.try_acquire()
    assert other.holder().pid == child.pid
    child.stdin.close()
    child.wait()
    assert other.try_acquire()
    other.release()


def test_remove_leaves_no_file_when_nobody_holds_it(path):
    lock = FileLock(path, CLOCK)
    assert lock.try_acquire()
    lock.remove()
    assert not lock.path.exists()
    assert lock.try_acquire()
    lock.release()


def test_remove_leaves_the_file_of_another_holder(path):
    holder, other = (FileLock(path, CLOCK) for _ in range(2))
    holder.share()
    other.remove()
    assert holder.path.exists()
    assert other.is_held(counting_shared=True)
    holder.release()


def test_whoever_opened_a_file_that_was_removed_meanwhile_locks_the_new_one(path):
    # Threads that acquire, count themselves and remove: were a removed file ever enough, two would be inside at once.
    inside, most, rounds = [0], [0], 60
    mutex = threading.Lock()

    def work():
        for _ in range(rounds):
            lock = FileLock(path, CLOCK)
            while not lock.try_acquire():
                pass
            with mutex:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            with mutex:
                inside[0] -= 1
            lock.remove()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
