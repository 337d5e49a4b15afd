"""The slot file: everybody's change counts, what stays is not written, the file is never another one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from relayctl.errors import FileFailure
from relayctl.host.cycle.slots import SlotFile


def test_no_change_is_lost_among_many(tmp_path: Path) -> None:
    def count(before: bytes) -> bytes:
        return b"%d" % (int(before or b"0") + 1)

    def work() -> None:
        slot = SlotFile(tmp_path / "slot")
        for _ in range(50):
            slot.mutate(count)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert SlotFile(tmp_path / "slot").read() == b"200"


def test_it_is_made_on_first_use_for_its_owner_and_stays_the_same_file(tmp_path: Path) -> None:
    slot = SlotFile(tmp_path / "slot")
    assert slot.read() == b""
    assert slot.mutate(lambda before: before + b"long content") == b"long content"
    made = slot.path.stat()
    assert made.st_mode & 0o777 == 0o600
    assert slot.mutate(lambda _: b"x") == b"x"
    assert slot.read() == b"x"
    assert slot.path.stat().st_ino == made.st_ino


def test_what_stays_as_it_is_is_not_written(tmp_path: Path) -> None:
    slot = SlotFile(tmp_path / "slot")
    slot.mutate(lambda _: b"x")
    os.utime(slot.path, (1, 1))
    slot.mutate(lambda before: before)
    assert slot.path.stat().st_mtime == 1


def test_a_change_that_fails_leaves_all_as_it_was_and_frees_the_file(tmp_path: Path) -> None:
    slot = SlotFile(tmp_path / "slot")
    slot.mutate(lambda _: b"x")

    def fail(_before: bytes) -> bytes:
        raise KeyError

    with pytest.raises(KeyError):
        slot.mutate(fail)
    with pytest.raises(ValueError, match="at most"):
        slot.mutate(lambda _: b"x" * 70_000)
    assert slot.mutate(lambda before: before + b"y") == b"xy"


def test_a_place_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileFailure, match="cannot be used"):
        SlotFile(tmp_path / "not" / "slot").mutate(lambda before: before)
