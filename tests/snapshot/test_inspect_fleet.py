"""golden/inspect_fleet: schedules beside what a fleet says of them: new, changed, drifted, paused, overdue, in sync."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from support.described import NOW, described, running, sample
from support.schema import conforms
from syrupy.assertion import SnapshotAssertion

from relayctl.core.diff import make_plan
from relayctl.core.forecast import forecast
from relayctl.core.release import Draft, Release
from relayctl.core.running import LastRun
from relayctl.core.standing import standings
from relayctl.render import inspect as render
from relayctl.render.live import live_of

_SYNC = "name: sync-contacts, cron: '*/7 8-18 * * 1-5', timezone: America/New_York"
_CLEANUP = "name: nightly-cleanup, cron: '{}', timezone: Europe/Rome, timeout: 2m, retries: 2"
_WARM = "name: warm-cache, cron: '*/15 * * * *'"
_REINDEX = "name: reindex, cron: '20 4 * * 0'"
APPS = {
    "billing": sample(_CLEANUP.format("30 2 * * *"), "name: invoice-run, cron: '15 6 1 * *', timezone: Europe/Rome"),
    "crm": sample(_SYNC, name="crm"),
    "search": sample(_WARM, _REINDEX, "name: off, every: 1h, enabled: false", name="search"),
}
BEFORE = {**APPS, "billing": sample(_CLEANUP.format("0 3 * * *"))}
DRIFTED = {**BEFORE, "search": sample(_WARM.replace("15", "10"), _REINDEX, "name: off, every: 1h, enabled: false")}
LAST = LastRun(
    verdict="succeeded", reason="", scheduled_at="2026-09-29T10:00:00Z", attempts=1, took_ms=8200
)  # fmt: skip
RELEASE = Release(
    serial=119,
    made_at=NOW,
    draft=Draft(
        id="d", base=118, digest="b", tree="t", by="alice@desk", revisions=dict.fromkeys(APPS, "r"),
        commit="3f9c1ab7d0e2f4a6b8c0d2e4f6a8b0c2d4e6f8a0",
    ),
)  # fmt: skip


def _rows() -> list[render.Row]:
    fleet = running(described(BEFORE), described(DRIFTED))
    registry = dict(fleet.registry)
    for name, entry in registry.items():
        registry[name] = replace(entry, settled_until=int(NOW.timestamp()), last=LAST)
    registry["search", "reindex"] = replace(
        registry["search", "reindex"],
        paused_at=datetime(2026, 9, 23, 8, 1, tzinfo=UTC),
        paused_by="alice",
        pause_reason="INC-4312",
    )
    fleet = replace(fleet, registry=registry)
    plan = make_plan(described(APPS), fleet, now=NOW)
    live = live_of(APPS.values(), fleet, standings(fleet, {}, NOW), plan, RELEASE)
    rows = render.rows_of(list(APPS.values()), NOW, live)
    return sorted(rows, key=lambda row: (row.next_at is None, row.next_at or NOW, row.name))


def _detail(name: str) -> render.Detail:
    row = next(row for row in _rows() if row.name == name)
    return render.Detail(
        row=row,
        ahead=forecast(row.schedule.trigger, NOW, count=3),
        handler_at="apps/x/jobs.py:12",
        source="apps/x/template.yaml:7",
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_table(width: int, golden: SnapshotAssertion) -> None:
    assert render.table_text(render.Table(rows=_rows(), now=NOW, total=6), width) == golden


@pytest.mark.parametrize("schedule", ["crm/sync-contacts", "billing/nightly-cleanup", "search/reindex"])
def test_detail(schedule: str, golden: SnapshotAssertion) -> None:
    assert render.detail_text(_detail(schedule), 100) == golden


def test_json() -> None:
    table = render.table_document(render.Table(rows=_rows(), now=NOW, total=6))
    conforms(table, "inspect")
    conforms(render.detail_document(_detail("crm/sync-contacts")), "inspect")
    releases = {f"{row['app']}/{row['schedule']}": row["release"] for row in table["schedules"]}
    assert releases["crm/sync-contacts"] == "release 119 at 3f9c1ab"
    # Its file says something else by now.
    assert releases["billing/nightly-cleanup"] == ""


def test_what_chosen_workers_leave_out_is_nothing_new() -> None:
    def state(*, is_partial: bool) -> str:
        fleet = running(described({"crm": APPS["crm"]}))
        fleet = replace(fleet, partial=frozenset(fleet.workers) if is_partial else frozenset())
        plan = make_plan(described(APPS), fleet, now=NOW)
        found = live_of(APPS.values(), fleet, standings(fleet, {}, NOW), plan)["billing", "invoice-run"]
        assert found.is_unapplied != is_partial
        return found.state

    assert state(is_partial=False) == "new, not applied"
    assert state(is_partial=True) == "left out: every live worker is for other apps (--only)"
