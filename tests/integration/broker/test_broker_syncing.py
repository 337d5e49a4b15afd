"""Who forces the embedded broker's files to the disk, now that the server never does: its owner, each file that grows."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact

from relayctl.broker.config import AOF_DIRECTORY
from relayctl.broker.syncing import Syncer
from relayctl.store.connect import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.broker import PrivateBroker

    from relayctl.errors import FileFailure


class Disk:
    """Notes which file was synced; refuses while `is_sick`."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.asked = 0
        self.is_sick = False

    def sync(self, fd: int) -> None:
        self.asked += 1
        if self.is_sick:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        os.fsync(fd)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def syncing(disk: Disk) -> Iterator[Callable[[Path], list[FileFailure]]]:
    made: list[Syncer] = []

    def start(folder: Path) -> list[FileFailure]:
        told: list[FileFailure] = []
        made.append(Syncer(folder, told.append, every_s=0.01, sync=disk.sync))
        made[-1].start()
        return told

    yield start
    for each in made:
        each.stop()
        assert not each.is_alive()


def files_of(broker: PrivateBroker) -> Path:
    return broker.embedded.state.broker_data / AOF_DIRECTORY


def test_what_grows_is_synced_and_what_stands_still_is_not(
    broker: PrivateBroker, disk: Disk, syncing: Callable[[Path], list[FileFailure]]
) -> None:
    [file] = files_of(broker).glob("*.incr.aof")
    syncing(files_of(broker))
    with connect(broker.target) as client:
        await_fact(lambda: disk.asked == 1, "what lies there already is not synced")
        for number in range(1, 4):
            client.set("a", number)
            assert file.stat().st_size, "an answer came before its write"
            await_fact(lambda n=number: len(disk.synced) > n, "not synced")
    assert set(disk.synced) == {file.name}
    assert disk.asked == 4, "what did not grow was synced"


def test_a_rewrite_is_followed(broker: PrivateBroker, disk: Disk, syncing: Callable[[Path], list[FileFailure]]) -> None:
    [old] = files_of(broker).glob("*.incr.aof")
    told = syncing(files_of(broker))
    with connect(broker.target) as client:
        client.bgrewriteaof()
        await_fact(lambda: not old.exists(), "the rewrite does not end")
        client.set("a", 1)
        await_fact(lambda: any(name != old.name for name in disk.synced), "the new file is not synced")
    assert told == []


def test_a_disk_that_refuses_is_told_once_and_tried_again(
    broker: PrivateBroker, disk: Disk, syncing: Callable[[Path], list[FileFailure]]
) -> None:
    disk.is_sick = True
    told = syncing(files_of(broker))
    with connect(broker.target) as client:
        client.set("a", 1)
        await_fact(lambda: disk.asked >= 3, "it gave up")
        assert [error.message.rpartition(": ")[2] for error in told] == ["input/output error"]
        disk.is_sick = False
        await_fact(lambda: disk.synced, "a disk that is well again is not synced")
        disk.is_sick = True
        client.set("a", 2)
        await_fact(lambda: len(told) == 2, "the second time is not told")


def test_the_owner_syncs_as_long_as_its_server_lives(broker_factory: Callable[[], PrivateBroker]) -> None:
    first, second = broker_factory(), broker_factory()
    mine, others = (each.embedded._syncer for each in (first, second))
    assert others is None
    assert mine is not None and mine.is_alive()
    first.kill()
    first.restart()
    assert first.embedded._syncer is not mine and not mine.is_alive()
    first.stop()
    assert first.embedded._syncer is None or not first.embedded._syncer.is_alive()
