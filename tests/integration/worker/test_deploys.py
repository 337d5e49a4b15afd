"""Deploys by replacing workers: the registry goes forward once, follows a roll-back, and never flaps.

The wait after which an unheld definition is taken over is shortened to `ADOPT_S`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.fleet import Fleet, ServeProcess, await_true

ADOPT_S = 3.0


class Checkouts:
    """Two static versions of one tree: `old` fires every second, `new` every two seconds and without `extra`."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1s}", head="concurrency: 4")
        fleet.tree.nightly("extra")
        self.old = fleet.tree.root
        self.new = fleet.root / "new" / "apps"
        shutil.copytree(self.old, self.new)
        template = self.new / "app" / "template.yaml"
        template.write_text(template.read_text().replace("1s", "2s"))

    def start(self, root: Path) -> ServeProcess:
        return self.fleet.start(apps=root, adopt_after_s=ADOPT_S)


@pytest.fixture
def checkouts(fleet: Fleet) -> Checkouts:
    return Checkouts(fleet)


@pytest.mark.slow
def test_a_rolling_deploy_goes_forward_once_and_a_rolling_revert_lands_when_the_last_has_left(
    fleet: Fleet, checkouts: Checkouts
) -> None:
    old = [checkouts.start(checkouts.old) for _ in range(2)]
    assert fleet.generation() == 1
    new = [checkouts.start(checkouts.new)]
    assert fleet.generation() == 2
    deployed_at = int(fleet.registry()["from"]) // 1000 + 1
    assert old.pop().stop() == 0
    # An old one comes back in the middle of the deploy, longer than a take-over needs.
    late = checkouts.start(checkouts.old)
    late.await_told("schedule-behind", app="app")
    fleet.pass_time(ADOPT_S + 3)
    assert fleet.generation() == 2
    new.append(checkouts.start(checkouts.new))
    assert [late.stop(), old.pop().stop()] == [0, 0]
    assert fleet.generation() == 2
    published = [at for at in fleet.published() if at > deployed_at]
    assert published
    assert [at for at in published if at % 2] == [], "the outdated definition was fired"

    back = [checkouts.start(checkouts.old)]
    assert new.pop().stop() == 0
    back.append(checkouts.start(checkouts.old))
    assert fleet.generation() == 2
    assert new.pop().stop() == 0
    await_true(lambda: fleet.generation() == 3, "the revert does not land", within_s=ADOPT_S + 6)
    fleet.pass_time(ADOPT_S + 2)
    assert fleet.generation() == 3
    assert fleet.entries_added() == len(fleet.published())
    counts = fleet.tree.run_count()
    assert max(counts.values()) == 1
    assert [worker.told("loop-failed") for worker in back] == [[], []]


@pytest.mark.slow
def test_static_checkouts_that_restart_never_alternate(fleet: Fleet, checkouts: Checkouts) -> None:
    serving = {root: checkouts.start(root) for root in (checkouts.old, checkouts.new)}
    for number in range(10):
        root = (checkouts.old, checkouts.new)[number % 2]
        serving[root].kill()
        serving[root] = checkouts.start(root)
        assert fleet.generation() == 2
    fleet.pass_time(ADOPT_S + 3)
    assert fleet.generation() == 2
    assert fleet.entries_added() == len(fleet.published())


@pytest.mark.slow
def test_what_a_new_checkout_lacks_ends_when_nobody_holds_it_and_an_old_one_does_not_bring_it_back(
    fleet: Fleet, checkouts: Checkouts
) -> None:
    shutil.rmtree(checkouts.new / "extra")
    for number in range(4):
        shutil.copytree(checkouts.old / "extra", checkouts.new / f"more-{number}")
    old, new = checkouts.start(checkouts.old), checkouts.start(checkouts.new)
    fleet.pass_time(ADOPT_S + 2)
    assert fleet.generation("extra") == 1
    assert old.stop() == 0
    await_true(lambda: fleet.registry("extra")["hash"] == "tombstone", "it stays", within_s=ADOPT_S + 6)
    old = checkouts.start(checkouts.old)
    old.await_told("schedule-behind", app="extra")
    fleet.pass_time(ADOPT_S + 3)
    assert (fleet.generation("extra"), fleet.registry("extra")["hash"]) == (2, "tombstone")
    assert new.stop() == 0
    await_true(lambda: fleet.generation("extra") == 3, "the revert does not land", within_s=ADOPT_S + 6)
    assert fleet.registry("extra")["hash"] != "tombstone"


@pytest.mark.slow
def test_a_worker_for_some_apps_removes_nothing_of_the_others(fleet: Fleet, checkouts: Checkouts) -> None:
    assert checkouts.start(checkouts.old).stop() == 0
    fleet.start("--only", "app", adopt_after_s=1)
    fleet.pass_time(4)
    assert (fleet.generation("extra"), fleet.generation()) == (1, 1)
