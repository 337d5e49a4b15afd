"""Two apps and room for one child: a claim that waits in the pool runs as soon as the other app's run has ended."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.intake import live_app

from relayctl.core.lifecycle import Claim, Slot, descriptor_of
from relayctl.host.clock import SystemClock
from relayctl.runners.build import Build
from relayctl.worker.executor import Executor
from relayctl.worker.ledger import Finished

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from relayctl.worker.snapshot import LiveApp

TEMPLATE = """
runtime: python
isolation: {isolation}
events: [{{handler: jobs.on, pattern: {{kind: [go]}}}}]
"""


class Stage:
    """An executor with room for one child. `ended` is what it gave out so far."""

    def __init__(self, root: Path, isolation: str) -> None:
        self.facts: list[Any] = []
        self.ended: list[Finished] = []
        self.apps = {name: live_app(root, name, TEMPLATE.format(isolation=isolation)) for name in ("a", "b")}
        self.executor = Executor(
            secrets=str,
            clock=SystemClock(),
            emit=self.facts.append,
            max_children=1,
            base_environ={},
            on_change=lambda: None,
        )
        self.thread = threading.Thread(target=self.executor.run)
        self.thread.start()
        self.executor.deploy([Build.of(live.app, live.directory, live.revision) for live in self.apps.values()])

    def run(self, app: str, number: int) -> None:
        """What the claimer does with a claim that was granted, wherever its place has gone since."""
        self.executor.submit([claim_of(self.apps[app], number)])

    def await_ended(self, count: int) -> list[str]:
        def look() -> bool:
            self.ended += self.executor.take_finished()
            return len(self.ended) >= count

        await_fact(look, f"not {count} runs end: {self.ended}", 30)
        return [f"{item.claim.app}: {item.ended.outcome.value}" for item in self.ended]


def claim_of(live: LiveApp, number: int) -> Claim:
    [rule] = live.app.events
    descriptor = descriptor_of(live.app.name, rule, cap=rule.contract.timeout, revision=live.revision)
    return Claim(
        message=f"17000000000{number:02}-0",
        app=live.app.name,
        slot=Slot("jobs.on"),
        token=f"t.{number}",
        attempt=1,
        descriptor=descriptor,
        event='{"kind": "go"}',
    )


@pytest.fixture(params=["warm", "fresh"])
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(tmp_path, request.param)
    yield made
    made.executor.close()
    made.thread.join()


def test_who_waits_in_the_pool_follows_the_other_apps_run_without_being_asked_for(stage: Stage) -> None:
    for number in range(6):
        stage.run("ab"[number % 2], number)
    ended = stage.await_ended(6)
    assert sorted(ended) == ["a: succeeded"] * 3 + ["b: succeeded"] * 3
