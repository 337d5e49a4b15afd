"""What a worker makes of changes to its tree: edits, breakage, removals, saves of every kind, and a tree that is gone."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from support.fleet import Fleet, await_true, replace_file

from relayctl.store.fleet import Fleet as FleetStore

if TYPE_CHECKING:
    from pathlib import Path

EVERY_SECOND = "- {name: tick, handler: jobs.run, every: 1s}"
BROKEN = '- {name: tick, handler: jobs.run, cron: "61 3 * * *"}'


def hole(seconds: float) -> None:
    """A gap that belongs to the way a tree is changed."""
    threading.Event().wait(seconds)


def await_generation(fleet: Fleet, gen: int, app: str = "app", within_s: float = 30.0) -> None:
    await_true(lambda: fleet.generation(app) == gen, f"{app} does not come to generation {gen}", within_s)


def test_an_edit_a_break_a_mend_and_a_removal(fleet: Fleet) -> None:
    tree = fleet.tree
    tree.app("app", EVERY_SECOND)
    tree.nightly("other")
    for number in range(4):
        tree.nightly(f"more-{number}")
    worker = fleet.start()
    head = fleet.registry("other")["from"]
    tree.app("app", EVERY_SECOND.replace("1s", "2s"))
    worker.await_told("app-loaded", app="app", changed=1)
    await_generation(fleet, 2)
    good = (tree.root / "app" / "template.yaml").read_text()

    replace_file(tree.root / "app" / "template.yaml", tree.template(BROKEN))
    told = worker.await_told("app-broken")
    assert told["app"] == "app"
    assert told["has_last_good"] is True
    assert told["place"].rpartition(":")[0].endswith("app/template.yaml")
    assert int(told["place"].rpartition(":")[2]) > 1
    highest = int(fleet.registry()["hw"])
    fleet.await_instant(highest + 4)
    assert len(worker.told("app-broken")) == 1

    replace_file(tree.root / "app" / "template.yaml", good)
    worker.await_told("app-loaded", app="app", was_broken=True)
    assert fleet.generation() == 2

    shutil.rmtree(tree.root / "more-0")
    took = await_true(lambda: worker.told("app-removed", app="more-0"), "it is not removed")
    assert took >= 1.8
    await_true(lambda: fleet.registry("more-0")["hash"] == "tombstone", "it stays in the registry")
    assert fleet.registry("app")["gen"] == "2"

    shutil.copytree(tree.root / "more-1", fleet.root / "prepared")
    (fleet.root / "prepared").rename(tree.root / "moved-in")
    worker.await_told("app-loaded", app="moved-in")
    assert (fleet.registry("other")["gen"], fleet.registry("other")["from"]) == ("1", head)
    assert worker.told("loop-failed") == []
    assert worker.stop() == 0


def test_every_way_of_saving_is_seen_and_none_is_a_removal(fleet: Fleet) -> None:
    file = fleet.tree.nightly("app") / "template.yaml"
    worker = fleet.start()

    def text(minute: int) -> str:
        return file.read_text().replace(f'"{minute - 1} 3', f'"{minute} 3')

    for minute in range(1, 13):
        fresh = text(minute)
        if minute % 3 == 0:
            replace_file(file, fresh)
        elif minute % 3 == 1:
            file.unlink()
            hole(0.2)
            file.write_text(fresh)
        else:
            with file.open("w") as opened:
                opened.write(fresh)
        await_generation(fleet, 1 + minute)
    assert worker.told("app-removed") + worker.told("app-broken") + worker.told("loop-failed") == []


def test_a_branch_switch_breaks_nothing_and_its_removals_wait_for_consent(fleet: Fleet) -> None:
    for number in range(40):
        fleet.tree.nightly(f"old-{number}")
    worker = fleet.start()
    for number in range(40):
        (fleet.tree.root / f"old-{number}").rename(fleet.tree.root / f"new-{number}")
        hole(0.05)
    assert worker.told("app-removed") == []
    held = worker.await_told("removal-held")
    assert (held["removed"], held["total"]) == (40, 80)
    assert worker.told("app-broken") + worker.told("app-removed") == []
    assert len(worker.told("app-loaded")) == 80
    assert fleet.registry("old-7")["gen"] == "1"
    FleetStore(fleet.client, fleet.keys).consent(held["revision"])
    worker.await_told("app-removed", count=40)
    await_true(lambda: fleet.registry("old-7")["hash"] == "tombstone", "it is still in the registry")
    assert fleet.generation("new-7") == 1
    assert len(worker.told("removal-held")) == 1


def test_the_last_app_goes_only_with_consent(fleet: Fleet) -> None:
    folder = fleet.tree.app("app", EVERY_SECOND)
    worker = fleet.start()
    fleet.pass_time(1)
    shutil.rmtree(folder)
    held = worker.await_told("removal-held")
    fleet.pass_time(2)
    FleetStore(fleet.client, fleet.keys).consent(held["revision"])
    worker.await_told("app-removed")
    await_true(lambda: fleet.registry()["hash"] == "tombstone", "it is still in the registry")


@pytest.mark.parametrize("style", ["root", "data"])
def test_a_swapped_link_is_followed_each_time(fleet: Fleet, style: str) -> None:
    versions = fleet.root / "versions"
    root = fleet.root / "linked"

    def version(number: int) -> Path:
        folder = versions / f"v{number}" if style == "root" else root / f"..v{number}"
        folder.parent.mkdir(exist_ok=True)
        made = fleet.tree.nightly("app", minute=number)
        shutil.copytree(made, folder / "app")
        return folder

    def swap(number: int) -> None:
        link = root if style == "root" else root / "..data"
        fresh = fleet.root / "fresh-link"
        fresh.symlink_to(version(number) if style == "root" else version(number).name)
        os.replace(fresh, link)

    swap(0)
    if style == "data":
        (root / "app").symlink_to("..data/app")
    worker = fleet.start(apps=root)
    for number in range(1, 21 if style == "data" else 7):
        swap(number)
        await_generation(fleet, number + 1)
    assert worker.told("app-removed") + worker.told("source-lost") + worker.told("app-broken") == []


def test_a_lost_root_keeps_everything_running(fleet: Fleet) -> None:
    fleet.tree.app("app", EVERY_SECOND)
    fleet.tree.nightly("other")
    worker = fleet.start()
    root, away = fleet.tree.root, fleet.root / "away"
    root.rename(away)
    worker.await_told("source-lost")
    fleet.pass_time(3)
    away.rename(root)
    worker.await_told("source-back")
    assert (fleet.generation(), fleet.generation("other")) == (1, 1)
    # Replaced by another directory, with an edit.
    shutil.copytree(root, away)
    file = away / "app" / "template.yaml"
    file.write_text(file.read_text().replace("1s", "2s"))
    root.rename(fleet.root / "outdated")
    away.rename(root)
    await_generation(fleet, 2)
    assert worker.told("app-removed") == []


def test_a_checkout_that_goes_on_delays_removals_and_reports(fleet: Fleet) -> None:
    tree = fleet.tree
    for name in ("app", "other", "third"):
        tree.nightly(name)
    worker = fleet.start()
    lock = tree.root / ".git" / "index.lock"
    lock.parent.mkdir()
    lock.touch()
    shutil.rmtree(tree.root / "other")
    tree.app("third", BROKEN)
    tree.nightly("app", minute=5)
    await_generation(fleet, 2)
    hole(3)  # longer than the quiet time after which they would come
    assert worker.told("app-removed") + worker.told("app-broken") == []
    lock.unlink()
    worker.await_told("app-removed", app="other")
    worker.await_told("app-broken", app="third")


def test_leftovers_of_tools_are_no_edits(fleet: Fleet) -> None:
    folder = fleet.tree.nightly("app")
    worker = fleet.start()
    before = len(worker.told("app-loaded"))
    for name in (".template.yaml.swp", "template.yaml~", "4913", "__pycache__/x.pyc", "node_modules/one/index.js"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (fleet.tree.root / ".git").mkdir()
    (fleet.tree.root / ".git" / "HEAD").write_text("ref: refs/heads/main")
    fleet.tree.nightly("second")
    worker.await_told("app-loaded", app="second")
    assert len(worker.told("app-loaded", app="app")) == before
    with (folder / "jobs.py").open("a") as code:
        code.write("\n# edited\n")
    worker.await_told("app-loaded", count=before + 1, app="app")
    assert fleet.generation() == 1


def test_without_hints_the_periodic_look_finds_it(fleet: Fleet) -> None:
    fleet.tree.nightly("app")
    worker = fleet.start("--resync", "1s", is_watch_silent=True)
    fleet.tree.nightly("app", minute=9)
    await_generation(fleet, 2)
    assert worker.stop() == 0


def test_a_directory_that_is_no_app_any_more_is_broken_and_not_removed(fleet: Fleet) -> None:
    folder = fleet.tree.app("app", EVERY_SECOND)
    fleet.tree.nightly("other")
    worker = fleet.start(adopt_after_s=1)
    (folder / "template.yaml").rename(folder / "template.yml")
    told = worker.await_told("app-broken")
    assert (told["app"], told["has_last_good"]) == ("app", True)
    fleet.pass_time(2)
    (folder / "template.yml").rename(folder / "template.yaml")
    worker.await_told("app-loaded", app="app", was_broken=True)
    assert fleet.generation() == 1
    assert worker.told("app-removed") == []


@pytest.mark.slow
def test_an_app_that_is_broken_at_the_start_keeps_its_place_in_the_registry(fleet: Fleet) -> None:
    fleet.tree.app("app", EVERY_SECOND)
    fleet.tree.nightly("other")
    assert fleet.start().stop() == 0
    fleet.tree.app("app", BROKEN)
    worker = fleet.start(adopt_after_s=1)
    worker.await_told("app-broken")
    hole(4)  # orphans would be removed by now
    assert fleet.registry()["hash"] != "tombstone"
    fleet.tree.app("app", EVERY_SECOND)
    fleet.pass_time(2)
    assert fleet.generation() == 1
