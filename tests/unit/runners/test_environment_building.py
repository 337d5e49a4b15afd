"""One build on a shelf: once for all who wait, within its time, and nothing of it left when it is cut."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from support.broker import await_fact
from support.fakeuv import FakeUv

from relayctl.host.clock import SystemClock
from relayctl.runners.environ import base_environ
from relayctl.runners.environments.building import BuildFailed, Site, build
from relayctl.runners.environments.installers import commands_for
from relayctl.runners.environments.interpreters import Interpreters
from relayctl.runners.environments.recipe import Recipe, recipe_of
from relayctl.runners.environments.shelf import Shelf
from relayctl.runners.environments.step import Bounds, Cancelled, run_step

NOBODY = threading.Event()


@pytest.fixture
def uv(tmp_path: Path) -> FakeUv:
    return FakeUv(tmp_path / "bin")


@pytest.fixture
def wish(tmp_path: Path) -> Callable[[str], Recipe]:
    app = tmp_path / "app"
    app.mkdir()

    def make(requirements: str) -> Recipe:
        (app / "requirements.txt").write_text(requirements)
        found = recipe_of("python", app, Interpreters(base_environ()))
        assert found is not None
        return found

    return make


def site(tmp_path: Path, uv: FakeUv, limit_s: float = 60, **more: str) -> Site:
    clock = SystemClock()
    shelf = Shelf(tmp_path / "environments", clock)
    return Site(shelf=shelf, environ={**uv.environ, **more}, limit=timedelta(seconds=limit_s), clock=clock)


def test_several_who_want_the_same_wait_for_one_build(
    tmp_path: Path, uv: FakeUv, wish: Callable[[str], Recipe]
) -> None:
    recipe = wish("wait\n")
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(build, site(tmp_path, uv), recipe, f"t.{number}", NOBODY) for number in range(3)]
        await_fact(lambda: uv.noted("runs"), "a build that has begun")
        assert site(tmp_path, uv).shelf.find(recipe.key) is None
        uv.go()
        found = {each.result(30).directory for each in asked}
    assert found == {tmp_path / "environments" / recipe.key}
    assert len(uv.noted("runs")) == 1
    assert [path.name for path in (tmp_path / "environments").iterdir()] == [recipe.key]


def test_a_failure_says_why_and_leaves_nothing(tmp_path: Path, uv: FakeUv, wish: Callable[[str], Recipe]) -> None:
    place = site(tmp_path, uv, UV_INDEX_URL="https://me:pa55word@index")
    with pytest.raises(BuildFailed) as failed:
        build(place, wish("fail error: https://me:pa55word@index has no such thing\n"), "t.1", NOBODY)
    assert failed.value.reason == "https://***@index has no such thing"
    assert failed.value.lines == ("error: https://***@index has no such thing",)
    assert uv.noted("runs")[0].endswith("pa55word@index"), "the builder itself has it"
    assert list((tmp_path / "environments").iterdir()) == []


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_build_that_is_cut_ends_with_all_that_it_started(
    tmp_path: Path, uv: FakeUv, wish: Callable[[str], Recipe], is_cancelled: bool
) -> None:
    cancelled = threading.Event()
    place = site(tmp_path, uv, 60 if is_cancelled else 0.5)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(build, place, wish("stray\nwait\n"), "t.1", cancelled)
        await_fact(lambda: uv.noted("strays"), "a process that has left its session")
        if is_cancelled:
            cancelled.set()
        with pytest.raises((Cancelled, BuildFailed)) as ended:
            asked.result(30)
    assert isinstance(ended.value, Cancelled) == is_cancelled
    assert is_cancelled or str(ended.value) == "it took longer than 500ms (--build-timeout)"
    pids = [int(line.split()[0]) for line in uv.noted("runs") + uv.noted("strays")]
    await_fact(lambda: not any(_is_alive(pid) for pid in pids), "the end of all of them")
    assert list((tmp_path / "environments").iterdir()) == []


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_was_written_to_meanwhile_is_not_taken_for_what_was_asked(
    tmp_path: Path, uv: FakeUv, wish: Callable[[str], Recipe]
) -> None:
    recipe = wish("wait\n")
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(build, site(tmp_path, uv), recipe, "t.1", NOBODY)
        await_fact(lambda: uv.noted("runs"), "a build that has begun")
        wish("other\n")
        uv.go()
        with pytest.raises(Cancelled):
            asked.result(30)
    assert site(tmp_path, uv).shelf.find(recipe.key) is None


def test_a_place_that_cannot_be_written_and_a_missing_uv_are_named(
    tmp_path: Path, uv: FakeUv, wish: Callable[[str], Recipe]
) -> None:
    recipe = wish("x\n")
    (tmp_path / "environments").write_text("in the way")
    with pytest.raises(BuildFailed, match=r"file exists \(.*environments\)|lock file"):
        build(site(tmp_path, uv), recipe, "t.1", NOBODY)
    (tmp_path / "environments").unlink()
    (tmp_path / "app" / "uv.lock").write_text("")
    locked = recipe_of("python", tmp_path / "app", Interpreters(base_environ()))
    assert locked is not None
    os.unlink(uv.folder / "uv")
    bare = Site(
        shelf=site(tmp_path, uv).shelf,
        environ={"PATH": str(uv.folder)},
        limit=timedelta(seconds=5),
        clock=SystemClock(),
    )
    with pytest.raises(BuildFailed, match=r"uv\.lock needs uv, which is not on this worker's PATH"):
        build(bare, locked, "t.1", NOBODY)


def test_links_of_a_local_package_stay_links(tmp_path: Path) -> None:
    app, place = tmp_path / "app", tmp_path / "place"
    (app / "lib").mkdir(parents=True)
    for name in ("again", "and-again"):
        (app / "lib" / name).symlink_to(".")
    (app / "package.json").write_text("{}")
    (app / "package-lock.json").write_text('{"packages": {"node_modules/lib": {"resolved": "lib", "link": true}}}')
    npm = tmp_path / "npm"
    npm.touch(0o755)
    recipe = recipe_of("node", app, Interpreters(base_environ()))
    assert recipe is not None
    place.mkdir()
    [command] = commands_for(recipe, place, {"PATH": str(tmp_path)})
    assert (command.argv[0], command.directory) == (str(npm), place)
    assert sorted(path.name for path in (place / "lib").iterdir() if path.is_symlink()) == ["again", "and-again"]


@pytest.mark.parametrize("end", ["", "\n"])
def test_of_what_is_printed_whole_lines_are_kept(tmp_path: Path, end: str) -> None:
    bounds = Bounds(monotonic=time.monotonic, until=time.monotonic() + 60, is_cancelled=lambda: False)
    program = f"print('x' * 200_000, end={end!r}); print('the last')"
    done = run_step((sys.executable, "-c", program), tmp_path, dict(os.environ), "t.1", bounds)
    assert done.output == (b"the last\n" if end else b"")
