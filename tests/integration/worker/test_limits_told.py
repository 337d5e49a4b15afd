"""A worker without control groups of its own: it says what it cannot keep, in its log, in status and in plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact

from relayctl.runners.cgroups import own_group

if TYPE_CHECKING:
    from support.console import Answer
    from support.fleet import Fleet


def test_limits_that_nothing_keeps_are_told(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    own = own_group()
    if not isinstance(own, str) and "cpu" in (own / "cgroup.subtree_control").read_text().split():
        pytest.skip("this process may hand down the controller for processors")
    fleet.tree.app("app", head="resources: {memory: 1GiB, cpus: 0.5}")
    worker = fleet.start()
    fact = worker.await_told("limits-unenforced")
    assert fact["limits"] == ["cpus"] and fact["reason"]
    note = f"it does not enforce cpus of resources: {fact['reason']}"

    def notes() -> list[str]:
        return [
            note for shown in json.loads(ask("status", "--format", "json").out)["workers"] for note in shown["notes"]
        ]

    await_fact(lambda: note in notes(), f"status does not say that {note}")
    warning = "cpus of resources are not enforced on every live worker: app"
    assert f"Limits    {warning}\n" in ask("status").out
    assert f"warning: {warning}" in ask("plan").out
    assert json.loads(ask("plan", "--format", "json").out)["limits"] == warning
