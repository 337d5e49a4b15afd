"""A directory as people change it: the ways of editors, linked apps, files written in pieces, and git's own checkouts."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from support.fleet import Fleet, await_true, replace_file


def vim(file: Path, text: str) -> None:
    """With a backup: a probe file, the old one moved aside, a new one, the backup deleted."""
    probe, backup = file.with_name("4913"), file.with_name(f"{file.name}~")
    probe.touch()
    probe.unlink()
    file.rename(backup)
    file.write_text(text)
    backup.unlink()


def emacs(file: Path, text: str) -> None:
    """A lock that is a link to nowhere, a backup copy, the file written in place."""
    lock = file.with_name(f".#{file.name}")
    lock.symlink_to("user@host.1:1")
    file.with_name(f"#{file.name}#").write_text(text)
    file.with_name(f"{file.name}~").write_text(file.read_text())
    file.write_text(text)
    file.with_name(f"#{file.name}#").unlink()
    lock.unlink()


def code(file: Path, text: str) -> None:
    """Truncated and written in place."""
    with file.open("r+") as opened:
        opened.truncate(0)
        opened.write(text)


def jetbrains(file: Path, text: str) -> None:
    """A temporary file beside it, the old one moved away, then deleted."""
    fresh, old = file.with_name(f"{file.name}___jb_tmp___"), file.with_name(f"{file.name}___jb_old___")
    fresh.write_text(text)
    file.rename(old)
    fresh.rename(file)
    old.unlink()


def in_pieces(file: Path, text: str) -> None:
    """Half of it, then nothing for a while, then the rest."""
    with file.open("w") as opened:
        opened.write(text[: len(text) // 2])
        opened.flush()
        threading.Event().wait(0.3)
        opened.write(text[len(text) // 2 :])


WAYS: list[Callable[[Path, str], None]] = [vim, emacs, code, jetbrains, in_pieces, replace_file]


def test_every_editors_save_is_one_edit_also_in_a_linked_app(fleet: Fleet) -> None:
    root = fleet.tree.root
    plain = fleet.tree.nightly("app") / "template.yaml"
    (root / ".store").mkdir()
    fleet.tree.nightly("linked").rename(root / ".store" / "linked")
    (root / "linked").symlink_to(".store/linked")
    worker = fleet.start()
    linked = root / ".store" / "linked" / "template.yaml"
    for minute, way in enumerate(WAYS, start=1):
        for file in (plain, linked):
            way(file, file.read_text().replace(f'"{minute - 1} 3', f'"{minute} 3'))
        await_true(
            lambda minute=minute: fleet.generation("app") == fleet.generation("linked") == 1 + minute,
            f"the save of {way.__name__} is unseen",
        )
    assert worker.told("app-removed") + worker.told("app-broken") + worker.told("loop-failed") == []


def git(at: Path, *words: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(at), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *identity, *words], cwd=at, env=environ, check=True, capture_output=True, timeout=60)


def test_a_checkout_of_another_branch_swaps_all_and_breaks_nothing(fleet: Fleet) -> None:
    root = fleet.tree.root
    git(root, "init", "-q", "-b", "main")
    names = [f"app-{number}" for number in range(20)]
    for name in names:
        folder = fleet.tree.nightly(name, minute=1)
        for number in range(8):
            (folder / f"part{number}.py").write_text("value = 1\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "one")
    git(root, "checkout", "-q", "-b", "other")
    for name in names[:18]:
        fleet.tree.nightly(name, minute=2)
        for number in range(8):
            (root / name / f"part{number}.py").write_text("value = 2\n")
    git(root, "rm", "-q", "-r", *names[18:])
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "two")
    git(root, "checkout", "-q", "main")
    worker = fleet.start()
    for branch, generation in (("other", 2), ("main", 3)):
        git(root, "checkout", "-q", branch)
        await_true(
            lambda generation=generation: all(fleet.generation(name) == generation for name in names[:18]),
            f"{branch} is not in force",
        )
    assert worker.told("app-broken") + worker.told("loop-failed") + worker.told("removal-held") == []
    await_true(
        lambda: all(fleet.registry(name)["hash"] != "tombstone" for name in names), "an app that is back is gone"
    )
