"""Workers that start beside a tree that cannot be read: what was last good runs, and peers get the events they know."""

from __future__ import annotations

import signal

from support.fleet import Fleet, await_true, replace_file

from relayctl.store.fleet import Fleet as FleetStore

EVERY_SECOND = "- {name: tick, handler: jobs.run, every: 1s}"
GO = "- {handler: jobs.on_event, pattern: {kind: [go]}}"
BROKEN = "runtime: python\nschedules: [{name: tick, handler: jobs.run, cron: '61 3 * * *'}]\n"


def ran(fleet: Fleet) -> set[str]:
    return {line["id"] for line in fleet.tree.runs("event")}


def test_a_restart_beside_a_broken_template_goes_on_with_the_last_good_one(fleet: Fleet) -> None:
    folder = fleet.tree.app("app", EVERY_SECOND, events=GO)
    fleet.tree.nightly("other")
    state = fleet.root / "state"
    first = fleet.start(state=state)
    fleet.pass_time(1)
    assert first.stop() == 0
    good = (folder / "template.yaml").read_text()
    replace_file(folder / "template.yaml", BROKEN)
    worker = fleet.start(state=state)
    told = worker.await_told("app-broken")
    assert (told["app"], told["has_last_good"]) == ("app", True)
    fleet.emit(kind="go", id="e1")
    await_true(lambda: "e1" in ran(fleet), "the event does not run")
    since = fleet.now()
    fleet.pass_time(2)
    await_true(lambda: any(at > since for at in fleet.tree.run_count()), "the schedule does not run")
    assert fleet.generation() == 1
    replace_file(folder / "template.yaml", good)
    worker.await_told("app-loaded", app="app", was_broken=True)
    assert fleet.generation() == 1
    assert worker.told("event-unmatched") + worker.told("build-refused") == []


def test_a_start_without_the_root_fires_what_was_last_good_and_runs_it_once_it_is_back(fleet: Fleet) -> None:
    fleet.tree.app("app", EVERY_SECOND)
    state, root, away = fleet.root / "state", fleet.tree.root, fleet.root / "away"
    first = fleet.start(state=state)
    fleet.pass_time(1)
    assert first.stop() == 0
    root.rename(away)
    worker = fleet.start(state=state)
    lost = worker.await_told("source-lost")
    assert (lost["running"], lost["is_last_good"]) == (1, True)
    fired = fleet.pass_time(1)
    workers = FleetStore(fleet.client, fleet.keys)
    await_true(lambda: [each.unable for each in workers.records()] == [("app",)], "nobody hears that it cannot run")
    assert fired not in fleet.tree.run_count()
    away.rename(root)
    worker.await_told("source-back")
    await_true(lambda: fired in fleet.tree.run_count(), "what fired meanwhile does not run")
    assert fleet.generation() == 1
    assert worker.told("app-removed") == []


def test_events_of_an_app_that_a_new_worker_cannot_read_go_to_the_peer_that_has_it(fleet: Fleet) -> None:
    folder = fleet.tree.app("app", events=GO)
    fleet.tree.nightly("other")
    seeing = fleet.start()
    replace_file(folder / "template.yaml", BROKEN)
    seeing.await_told("app-broken", has_last_good=True)
    blind = fleet.start()
    blind.await_told("app-broken", has_last_good=False)
    wanted = {f"e{number}" for number in range(10)}
    # It stays alive in its peer's eyes, and leaves all but what waits for it already to that one.
    seeing.send(signal.SIGSTOP)
    for name in sorted(wanted):
        fleet.emit(kind="go", id=name)
    told = blind.await_told("events-handed-over")
    seeing.send(signal.SIGCONT)
    assert told["unread"] == ["app"]
    await_true(lambda: ran(fleet) == wanted, "events are lost")
    fleet.await_idle()
    assert blind.told("event-unmatched") + seeing.told("event-unmatched") == []
    assert len(blind.told("events-handed-over")) == 1
