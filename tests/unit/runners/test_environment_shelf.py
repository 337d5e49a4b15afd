"""Where environments lie: what is half built is used by nobody, what is used is not removed, what a crash left goes."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from relayctl.host.clock import HeldClock
from relayctl.runners.environments.recipe import Kind, Recipe
from relayctl.runners.environments.shelf import Shelf


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "environments"


@pytest.fixture
def shelf(root: Path) -> Shelf:
    return shelf_on(root)


def shelf_on(root: Path) -> Shelf:
    """As another worker has it."""
    return Shelf(root, HeldClock(datetime.now(UTC)))


def put(shelf: Shelf, key: str, *, age_s: int = 0, is_whole: bool = True) -> Path:
    lock = shelf.lock(key)
    assert lock.try_acquire()
    place = shelf.prepare(key)
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(sys.executable)
    if is_whole:
        shelf.finish(Recipe(kind=Kind.PIP, key=key, interpreter=Path(sys.executable), directory=place, contents=""))
        at = (place / "relayctl.json").stat().st_mtime - age_s
        os.utime(place / "relayctl.json", (at, at))
    lock.remove()
    return place


def test_an_environment_counts_when_it_is_whole_and_as_long_as_its_interpreter_is_there(shelf: Shelf) -> None:
    place = put(shelf, "a", is_whole=False)
    assert shelf.find("a") is None
    assert shelf.hold("a") is None
    place = put(shelf, "a")
    found = shelf.hold("a")
    assert found is not None
    assert (found.directory, found.python) == (place, place / "bin" / "python")
    (place / "bin" / "python").unlink()
    (place / "bin" / "python").symlink_to("/nowhere/python")
    assert shelf.find("a") is None
    assert put(shelf, "a") == place
    assert shelf.find("a") is not None


def test_what_a_crash_left_goes_unless_somebody_builds_it_now(root: Path, shelf: Shelf) -> None:
    crashed, going_on = put(shelf, "a", is_whole=False), put(shelf, "b", is_whole=False)
    (root / "c.gone1234").mkdir()
    builder = shelf_on(root).lock("b")
    assert builder.try_acquire()
    assert shelf.sweep() == []
    assert (crashed.exists(), going_on.exists(), (root / "c.gone1234").exists()) == (False, True, False)
    builder.release()
    shelf.sweep()
    assert sorted(path.name for path in root.iterdir()) == []


def test_of_those_that_nobody_uses_the_youngest_stay(root: Path, shelf: Shelf) -> None:
    for number, key in enumerate("abcdef"):
        put(shelf, key, age_s=100 * number)
    other = shelf_on(root)
    assert other.hold("f") is not None
    shelf.remember("crm", "e")
    assert [removed.key for removed in shelf.sweep(most_unused=2)] == ["c", "d"]
    assert [(root / key).exists() for key in "abcdef"] == [True, True, False, False, True, True]
    other.release("f")
    shelf.forget("crm")
    assert {removed.key for removed in shelf.sweep(most_unused=0)} == set("abef")
    assert [path.name for path in root.iterdir()] == ["apps"]


def test_a_hold_ends_with_its_process(root: Path, shelf: Shelf) -> None:
    put(shelf, "a")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if shelf_on(root).hold("a") is not None and shelf.sweep(most_unused=0) == [] else 1
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert [removed.file for removed in shelf.sweep(most_unused=0)] == ["requirements.txt"]


def test_what_an_app_ran_with_is_remembered_for_the_next_worker(root: Path, shelf: Shelf) -> None:
    assert shelf.remembered("crm") is None
    shelf.remember("crm", "a")
    shelf.remember("crm", "b")
    assert shelf_on(root).remembered("crm") == "b"
    shelf.remember("crm", "")
    assert shelf_on(root).remembered("crm") == ""
    (root / "apps" / "crm").write_text("")
    assert shelf.remembered("crm") is None, "cut off by a crash"
    shelf.forget("crm")
    shelf.forget("crm")
    assert shelf.remembered("crm") is None
