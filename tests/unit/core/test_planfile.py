"""Saved plans: what comes back of them, what is refused in a file, and each reason for which one may not be applied."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.described import NOW, described, running, sample
from support.schema import conforms

from relayctl.core.definition import TOMBSTONE
from relayctl.core.diff import make_plan
from relayctl.core.planfile import (
    Applied,
    Basis,
    Reason,
    SavedPlan,
    Words,
    from_document,
    refusal_of,
    running_digest,
    to_document,
)
from relayctl.core.running import BrokenApp, Running, RunningSchedule
from relayctl.errors import NewerFormat, RelayError, UsageError

NIGHTLY = "name: nightly, cron: '30 2 * * *', timezone: Europe/Rome"
BASIS = Basis(namespace="prod", epoch="e", release=7, running="r", template="t", schedules=3)


def saved(*, basis: Basis = BASIS) -> SavedPlan:
    before = {"billing": sample(NIGHTLY, "name: gone, every: 90s", head="env: {TOKEN: hunter2}\n")}
    after = {
        "billing": sample(
            f"{NIGHTLY}, dst: {{fold: both}}, timeout: 3h",
            "name: new, every: 1m",
            head="env: {TOKEN: other}\nservices:\n  - {name: web, command: [./a], port: 3000}\n",
        )
    }
    fleet = replace(running(described(before), described(after)), cap=timedelta(hours=1))
    registry = {name: replace(entry, paused_at=NOW, waiting=1, in_flight=2) for name, entry in fleet.registry.items()}
    broken = BrokenApp(app="crm", place="apps/crm/template.yaml:3", problem="RLY101 unknown key", since="")
    plan = make_plan(described(after), replace(fleet, registry=registry), now=NOW, broken=[broken])
    words = Words(desired="apps/", running="prod", guard="", limits="")
    return SavedPlan(id="7c1e9d42aa01", made_at=NOW, by="alice@desk", basis=basis, plan=plan, words=words)


def test_a_plan_comes_back_as_it_was_and_fits_its_schema() -> None:
    plan = saved()
    document = json.loads(json.dumps(to_document(plan)))
    conforms(document, "planfile")
    assert from_document(document) == plan
    assert "hunter2" not in json.dumps(document)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in items for path in _paths(item, (*at, key)))]


def _edited(document: Any, path: tuple[Any, ...], edit: Callable[[Any], Any]) -> Any:
    if not path:
        return edit(document)
    copy = deepcopy(document)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = edit(inner[path[-1]])
    return copy


@pytest.mark.parametrize("value", [None, 7, -1, True, "x", [], {}, [[]], [None], 10**30, "9999-12-31T23:59:59Z"])
def test_whatever_is_written_into_a_file_is_read_or_refused(value: object) -> None:
    document = json.loads(json.dumps(to_document(saved())))
    for path in _paths(document):
        try:
            from_document(_edited(document, path, lambda _: value))
        except RelayError as error:
            assert "not a saved plan" in error.message or isinstance(error, NewerFormat)


def test_what_is_missing_is_named() -> None:
    document = to_document(saved())
    del document["plan"]["changes"][0]["item"]
    with pytest.raises(UsageError, match=r"not a saved plan: plan.changes\[0\].item is not a text"):
        from_document(document)
    with pytest.raises(UsageError, match='kind is not "relayctl plan"'):
        from_document({**document, "kind": "another"})
    with pytest.raises(NewerFormat, match="form 2, known is 1"):
        from_document({**document, "v": 2})


@pytest.mark.parametrize("given", ["", "a\n\x1b[2Jb", "7C1E9D42", "f" * 65])
def test_an_id_is_what_a_plan_was_given(given: str) -> None:
    with pytest.raises(UsageError, match="not a saved plan: id is not"):
        from_document({**to_document(saved()), "id": given})


def test_a_plan_that_still_fits_is_not_refused() -> None:
    assert refusal_of(saved(), BASIS) is None
    nothing = Basis(namespace="prod", epoch="", release=None, running="r", template="t", schedules=0)
    # Where no broker ran there was no epoch, and a first apply finds one.
    assert refusal_of(saved(basis=nothing), replace(nothing, epoch="e")) is None


@pytest.mark.parametrize(
    ("moved", "reason"),
    [
        ({"namespace": "test"}, Reason.NAMESPACE),
        ({"epoch": "other"}, Reason.LOST),
        ({"epoch": "other", "release": None, "schedules": 0, "running": "x"}, Reason.LOST),
        ({"schedules": 0, "running": "x"}, Reason.LOST),
        ({"release": 8, "running": "x"}, Reason.MOVED),
        ({"release": 8, "running": "x", "schedules": 0}, Reason.MOVED),
        ({"running": "x"}, Reason.MOVED),
        ({"running": "x", "template": "y"}, Reason.MOVED),
        ({"template": "y"}, Reason.EDITED),
    ],
)
def test_each_reason(moved: dict[str, Any], reason: Reason) -> None:
    refusal = refusal_of(saved(), replace(BASIS, **moved))
    assert refusal is not None
    assert refusal.reason is reason


def test_a_plan_is_good_once_whatever_else_moved_since() -> None:
    release = Applied(serial=8, at=NOW, by="bob@laptop")
    now = replace(BASIS, release=8, running="x", template="y")
    refusal = refusal_of(saved(), now, applied=release, latest=release)
    assert refusal is not None
    assert (refusal.reason, refusal.release) == (Reason.APPLIED, release)


def test_the_overlap_is_what_somebody_else_changed_of_it() -> None:
    plan = saved()
    fresh = replace(plan.plan, changes=tuple(change for change in plan.plan.changes if change.name != "gone"))
    refusal = refusal_of(plan, replace(BASIS, release=8), fresh=fresh)
    assert refusal is not None
    assert refusal.overlap == ("billing/gone",)


def test_the_digest_of_what_runs_moves_with_what_is_in_force_and_nothing_else() -> None:
    one, other = (described({"billing": sample(NIGHTLY, f"name: a, every: {every}")}) for every in ("1m", "2m"))
    base = running_digest(running(one))
    again = running_digest(running(dict(reversed(one.items())), one))
    busy = {name: replace(entry, waiting=3, paused_at=NOW) for name, entry in running(one).registry.items()}
    stone = {**busy, ("crm", "old"): RunningSchedule(hash=TOMBSTONE, spec="")}
    assert {base, again, running_digest(running(one, registry=stone)), running_digest(running(one, one, other))} == {
        base
    }
    alone = running_digest(Running(workers={}, registry=running(one).registry))
    edited = described({"billing": sample(f"{NIGHTLY}, timeout: 9s", "name: a, every: 1m")})
    assert len({base, running_digest(running(other)), running_digest(running(edited)), alone}) == 4
