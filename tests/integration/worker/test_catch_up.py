"""What a start makes of firings that nobody published: by policy, and never from before a definition was in force."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from support.fleet import Fleet, await_true

from relayctl.core.definition import Spec
from relayctl.store.definitions import Definitions, Mode, Proposal
from relayctl.templates.load import load_app

POLICIES = ("latest", "oldest", "all", "none")


def in_force_since(fleet: Fleet, at: int, *, published: int | None = None, app: str = "app") -> None:
    """Put the app's schedules in the registry as of `at`, with their highest published instant."""
    loaded = load_app(fleet.tree.root / app, root=fleet.tree.root, now=datetime.now(UTC))
    assert loaded.app is not None
    for schedule in loaded.app.schedules:
        spec = Spec.of(schedule)
        proposal = Proposal(app=app, schedule=schedule.name, mode=Mode.START, hash=spec.hash, spec=spec.text)
        Definitions(fleet.client, fleet.keys).register([proposal], at * 1000)
        if published is not None:
            fleet.client.hset(fleet.keys.schedule(app, schedule.name), "hw", published)


def published(fleet: Fleet, *names: str) -> dict[str, list[int]]:
    return {name: sorted(fleet.published("app", name)) for name in names}


def test_a_long_gap_goes_by_the_policy(fleet: Fleet) -> None:
    fleet.tree.app(
        "app",
        "\n".join(f"- {{name: {name}, handler: jobs.run, every: 10m, catch_up: {name}}}" for name in POLICIES)
        + "\n- {name: tick, handler: jobs.run, every: 1s}",
    )
    now = fleet.now()
    latest = now - now % 600
    if now - latest < 70 or latest + 600 - now < 20:
        # Too near to a firing for the gap to be a long one: begin the count elsewhere.
        latest = latest - 600 if now - latest < 70 else latest
    oldest = latest - 5 * 600
    in_force_since(fleet, oldest - 10_000, published=oldest - 600)
    worker = fleet.start()
    fleet.pass_time(2)
    limit = fleet.now()
    due = list(range(oldest, limit, 600))
    assert published(fleet, *POLICIES) == {"latest": due[-1:], "oldest": due[:1], "all": due, "none": []}
    told = {fact["schedule"]: fact for fact in worker.told("passed-over") if fact["schedule"] != "tick"}
    assert set(told) == {"latest", "oldest", "none"}
    assert [fact["is_catch_up"] for fact in worker.told("published-late", schedule="latest")] == [True]
    fleet.await_idle()
    payloads = {line["at"] for line in fleet.tree.runs()}
    assert all(datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") in payloads for at in due)


def test_two_workers_that_start_together_recover_one_firing(fleet: Fleet) -> None:
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1h}")
    now = fleet.now()
    in_force_since(fleet, now - 9 * 3600, published=now - 8 * 3600)
    workers = [fleet.start(wait=False) for _ in range(2)]
    for worker in workers:
        worker.await_up()
    await_true(lambda: len(fleet.published()) == 1, "nothing is recovered")
    fleet.await_idle()
    assert [worker.stop() for worker in workers] == [0, 0]
    assert (len(fleet.published()), fleet.entries_added()) == (1, 1)
    assert sum(fleet.tree.run_count().values()) == 1


def test_a_new_or_moved_schedule_owes_nothing_from_before(fleet: Fleet) -> None:
    def cron(at: int) -> str:
        moment = datetime.fromtimestamp(at, UTC)
        return f'- {{name: tick, handler: jobs.run, cron: "{moment.minute} {moment.hour} * * *", catch_up: all}}'

    now = fleet.now()
    fleet.tree.app("app", cron(now - 600))
    fleet.tree.app("clock", "- {name: tick, handler: jobs.run, every: 1s}")
    worker = fleet.start()
    fleet.pass_time(1, app="clock")
    fleet.tree.app("app", cron(now - 1200))
    await_true(lambda: fleet.generation() == 2, "the edit is not seen")
    fleet.pass_time(2, app="clock")
    assert fleet.published() == {}
    assert worker.told("passed-over", app="app") == []


def test_an_outgoing_definition_owes_until_its_end(fleet: Fleet) -> None:
    """The fleet was down over a firing of the old definition; the new one is deployed with the next start."""
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1h}")
    now = fleet.now()
    owed = now - now % 3600
    in_force_since(fleet, owed - 9000, published=owed - 3600)
    fleet.tree.app("app", '- {name: tick, handler: jobs.run, cron: "0 3 29 2 *"}')
    worker = fleet.start()
    await_true(lambda: list(fleet.published()) == [owed], "what the old definition owed is lost")
    fleet.await_idle()
    facts: list[dict[str, Any]] = worker.told("published")
    assert len(facts) == 1
