"""A directory as a source: what it sees, what is no edit, and when the absence of an app means nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.broker import await_fact

from relayctl.host.clock import SystemClock
from relayctl.sources.directory import DirectorySource
from relayctl.sources.watch import DirectoryWatch

TEMPLATE = "runtime: python\nevents: [{handler: jobs.on, pattern: {kind: [x]}}]\n"


def make_app(root: Path, name: str = "app") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "jobs.py").write_text("def on(event):\n    pass\n")
    (folder / "template.yaml").write_text(TEMPLATE)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "apps"
    make_app(made)
    return made


def source(root: Path, *only: str) -> DirectorySource:
    return DirectorySource(root, SystemClock(), only=only)


def test_the_revision_follows_the_content_alone(root: Path) -> None:
    seen = source(root)
    first = seen.look()
    assert set(first.apps) == {"app"}
    os.utime(root / "app" / "jobs.py", (1, 1))
    for leftover in (".template.yaml.swp", "jobs.py~", "4913", "jobs.pyc"):
        (root / "app" / leftover).write_text("x")
    assert seen.look().revision == first.revision
    (root / "app" / "jobs.py").write_text("def on(event):\n    return 1\n")
    changed = seen.look()
    assert changed.revision != first.revision
    (root / "app" / "jobs.py").write_text("def on(event):\n    pass\n")
    assert seen.look().revision == source(root).look().revision == first.revision


def test_only_what_was_touched_is_read_again(root: Path) -> None:
    make_app(root, "other")
    seen = source(root)
    before = seen.look()
    for name in ("app", "other"):
        (root / name / "jobs.py").write_text("def on(event):\n    return 2\n")
    after = seen.look({"app"})
    assert after.apps["app"] != before.apps["app"]
    assert after.apps["other"] == before.apps["other"]
    assert seen.look().apps["other"] != before.apps["other"]


@pytest.mark.parametrize(
    "break_it",
    [
        lambda root: root.rename(root.with_name("away")),
        lambda root: (root.rename(root.with_name("away")), root.touch()),
    ],
    ids=["gone", "file"],
)
def test_a_root_that_cannot_be_read_is_trouble_and_not_an_empty_tree(
    root: Path, break_it: Callable[[Path], object]
) -> None:
    seen = source(root)
    break_it(root)
    view = seen.look()
    assert view.trouble
    assert view.apps == {}
    empty = root.with_name("empty")
    empty.mkdir()
    assert source(empty).look().trouble is None


def test_a_checkout_in_a_directory_above_makes_it_busy(root: Path) -> None:
    lock = root.parent / ".git" / "index.lock"
    lock.parent.mkdir()
    assert not source(root).look().is_busy
    lock.touch()
    assert source(root).look().is_busy


def test_a_worker_for_some_apps_sees_only_these(root: Path) -> None:
    make_app(root, "other")
    seen = source(root, "other")
    assert set(seen.look().apps) == {"other"}
    assert seen.is_partial
    assert not source(root).is_partial


class Hints:
    """A watch in a thread of its own, and what it hinted at."""

    def __init__(self, root: Path) -> None:
        self.heard: list[frozenset[str] | None] = []
        self.troubles: list[str] = []
        self.stop = threading.Event()
        watch = DirectoryWatch(
            root,
            debounce_ms=20,
            is_polling=False,
            clock=SystemClock(),
            on_hint=self.heard.append,
            on_trouble=self.troubles.append,
        )
        self.thread = threading.Thread(target=watch.run, args=(self.stop,))
        self.thread.start()
        # The first look at everything says that it is watching by now.
        self.await_hint(None)

    def await_hint(self, touched: frozenset[str] | None) -> float:
        """Wait for a hint that covers these apps; what was heard before is forgotten."""
        took = await_fact(
            lambda: any(hint is None or (touched is not None and touched <= hint) for hint in list(self.heard)),
            f"no hint at {touched}",
            within_s=5,
        )
        self.heard.clear()
        return took


@pytest.fixture
def hints(root: Path) -> Iterator[Hints]:
    made = Hints(root)
    yield made
    made.stop.set()
    made.thread.join(5)
    assert not made.thread.is_alive(), "it does not stop"
    assert made.troubles == []


def test_a_save_is_hinted_at_by_the_name_of_its_app(root: Path, hints: Hints) -> None:
    (root / "app" / "jobs.py").write_text("def on(event):\n    return 3\n")
    await_fact(lambda: frozenset({"app"}) in hints.heard or None in hints.heard, "no hint", within_s=5)


def test_a_new_app_and_what_is_written_into_it_later(root: Path, hints: Hints) -> None:
    folder = root / "fresh"
    folder.mkdir()
    hints.await_hint(None)
    (folder / "jobs.py").write_text("def on(event):\n    pass\n")
    hints.await_hint(frozenset({"fresh"}))
    (folder / "template.yaml").write_text(TEMPLATE)
    hints.await_hint(frozenset({"fresh"}))


def test_a_template_that_comes_back_after_its_removal(root: Path, hints: Hints) -> None:
    template = root / "app" / "template.yaml"
    template.unlink()
    hints.await_hint(frozenset({"app"}))
    template.write_text(TEMPLATE + "# again\n")
    hints.await_hint(frozenset({"app"}))


def test_a_root_that_is_replaced_is_watched_anew(root: Path, hints: Hints) -> None:
    root.rename(root.with_name("away"))
    make_app(root)
    hints.await_hint(None)
    hints.await_hint(None)
    (root / "app" / "jobs.py").write_text("def on(event):\n    return 4\n")
    hints.await_hint(frozenset({"app"}))


def test_what_tools_leave_is_no_hint(root: Path, hints: Hints) -> None:
    (root / "app" / "__pycache__").mkdir()
    (root / "app" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (root / "app" / ".template.yaml.swp").write_bytes(b"x")
    (root / "app" / "jobs.py").write_text("def on(event):\n    return 5\n")
    hints.await_hint(frozenset({"app"}))


_AT_A_LIMIT = """
import resource, sys, threading
from pathlib import Path
from relayctl.host.clock import SystemClock
from relayctl.sources.watch import DirectoryWatch

