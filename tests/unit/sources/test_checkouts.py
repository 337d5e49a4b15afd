"""Directories by revision: laid out once, however many workers want one at the same time."""

from __future__ import annotations

import threading
from pathlib import Path

from relayctl.host.clock import SystemClock
from relayctl.sources.checkouts import Checkouts

REVISION = "0123456789ab"


def test_workers_that_want_the_same_at_once_lay_it_out_once(tmp_path: Path) -> None:
    filled: list[Path] = []
    begun, may_end = threading.Event(), threading.Event()

    def fill(directory: Path) -> None:
        filled.append(directory)
        begun.set()
        assert may_end.wait(10)
        (directory / "app").write_text("whole")

    def place() -> None:
        directory = Checkouts(tmp_path / "trees", SystemClock()).place(REVISION, fill)
        assert (directory / "app").read_text() == "whole"

    threads = [threading.Thread(target=place) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    may_end.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(filled) == 1


def test_one_that_fails_leaves_nothing_and_the_next_one_tries(tmp_path: Path) -> None:
    trees = Checkouts(tmp_path / "trees", SystemClock())

    def fail(_directory: Path) -> None:
        raise OSError(28, "No space left on device")

    for fill, is_there in ((fail, False), (lambda directory: (directory / "app").write_text("x"), True)):
        try:
            trees.place(REVISION, fill)
        except OSError:
            assert not is_there
        assert trees.directory(REVISION).is_dir() == is_there
    assert not list((tmp_path / "trees").glob("*.new"))
