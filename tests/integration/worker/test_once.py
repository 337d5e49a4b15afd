"""`serve --once` and `--only`: a worker that ends by itself, and one that is for some apps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.fleet import await_true

if TYPE_CHECKING:
    from support.fleet import Fleet


def test_once_runs_what_is_due_and_ends(fleet: Fleet) -> None:
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1s}")
    assert fleet.start("--once").await_exit() == 0
    first = set(fleet.published())
    assert fleet.start("--once").await_exit() == 0
    both = sorted(fleet.published())
    assert both == list(range(both[0], both[-1] + 1))
    assert set(both) > first
    assert fleet.backlog() == 0
    assert fleet.tree.run_count() == dict.fromkeys(both, 1)


def test_once_leaves_a_retry_that_is_due_later(fleet: Fleet) -> None:
    fleet.tree.app("app", events="- {handler: jobs.on_bad_event, pattern: {kind: [go]}, retries: 1, backoff: [10m]}")
    fleet.emit(kind="go")
    worker = fleet.start("--once")
    assert worker.await_exit() == 0
    assert len(fleet.tree.runs("fail")) == 1
    assert fleet.backlog() == 1


def test_once_fails_where_what_is_due_cannot_be_published(fleet: Fleet) -> None:
    """Reading works, so the worker looks idle between its attempts; it may not end as if all had run."""
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1s}")
    fleet.client.set(fleet.keys.published("app", "tick"), "of another type")
    worker = fleet.start("--once", "--drain", "2s", wait=False)
    assert worker.await_exit() == 3
    said = "".join(worker.noise)
    assert "what is due cannot be done, and 2s did not help" in said
    assert "schedule:app:tick:" in said
    assert "Traceback" not in said
    fleet.client.delete(fleet.keys.published("app", "tick"))
    assert fleet.start("--once").await_exit() == 0
    published = sorted(fleet.published())
    assert published == list(range(published[0], published[-1] + 1)), "the next one goes on where it stood"


def test_only_runs_some_apps_and_leaves_the_others_to_peers(fleet: Fleet) -> None:
    for name in ("app", "other"):
        fleet.tree.app(name, "- {name: tick, handler: jobs.run, every: 1s}")
    fleet.start("--only", "app")
    fleet.pass_time(3)
    assert fleet.published("other") == {}
    fleet.start("--only", "other")
    fleet.pass_time(2, app="other")
    assert fleet.published("other")
    await_true(lambda: len(fleet.tree.runs("run")) >= 5, "what was published does not run")


def test_only_refuses_a_name_that_no_app_has(fleet: Fleet) -> None:
    fleet.tree.nightly("app")
    worker = fleet.start("--only", "ap", wait=False)
    assert worker.await_exit() == 2
    assert 'no app "ap"' in "".join(worker.noise)