root, limit = Path(sys.argv[1]), sys.argv[2]
if limit == "watches":
    Path("/proc/sys/user/max_inotify_watches").write_text("1")
import watchfiles
edited, told = threading.Event(), threading.Event()
stop, troubles = threading.Event(), []
watch = DirectoryWatch(
    root, debounce_ms=20, is_polling=False, clock=SystemClock(),
    on_hint=lambda touched: touched and edited.set(), on_trouble=lambda said: (troubles.append(said), told.set()),
)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if limit == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
thread = threading.Thread(target=watch.run, args=(stop,), daemon=True)
thread.start()
assert told.wait(5), "no trouble is told"
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
for number in range(50):
    (root / "app" / "jobs.py").write_text(f"def on(event):\\n    return {'x' * (number + 1)!r}\\n")
    if edited.wait(0.2):
        break
assert edited.is_set(), "the edit is not seen"
assert thread.is_alive()
stop.set()
thread.join(5)
print(*troubles, sep="\\n")
"""


@pytest.mark.parametrize(("limit", "remedy"), [("watches", "max_user_watches"), ("files", "max_user_instances")])
def test_at_a_limit_of_the_system_it_polls_and_says_so_once(root: Path, limit: str, remedy: str) -> None:
    own_limits = ["unshare", "--user", "--map-root-user"] if limit == "watches" else []
    if own_limits and subprocess.run([*own_limits, "true"], capture_output=True).returncode:
        pytest.skip("this system gives no user namespace to set the limit in")
    done = subprocess.run(
        [*own_limits, sys.executable, "-c", _AT_A_LIMIT, str(root), limit], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 1
    assert "it is polled instead" in said[0]
    assert remedy in said[0]


def test_a_directory_that_cannot_be_read_blinds_nobody(root: Path, hints: Hints) -> None:
    closed = root / "app" / "closed"
    closed.mkdir(mode=0)
    hints.await_hint(frozenset({"app"}))
    (root / "app" / "jobs.py").write_text("def on(event):\n    return 6\n")
    hints.await_hint(frozenset({"app"}))
    closed.chmod(0o700)
