"""golden/emit_health: what `health` and `emit --explain` print, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from syrupy.assertion import SnapshotAssertion

from relayctl.core.health import HealthReport, LoopSigns, Signs, State, judge, unanswering
from relayctl.core.pattern import Pattern
from relayctl.core.servicestanding import ServiceStanding
from relayctl.render import emit, health

AT = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
SOUND = Signs(
    worker="alpha-0a1b2c3d",
    pid=812,
    version="0.1.0",
    state=State.RUNNING,
    uptime=timedelta(hours=14, minutes=15),
    loops={
        name: LoopSigns(beat_age_s=0.2, pass_age_s=0.4) for name in ("scheduler", "claimer", "consumer", "reconciler")
    },
    resync=timedelta(seconds=30),
    apps=14,
    schedules=41,
    armed=41,
    running=1,
    is_registered=True,
    clock_difference=timedelta(milliseconds=-120),
    source="directory apps",
    revision="7c1e9d42a0b1c2d3e4f5",
    http="127.0.0.1:9100",
)
TROUBLED = replace(
    SOUND,
    worker="beta-4e5f6a7b",
    pid=813,
    http=None,
    apps=1,
    schedules=1,
    loops=SOUND.loops | {"consumer": LoopSigns(beat_age_s=21.3, pass_age_s=21.3), "claimer": LoopSigns(beat_age_s=0.1, pass_age_s=12)},
    broker_trouble="the broker does not answer",
    clock_difference=None,
    overdue=["crm/sync@2026-09-29T10:14:00Z", "crm/warm@2026-09-29T10:14:30Z"],
    overdue_by=timedelta(seconds=60),
    is_source_lost=True,
    held_removal="7c1e9d42a0b1c2d3e4f5",
    broken=["billing", "crm"],
    behind=2,
    services=[
        ServiceStanding(app="site", service="web", wanted=2, up=2),
        ServiceStanding(app="site", service="api", wanted=1, up=0, is_looping=True, detail="exit code 1 (5 times in a row)"),
    ],
)  # fmt: skip
DRAINING = replace(SOUND, worker="gamma-8c9d0e1f", state=State.DRAINING, http=None, revision="")
RULES = {
    "orders.created": {"event_name": ["INSERT"], "table": ["orders"]},
    "orders.large": {"event_name": ["INSERT"], "row": {"amount": [{"gte": 1000}], "country": [{"exists": False}]}},
    "users.any": {"table": [{"prefix": "user"}]},
}
EVENT = {"event_name": "INSERT", "table": "orders", "row": {"amount": 12.5, "country": "Italy"}}


def _reports() -> list[HealthReport]:
    silent = unanswering("control-2b3c4d5e.sock", "the worker does not answer within 5 s")
    return [judge(SOUND), judge(TROUBLED), judge(DRAINING), silent]


def _answers() -> list[emit.RuleAnswer]:
    return [
        emit.RuleAnswer(
            app="shop", handler=handler, mismatches=tuple(Pattern.from_json(pattern).explain(EVENT, AT))
        )
        for handler, pattern in RULES.items()
    ]  # fmt: skip


def test_health_text(golden: SnapshotAssertion) -> None:
    assert health.text(_reports()) == golden


def test_health_verbose(golden: SnapshotAssertion) -> None:
    assert health.text(_reports()[:1], is_verbose=True) == golden


def test_health_json(golden: SnapshotAssertion) -> None:
    assert json.dumps(health.as_document(_reports()[:2], is_sound=False), indent=2) + "\n" == golden


def test_explain_text(golden: SnapshotAssertion) -> None:
    assert emit.text(_answers()) == golden


def test_explain_json(golden: SnapshotAssertion) -> None:
    assert json.dumps(emit.as_document(_answers()), indent=2) + "\n" == golden


def test_no_rules_is_said(golden: SnapshotAssertion) -> None:
    assert emit.text([]) == golden
