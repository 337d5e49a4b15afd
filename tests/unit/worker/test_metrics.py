"""The figures: what each fact counts, what routing counts, and that every name an operator can meet is documented."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from relayctl.core import facts
from relayctl.core.facts import Fact, all_facts
from relayctl.store.keys import Keys
from relayctl.store.stream import OwedInvocation, RouteOrder
from relayctl.worker.fanout import fan_out
from relayctl.worker.metrics import COUNTERS, GAUGES, Metrics

AT = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
VALUES: dict[Any, Any] = {
    str: "text", int: 2, bool: True, datetime: AT, timedelta: timedelta(seconds=2), timedelta | None: None,
    str | None: "nightly", int | None: None, datetime | None: AT, tuple[str, ...]: (),
}  # fmt: skip
OPERATIONS = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")


def _fact(kind: type[Fact], **given: Any) -> Fact:
    hints = get_type_hints(kind)
    return kind(**{item.name: given.get(item.name, VALUES[hints[item.name]]) for item in dataclasses.fields(kind)})


def _figures(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.page().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if float(value)}


@pytest.mark.parametrize(
    ("fact", "counted"),
    [
        (_fact(facts.Published), {"relay_published_total": 1, "relay_publish_late_seconds_sum": 2}),
        (_fact(facts.PublishedLate), {'relay_published_late_total{how="caught_up"}': 1}),
        (_fact(facts.PublishedLate, is_catch_up=False), {'relay_published_late_total{how="late"}': 1}),
        (_fact(facts.Duplicate), {"relay_duplicates_total": 1}),
        (_fact(facts.PassedOver), {"relay_passed_over_ranges_total": 1}),
        (_fact(facts.RunStarted, schedule=None), {'relay_claims_total{kind="event"}': 1}),
        (_fact(facts.RunEnded), {'relay_runs_total{kind="schedule",outcome="succeeded"}': 1, 'relay_run_seconds_sum{kind="schedule"}': 2}),
        (_fact(facts.RunFailed), {'relay_runs_total{kind="schedule",outcome="failed"}': 1, 'relay_dead_letters_total{cause="exhausted"}': 1}),
        (_fact(facts.RunInterrupted), {'relay_runs_total{kind="any",outcome="interrupted"}': 1}),
        (_fact(facts.LeaseLost), {"relay_leases_lost_total": 1, 'relay_runs_total{kind="any",outcome="lost"}': 1}),
        (_fact(facts.MessageRejected), {'relay_dead_letters_total{cause="rejected"}': 1}),
        (_fact(facts.RunAbandoned), {'relay_dead_letters_total{cause="unavailable"}': 1}),
        (_fact(facts.AppLoaded, added=1, changed=0, removed=3), {'relay_reconcile_swaps_total{change="added"}': 1, 'relay_reconcile_swaps_total{change="removed"}': 3}),
        (_fact(facts.AppRemoved, schedules=4), {'relay_reconcile_swaps_total{change="removed"}': 4}),
        (_fact(facts.LoopFailed, loop="consumer"), {'relay_loop_failures_total{loop="consumer"}': 1}),
    ],
    ids=lambda value: value.event if isinstance(value, Fact) else next(iter(value)),
)  # fmt: skip
def test_a_fact_is_counted(fact: Fact, counted: dict[str, float]) -> None:
    metrics = Metrics()
    metrics.emit(fact)
    found = _figures(metrics)
    assert {name: found.get(name) for name in counted} == counted


def test_a_failure_with_a_retry_is_no_dead_letter() -> None:
    metrics = Metrics()
    metrics.emit(_fact(facts.RunFailed, retry_in=timedelta(minutes=1)))
    assert not [name for name in _figures(metrics) if "dead_letters" in name]


def test_every_fact_is_bearable_and_labels_stay_few() -> None:
    metrics = Metrics()
    for kind in all_facts():
        for n in range(50):
            metrics.emit(_fact(kind, app=f"app{n}", message=f"{n}-0", handler=f"h{n}.f", entry=f"{n}-0"))
    assert len(_figures(metrics)) < 120


def test_routing_counts_external_events_only() -> None:
    metrics = Metrics()
    owed = (OwedInvocation(app="a", slot="h.f"), OwedInvocation(app="b", slot="h.f"))
    metrics.on_routed([
        RouteOrder(id="1-0", kind="event", owed=owed), RouteOrder(id="2-0", is_dropped=True),
        RouteOrder(id="3-0", kind="schedule", owed=owed[:1]), RouteOrder(id="4-0", kind="manual", owed=owed[:1]),
        RouteOrder(id="5-0", dead=("reason", "x")),
    ])  # fmt: skip
    assert _figures(metrics) == {
        "relay_events_received_total": 2, "relay_events_matched_total": 1, "relay_events_unmatched_total": 1,
        'relay_app_events_matched_total{app="a"}': 1, 'relay_app_events_matched_total{app="b"}': 1,
    }  # fmt: skip


def test_a_listener_that_fails_keeps_no_other_from_hearing() -> None:
    heard: list[Fact] = []

    def broken(_fact: Fact) -> None:
        raise ValueError

    fact = _fact(facts.ClockStepped)
    fan_out(broken, heard.append)(fact)
    assert heard == [fact]


@pytest.mark.parametrize(
    "name", [*(f"{name}_total" for name, *_ in COUNTERS), *GAUGES, "relay_run_seconds", "relay_publish_late_seconds"]
)
def test_every_metric_is_documented(name: str) -> None:
    assert f"| `{name}` |" in OPERATIONS


def test_no_metric_is_documented_that_does_not_exist() -> None:
    known = {*(f"{name}_total" for name, *_ in COUNTERS), *GAUGES, "relay_run_seconds", "relay_publish_late_seconds"}
    assert set(re.findall(r"^\| `(relay_\w+)` \|", OPERATIONS, re.MULTILINE)) == known


@pytest.mark.parametrize("kind", all_facts(), ids=lambda kind: kind.event)
def test_every_log_event_is_documented_with_its_level_and_fields(kind: type[Fact]) -> None:
    [row] = [line for line in OPERATIONS.splitlines() if line.startswith(f"| `{kind.event}` |")]
    hints = get_type_hints(kind)
    fields = [
        f"{item.name}_s" if hints[item.name] in (timedelta, timedelta | None) else item.name
        for item in dataclasses.fields(kind)
    ]
    assert f"| {kind.level.value} |" in row
    assert re.findall(r"`([a-z_]+)`", row.split("|")[3]) == fields


def test_every_key_is_documented() -> None:
    keys, names = Keys("ns"), []
    for name in dir(Keys):
        member = getattr(Keys, name)
        if name.startswith("_") or name == "namespace":
            continue
        if isinstance(member, property):
            names.append(getattr(keys, name))
        else:
            arguments = [item for item in get_type_hints(member) if item != "return"]
            names.append(getattr(keys, name)(*(f"<{item}>" for item in arguments)))
    assert [name for name in names if f"`{name}`" not in OPERATIONS] == []
