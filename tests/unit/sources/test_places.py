"""Folders of places that nobody follows any more: which go, and which stay."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from relayctl.host.clock import SystemClock
from relayctl.sources.places import KEPT_FOR, Place

CLOCK = SystemClock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("now", "old", "fresh"):
        (tmp_path / "git" / name / "trees" / "abc").mkdir(parents=True)
        (tmp_path / "git" / name / "last-fetch.json").write_text("{}")
    return tmp_path / "git"


def _age(folder: Path, by: timedelta) -> None:
    then = CLOCK.now().timestamp() - by.total_seconds()
    for entry in (*folder.parent.glob(f"{folder.name}.*"), *folder.iterdir(), folder):
        os.utime(entry, (then, then))


def _sweep(home: Path) -> list[str]:
    place = Place(home / "now", CLOCK)
    place.sweep()
    place.close()
    return sorted(folder.name for folder in home.iterdir() if folder.is_dir())


def test_what_nobody_has_followed_for_long_goes(home: Path) -> None:
    for name in ("now", "old"):
        _age(home / name, KEPT_FOR + timedelta(minutes=1))
    _age(home / "fresh", KEPT_FOR - timedelta(minutes=1))
    assert _sweep(home) == ["fresh", "now"], "what is followed now stays, however old"
    assert not (home / "old.users").exists()


def test_one_that_was_fetched_lately_stays(home: Path) -> None:
    _age(home / "old", KEPT_FOR * 2)
    (home / "old" / "last-fetch.json").write_text("{}")
    assert _sweep(home) == ["fresh", "now", "old"]


def test_what_another_worker_follows_stays(home: Path) -> None:
    other, third = Place(home / "old", CLOCK), Place(home / "old", CLOCK)
    _age(home / "old", KEPT_FOR * 2)
    third.close()
    _age(home / "old", KEPT_FOR * 2)
    assert _sweep(home) == ["fresh", "now", "old"]
    other.close()
    assert _sweep(home) == ["fresh", "now", "old"], "it was followed a moment ago"
    _age(home / "old", KEPT_FOR * 2)
    assert _sweep(home) == ["fresh", "now"]


def test_a_place_that_has_no_room_for_a_lock_is_followed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = Place(tmp_path / "file" / "git" / "now", CLOCK)
    place.sweep()
    place.close()
