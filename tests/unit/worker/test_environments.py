"""Apps that need an environment: they wait for it and nothing else does, and what ran goes on whatever becomes of it."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from support.broker import await_fact
from support.fakeuv import FakeUv
from support.workbench import Workbench

from relayctl.runners.environ import base_environ
from relayctl.runners.environments.shelf import Shelf
from relayctl.worker.environments import RETRY_S, Environments
from relayctl.worker.options import Building

NIGHTLY = 'name: tick, cron: "0 3 29 2 *"'
EARLIER = 'name: tick, cron: "0 2 29 2 *"'


class Site:
    """A worker that builds with a program of the test's own. `environments` is stepped by hand."""

    def __init__(self, bench: Workbench, uv: FakeUv) -> None:
        self.bench = bench
        self.uv = uv
        self.in_use: set[Path] | None = set()
        self.next: Site | None = None
        building = Building(
            root=bench.root.parent / "environments",
            limit=timedelta(minutes=10),
            environ={**uv.environ, "UV_TOKEN": "t"},
        )
        self.environments = Environments(
            building,
            base_environ=base_environ(),
            hint=bench.reconciler.hint,
            in_use=lambda: self.in_use,
            clock=bench.clock,
            emit=bench.facts.append,
        )
        bench.reconciler._environments = self.environments
        swap = bench.reconciler._swap

        def swapped(snapshot, changes) -> None:  # type: ignore[no-untyped-def]
            swap(snapshot, changes)
            self.environments.in_force(snapshot.live, changes.deployed.keys() | changes.removed)

        bench.reconciler._swap = swapped

    def needs(self, name: str, requirements: str, schedule: str = NIGHTLY) -> None:
        self.bench.app(name, schedule)
        (self.bench.root / name / "requirements.txt").write_text(requirements)

    def look(self, after_s: float = 0.0) -> None:
        """A pass over the tree, and one of the builder's loop, which begins what is due."""
        self.bench.look(after_s)
        self.environments.step()

    def built(self, count: int = 1, told: str = "environment-built") -> None:
        """Until builds have ended so often and the reconciler has heard of it."""

        def is_through() -> bool:
            self.environments.step()
            return len(self.bench.told(told)) >= count

        await_fact(is_through, f"{count} {told}")
        self.bench.reconciler.step()

    def serves(self, name: str) -> str | None:
        """The key of the environment that an app is live with; empty for none of its own."""
        item = self.bench.reconciler.snapshot.live.get(name)
        return None if item is None else "" if item.environment is None else item.environment.key


@pytest.fixture
def site(bench: Workbench, tmp_path: Path):  # type: ignore[no-untyped-def]
    site = Site(bench, FakeUv(tmp_path / "bin"))
    yield site
    while site is not None:
        site.environments.close()
        site = site.next


def test_an_app_waits_for_its_environment_and_goes_on_as_it_was_while_others_are_swapped(
    bench: Workbench, site: Site
) -> None:
    bench.app("a", NIGHTLY)
    bench.app("b", NIGHTLY)
    site.look()
    before = bench.reconciler.snapshot.live["a"]
    site.needs("a", "wait\n", EARLIER)
    bench.app("b", EARLIER)
    site.look()
    assert [set(changes.deployed) for changes in bench.swaps] == [{"a", "b"}, {"b"}]
    assert bench.reconciler.snapshot.live["a"] == before
    assert (bench.gen("a"), bench.gen("b")) == (1, 2)
    [waiting] = site.environments.unbuilt
    assert waiting.words == f"app a: requirements.txt is being built; runs its build of {before.revision[:12]}"
    site.uv.go()
    site.built()
    assert bench.gen("a") == 2
    assert site.serves("a")
    assert site.environments.unbuilt == ()
    assert [fact.serves for fact in bench.told("environment-building")] == [before.revision[:12]]
    site.look()
    assert len(site.uv.noted("runs")) == 1


def test_a_failed_build_is_told_once_tried_again_with_pauses_and_on_change(bench: Workbench, site: Site) -> None:
    site.needs("a", "x\n")
    site.look()
    site.built()
    first = site.serves("a")
    site.needs("a", "fail error: no such package\n", EARLIER)
    site.look()
    site.built(told="environment-failed")
    serving = bench.reconciler.snapshot.live["a"]
    [failing] = site.environments.unbuilt
    assert (
        failing.words
        == f"app a: building requirements.txt failed: no such package; runs its build of {serving.revision[:12]}"
    )
    assert (failing.reason, failing.lines) == ("no such package", ("error: no such package",))
    for pause in RETRY_S:
        site.look(after_s=pause - 1)
        tries = len(site.uv.noted("runs"))
        site.look(after_s=2)
        await_fact(lambda tries=tries: len(site.uv.noted("runs")) == tries + 1, "another try")  # type: ignore[misc]
        await_fact(lambda: all(job.is_over for job in site.environments._jobs.values()), "its end")
        site.environments.step()
    assert len(bench.told("environment-failed")) == 1
    assert (bench.gen("a"), site.serves("a")) == (1, first)
    site.environments.retry()
    site.look()
    await_fact(lambda: len(site.uv.noted("runs")) == len(RETRY_S) + 3, "a try that was asked for")
    site.needs("a", "y\n", EARLIER)
    site.look()
    site.built(2)
    assert bench.gen("a") == 2
    assert site.serves("a") not in {first, ""}


def test_what_nobody_wants_any_more_is_not_built_to_its_end(bench: Workbench, site: Site) -> None:
    site.needs("a", "wait\n")
    site.look()
    await_fact(lambda: site.uv.noted("runs"), "a build that has begun")
    pid = int(site.uv.noted("runs")[0].split()[0])
    site.needs("a", "x\n")
    site.look()
    site.built()
    assert site.serves("a")
    await_fact(lambda: not Path(f"/proc/{pid}").exists(), "the end of the first build")
    assert len(bench.told("environment-built")) == 1


