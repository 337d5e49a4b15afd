"""What a worker tells of limits that it cannot keep."""

from __future__ import annotations

from pathlib import Path

from relayctl.api.observed import limits_not_kept
from relayctl.core.facts import Fact, LimitsUnenforced
from relayctl.core.model import App, AppName, Resources
from relayctl.runners.cgroups import Delegation
from relayctl.store.fleet import WorkerRecord
from relayctl.worker.limitwatch import LimitWatch

NONE = Delegation(reason="its control group is not delegated to it")
ALL = Delegation(root=Path("/cg"), controllers=frozenset({"cpu", "memory", "pids"}))


def app(name: str, **limits: float) -> App:
    return App(name=AppName(name), resources=Resources(**limits))  # type: ignore[arg-type]


def record(worker: str, *unenforced: str) -> WorkerRecord:
    return WorkerRecord(
        id=worker, host="h", pid=1, version="1", started_at="", is_publishing=True, holdings_seq=1, evaluator="1",
        tzdata="x", unenforced=unenforced,
    )  # fmt: skip


def test_each_limit_is_told_once_and_noted_while_it_stands() -> None:
    facts: list[Fact] = []
    watch = LimitWatch(NONE, facts.append)
    watch.look([app("one", memory=1)])
    assert (facts, watch.notes) == ([], ())
    watch.look([app("one", cpus=1.0), app("two")])
    watch.look([app("one", cpus=1.0), app("two", pids=3)])
    watch.look([app("two", pids=3)])
    assert [fact.limits for fact in facts if isinstance(fact, LimitsUnenforced)] == [("cpus",), ("cpus", "pids")]
    assert watch.notes == ("it does not enforce pids of resources: its control group is not delegated to it",)
    assert watch.unenforceable == ("cpus", "pids")
    watch.look([])
    assert watch.notes == ()


def test_what_is_kept_is_not_spoken_of() -> None:
    facts: list[Fact] = []
    watch = LimitWatch(ALL, facts.append)
    watch.look([app("one", cpus=1.0, memory=1, pids=1)])
    assert (facts, watch.notes, watch.unenforceable) == ([], (), ())


def test_people_are_warned_of_what_a_live_worker_cannot_keep() -> None:
    apps = {"b": ("pids",), "a": ("cpus", "pids"), "c": ("memory",)}
    assert limits_not_kept(apps, [record("w")]) == ""
    assert limits_not_kept({"c": ("memory",)}, [record("w", "cpus", "pids")]) == ""
    assert limits_not_kept(apps, [record("v"), record("w", "cpus")]) == (
        "cpus of resources are not enforced on every live worker: a"
    )
    many = {f"app-{number}": ("pids",) for number in range(7)}
    assert limits_not_kept(apps | many, [record("w", "cpus", "pids")]) == (
        "cpus and pids of resources are not enforced on every live worker: a, app-0, app-1, app-2, app-3 and 4 more apps"
    )


def test_a_record_of_an_older_worker_says_nothing_of_it() -> None:
    told = record("w", "cpus")
    assert WorkerRecord.from_json(told.to_json()) == told
    older = told.to_json().replace(',"unenforced":["cpus"]', "")
    assert WorkerRecord.from_json(older) == record("w")
