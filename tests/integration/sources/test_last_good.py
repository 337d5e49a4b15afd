"""What is kept of templates: written only on change, for the owner alone, by root; what is odd is left and told."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from relayctl.sources import lastgood
from relayctl.sources.lastgood import LastGood
from relayctl.templates.load import load_app

TEMPLATE = b"runtime: python\nevents: [{handler: jobs.on, pattern: {kind: [x]}}]\n"
OTHER = TEMPLATE.replace(b"[x]", b"[\xc3\xa4]")


class Shelf:
    """A root, what is kept of it, and what was told."""

    def __init__(self, base: Path, root: str = "apps") -> None:
        self.root = base / root
        self.kept = base / "last-good"
        self.facts: list[Any] = []
        for name in ("app", "other"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
            (self.root / name / "jobs.py").write_text("def on(event):\n    pass\n")
            (self.root / name / "template.yaml").write_bytes(TEMPLATE)
        self.open()

    def open(self) -> None:
        """As another process does."""
        self.last_good = LastGood(self.kept, self.root, self.facts.append)

    def file(self, name: str = "app") -> Path:
        [found] = self.kept.glob(f"*/{name}.json")
        return found

    def reasons(self) -> list[str]:
        return [fact.reason for fact in self.facts]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_what_was_kept_is_the_app_that_was_good_beside_whatever_stands_there_now(shelf: Shelf) -> None:
    good = load_app(shelf.root / "app", root=shelf.root)
    shelf.last_good.keep({"app": TEMPLATE})
    (shelf.root / "app" / "template.yaml").write_text("{")
    shelf.open()
    stored = shelf.last_good.load("app")
    assert stored is not None
    assert (stored.app, stored.template_digest) == (good.app, good.template_digest)
    assert stored.revision == good.digest, "a mended template would be taken for a change"
    assert stored.directory == shelf.root / "app"
    (shelf.root / "app" / "jobs.py").write_text("def on(event):\n    return 1\n")
    again = shelf.last_good.load("app")
    assert again is not None
    assert again.revision != good.digest, "other code would be taken for what was mended"
    assert shelf.facts == []


def test_files_are_private_and_written_only_on_change(shelf: Shelf) -> None:
    shelf.last_good.keep({"app": TEMPLATE, "other": TEMPLATE})
    file = shelf.file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    before = file.stat().st_ino
    shelf.open()
    shelf.last_good.keep({"app": TEMPLATE, "other": OTHER})
    assert shelf.file().stat().st_ino == before
    stored = shelf.last_good.load("other")
    assert stored is not None
    assert "ä" in stored.app.events[0].pattern.canonical
    assert sorted(path.name for path in file.parent.iterdir()) == ["app.json", "other.json"]


def test_another_root_on_the_same_state_directory_knows_nothing_of_it(shelf: Shelf, tmp_path: Path) -> None:
    shelf.last_good.keep({"app": TEMPLATE})
    other = Shelf(tmp_path, root="elsewhere")
    assert other.last_good.names() == frozenset()
    assert other.last_good.load("app") is None
    other.last_good.forget(["app"])
    assert shelf.last_good.names() == {"app"}


def test_of_many_roots_the_oldest_are_forgotten(tmp_path: Path) -> None:
    first = Shelf(tmp_path)
    first.last_good.keep({"app": TEMPLATE})
    os.utime(first.file().parent, (1, 1))
    for number in range(lastgood._MOST_ROOTS):
        Shelf(tmp_path, root=f"root-{number}").last_good.keep({"app": TEMPLATE})
    assert first.last_good.names() == frozenset()
    assert len(list(first.kept.iterdir())) == lastgood._MOST_ROOTS


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"v": 1}', b"\xff\xfe", b"[" * 100_000], ids=lambda text: repr(text[:9])
)
def test_a_damaged_file_is_left_and_told_once_until_the_app_is_good_again(shelf: Shelf, damage: bytes) -> None:
    shelf.last_good.keep({"app": TEMPLATE})
    shelf.file().write_bytes(damage)
    shelf.open()
    assert shelf.last_good.load("app") is None
    assert shelf.last_good.load("app") is None
    [reason] = shelf.reasons()
    assert "damaged" in reason
    assert shelf.file().read_bytes() == damage
    shelf.last_good.keep({"app": TEMPLATE})
    assert shelf.last_good.load("app") is not None


def test_one_character_of_the_text_too_few_is_damage(shelf: Shelf) -> None:
    shelf.last_good.keep({"app": TEMPLATE})
    document = json.loads(shelf.file().read_text())
    shelf.file().write_text(json.dumps(document | {"template": document["template"][:-1]}))
    assert shelf.last_good.load("app") is None
    assert len(shelf.facts) == 1


def test_what_a_newer_relayctl_wrote_is_neither_used_nor_overwritten_nor_deleted(shelf: Shelf) -> None:
    shelf.last_good.keep({"app": TEMPLATE})
    shelf.file().write_text('{"v": 2, "anything": true}')
    shelf.open()
    assert shelf.last_good.load("app") is None
    shelf.last_good.keep({"app": OTHER})
    shelf.last_good.forget(["app"])
    assert json.loads(shelf.file().read_text())["v"] == 2
    assert "a newer relayctl" in shelf.reasons()[0]


def test_what_cannot_be_written_is_told_once_kept_in_memory_and_tried_again(shelf: Shelf) -> None:
    shelf.kept.write_text("a file where the folder belongs")
    for _ in range(2):
        shelf.last_good.keep({"app": TEMPLATE})
    assert len(shelf.facts) == 1
    shelf.kept.unlink()
    shelf.last_good.keep({})
    shelf.open()
    assert shelf.last_good.load("app") is not None


def test_an_app_that_is_a_link_out_of_the_root_is_not_brought_back(shelf: Shelf, tmp_path: Path) -> None:
    shelf.last_good.keep({"app": TEMPLATE})
    (shelf.root / "app").rename(tmp_path / "outside")
    (shelf.root / "app").symlink_to(tmp_path / "outside")
    assert shelf.last_good.load("app") is None


def test_drafts_of_dead_processes_go(shelf: Shelf) -> None:
    shelf.last_good.keep({"app": TEMPLATE})
    draft = shelf.file().parent / ".app.99999999"
    draft.touch()
    shelf.open()
    shelf.last_good.keep({"app": OTHER})
    assert not draft.exists()