def test_apps_with_the_same_needs_share_one_build(bench: Workbench, site: Site) -> None:
    for name in ("a", "b", "c"):
        site.needs(name, "x\n")
    bench.app("d", NIGHTLY)
    site.look()
    assert bench.reconciler.unbuilt == {"a", "b", "c"}
    assert bench.reconciler.unread == {"a", "b", "c"}, "events that only they may want go to peers"
    site.built(3)
    assert len({site.serves(name) for name in "abc"}) == 1
    assert (len(site.uv.noted("runs")), site.serves("d")) == (1, "")
    assert (bench.reconciler.unbuilt, bench.reconciler.unread) == (frozenset(), frozenset())


def restarted(site: Site) -> Site:
    """The next worker on the same state directory; it has had its first look."""
    site.environments.close()
    bench = Workbench(site.bench.client, site.bench.root, worker="w2")
    after = site.next = Site(bench, site.uv)
    bench.reconciler.step()
    return after


def test_a_start_finds_what_was_built_and_beside_a_failing_build_what_ran_last(bench: Workbench, site: Site) -> None:
    site.needs("a", "x\n")
    site.look()
    site.built()
    key = site.serves("a")
    again = restarted(site)
    assert (again.serves("a"), again.bench.reconciler.unbuilt) == (key, frozenset())
    again.needs("a", "fail error: gone\n", EARLIER)
    third = restarted(again)
    assert third.serves("a") == key
    assert third.bench.reconciler.unbuilt == {"a"}
    third.built(told="environment-failed")
    assert third.bench.told("environment-failed")[0].serves
    assert bench.gen("a") == 1
    third.look(after_s=3)
    fourth = restarted(third)
    assert fourth.serves("a") == key
    kept = fourth.bench.reconciler.snapshot.live["a"]
    assert kept.app == bench.reconciler.snapshot.live["a"].app, "what failed is not kept for the next start"


def test_a_template_that_is_mended_waits_for_its_environment_too(bench: Workbench, site: Site) -> None:
    bench.app("a", 'name: tick, cron: "61 3 * * *"')
    site.look()
    site.look(after_s=3)
    assert bench.told("app-broken")
    site.needs("a", "x\n")
    site.look()
    assert (bench.reconciler.unbuilt, bench.told("app-loaded")) == ({"a"}, [])
    site.built()
    assert bench.told("app-loaded")[-1].was_broken


def test_a_start_beside_lost_environments_runs_nothing_without_them(bench: Workbench, site: Site) -> None:
    for name in ("a", "b", "c"):
        bench.app(name, NIGHTLY)
    for name in ("a", "b"):
        (bench.root / name / "requirements.txt").write_text("x\n")
    site.look()
    site.built(2)
    site.environments.close()
    shutil.rmtree(bench.root.parent / "environments")
    bench.app("b", 'name: tick, cron: "61 3 * * *"')
    again = restarted(site)
    assert set(again.bench.reconciler.snapshot.live) == {"c"}
    assert {app.app for app in again.environments.unbuilt} == {"a", "b"}
    again.built(2)
    assert again.serves("a")
    assert again.serves("b") == again.serves("a"), "the last good version of a broken template too"


def test_a_start_beside_the_first_build_of_an_app_runs_what_ran_without_one(bench: Workbench, site: Site) -> None:
    bench.app("a", NIGHTLY)
    site.look()
    site.needs("a", "fail error: gone\n", EARLIER)
    again = restarted(site)
    assert (again.serves("a"), again.bench.reconciler.unbuilt, bench.gen("a")) == ("", {"a"}, 1)


def test_an_environment_that_was_deleted_is_built_again(bench: Workbench, site: Site) -> None:
    site.needs("a", "x\n")
    site.look()
    site.built()
    environment = bench.reconciler.snapshot.live["a"].environment
    assert environment is not None
    os.rename(environment.directory, environment.directory.with_name("elsewhere"))
    site.look()
    assert bench.reconciler.unbuilt == {"a"}
    site.built(2)
    assert site.serves("a") == environment.key


def test_an_environment_stays_as_long_as_a_process_runs_from_it(bench: Workbench, site: Site) -> None:
    site.needs("a", "x\n")
    site.look()
    site.built()
    environment = bench.reconciler.snapshot.live["a"].environment
    assert environment is not None
    site.needs("a", "y\n")
    site.look()
    site.built(2)
    peer = Shelf(environment.directory.parent, bench.clock)
    site.in_use = {environment.directory}
    for answer in (site.in_use, None, set()):
        site.in_use = answer
        site.look(after_s=61)
        assert peer.sweep(most_unused=0) == [], "in use, perhaps in use, idle for the first time"
    site.look(after_s=61)
    assert [removed.key for removed in peer.sweep(most_unused=0)] == [environment.key]
    assert site.serves("a") not in {environment.key, ""}


def test_a_file_that_cannot_be_read_keeps_its_app_back_and_says_so(bench: Workbench, site: Site) -> None:
    bench.app("a", NIGHTLY)
    site.look()
    site.needs("a", "x\n", EARLIER)
    (bench.root / "a" / "requirements.txt").unlink()
    (bench.root / "a" / "requirements.txt").symlink_to("/proc/self/mem")
    site.look()
    site.look(after_s=3)
    [told] = bench.told("environment-failed")
    assert (told.file, told.reason) == ("requirements.txt", "input/output error")
    assert (bench.gen("a"), bench.reconciler.unbuilt) == (1, {"a"})
    bench.remove("a")
    bench.settle()
    site.environments.step()
    assert site.environments.unbuilt == ()
