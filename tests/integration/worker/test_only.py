"""Workers that are for some apps only: what they read for others waits for these, or goes to who knows their rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.fleet import Fleet, await_true

if TYPE_CHECKING:
    from support.fleet import ServeProcess

GO = "- {handler: jobs.on_event, pattern: {kind: [%s, both]}}"


def two_apps(fleet: Fleet) -> None:
    for name in ("a", "b"):
        fleet.tree.app(name, events=GO % name)


def ran(fleet: Fleet) -> list[tuple[str, int]]:
    return sorted((line["id"], line["worker"]) for line in fleet.tree.runs("event"))


def both(number: int, first: ServeProcess, second: ServeProcess) -> list[tuple[str, int]]:
    return [(f"{kind}{number}", worker.pid) for kind, worker in (("a", first), ("b", second))]


def test_events_of_apps_that_only_others_run_wait_for_these_and_go_to_them(fleet: Fleet) -> None:
    two_apps(fleet)
    first = fleet.start("--only", "a")
    for number in range(3):
        for kind in ("a", "b"):
            fleet.emit(kind=kind, id=f"{kind}{number}")
    fleet.emit(kind="both", id="x")
    fleet.emit(kind="neither", id="n")
    await_true(lambda: len(fleet.tree.runs("event")) == 4, "its own events do not run")
    # Three for the other app, and one that both want.
    await_true(lambda: fleet.backlog() == 4, "what nobody wants stays, or what the other app wants goes")
    second = fleet.start("--only", "b")
    wanted = [run for number in range(3) for run in both(number, first, second)]
    wanted += [("x", first.pid), ("x", second.pid)]
    await_true(lambda: ran(fleet) == sorted(wanted), "events are lost")
    for number in range(3, 8):
        for kind in ("a", "b"):
            fleet.emit(kind=kind, id=f"{kind}{number}")
    wanted += [run for number in range(3, 8) for run in both(number, first, second)]
    await_true(lambda: ran(fleet) == sorted(wanted), "events are lost")
    fleet.await_idle()
    assert len(first.told("event-unmatched")) == 1
    assert second.told("event-unmatched") + second.told("events-handed-over") == []


def test_a_run_once_of_one_app_does_not_wait_for_another_ones_events(fleet: Fleet) -> None:
    two_apps(fleet)
    for kind in ("a", "b"):
        fleet.emit(kind=kind, id=kind)
    worker = fleet.start("--only", "a", "--once", wait=False)
    assert worker.await_exit() == 0
    assert ran(fleet) == [("a", worker.pid)]
    assert fleet.backlog() == 1
