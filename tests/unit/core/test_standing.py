"""How schedules stand: sync from definitions, health from firings, each with the reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.described import NOW, described, running, sample

from relayctl.core.running import BrokenApp, LastRun, Running
from relayctl.core.standing import Health, Standing, Sync, standings

HOURLY = "name: hourly, cron: '0 * * * *'"
DUE_S = int(NOW.timestamp()) - 15 * 60
"""10:00, a quarter of an hour before NOW."""


def fleet(*reports: str, **entry: object) -> Running:
    made = running(*(described({"billing": sample(report)}) for report in reports))
    [(name, known)] = made.registry.items()
    usual = {"settled_until": DUE_S, "from_ms": (DUE_S - 86_400) * 1000}
    return replace(made, registry={name: replace(known, **usual | entry)})


def only(found: Running, **broken: list[BrokenApp]) -> Standing:
    [standing] = standings(found, broken, NOW)
    return standing


def test_all_is_well() -> None:
    standing = only(fleet(HOURLY))
    assert (standing.name, standing.sync, standing.health, standing.detail) == (
        "billing/hourly",
        Sync.SYNCED,
        Health.HEALTHY,
        "",
    )
    assert standing.next_at == NOW + timedelta(minutes=45)


def test_another_definition_on_a_worker() -> None:
    standing = only(fleet(HOURLY, HOURLY.replace("0 *", "1 *")))
    assert (standing.sync, standing.detail) == (Sync.OUT_OF_SYNC, "other definition on w2")


def test_workers_that_agree_on_when_and_not_on_what() -> None:
    assert only(fleet(HOURLY, f"{HOURLY}, timeout: 1m")).sync is Sync.OUT_OF_SYNC


def test_a_worker_that_lacks_it() -> None:
    made = fleet(HOURLY, HOURLY)
    bare = described({"billing": sample()})
    without = {**made.workers, "w2": bare}
    assert (only(replace(made, workers=without)).sync, only(replace(made, workers=without)).detail) == (
        Sync.OUT_OF_SYNC,
        "not on w2",
    )
    elsewhere = {**made.workers, "w2": described({"crm": sample(name="crm")})}
    assert only(replace(made, workers=elsewhere)).detail == "not on w2"
    # One that is for other apps, or has said nothing yet, lacks nothing.
    assert only(replace(made, workers=elsewhere, partial=frozenset({"w2"}))).sync is Sync.SYNCED
    assert only(replace(made, workers={**made.workers, "w2": {}})).sync is Sync.SYNCED


def test_nobody_has_it() -> None:
    found = replace(fleet(HOURLY), workers={})
    assert (only(found).sync, only(found).detail) == (Sync.UNKNOWN, "no live worker has it")


def test_a_broken_template_holds_all_of_its_app() -> None:
    broken = BrokenApp(app="billing", place="apps/billing/template.yaml:7", problem="RLY101 unknown key")
    standing = only(fleet(HOURLY), w1=[broken])
    assert standing.sync is Sync.HELD
    assert standing.detail == "apps/billing/template.yaml:7 RLY101 unknown key; the last good one runs"
    assert "no live worker has a good one" in only(replace(fleet(HOURLY), workers={}), w1=[broken]).detail


@pytest.mark.parametrize(
    ("settled", "health"),
    [(DUE_S, Health.HEALTHY), (DUE_S + 1, Health.HEALTHY), (DUE_S - 3600, Health.OVERDUE), (None, Health.OVERDUE)],
)
def test_a_firing_that_nobody_published_is_overdue(settled: int | None, health: Health) -> None:
    assert only(fleet(HOURLY, settled_until=settled)).health is health


def test_what_was_due_before_the_definition_is_not_owed() -> None:
    assert only(fleet(HOURLY, settled_until=None, from_ms=(DUE_S + 1) * 1000)).health is Health.HEALTHY


def test_a_spread_firing_is_given_its_spread() -> None:
    assert only(fleet(f"{HOURLY}, jitter: 20m", settled_until=DUE_S - 3600)).health is Health.HEALTHY
    assert only(fleet(f"{HOURLY}, jitter: 10m", settled_until=DUE_S - 3600)).health is Health.OVERDUE


def test_a_failed_last_run_and_a_pause() -> None:
    last = LastRun(verdict="failed", reason="exit 3", scheduled_at="2026-09-29T10:00:00Z", attempts=5, took_ms=9)
    standing = only(fleet(HOURLY, last=last))
    assert (standing.health, standing.detail) == (Health.FAILING, "exit 3")
    refused = only(fleet(HOURLY, settled_until=int(NOW.timestamp()), refusals=3, last_error="too large"))
    assert (refused.health, refused.detail) == (Health.FAILING, "publication refused 3 times in a row: too large")
    paused = only(fleet(HOURLY, last=last, paused_at=NOW))
    assert (paused.health, paused.next_at) == (Health.PAUSED, None)


def test_a_disabled_schedule_owes_nothing() -> None:
    standing = only(fleet(f"{HOURLY}, enabled: false", settled_until=None))
    assert (standing.health, standing.next_at) == (Health.HEALTHY, None)


MISSING = "the secret key has no value here; set it with: relayctl secret set key"


@pytest.mark.parametrize(
    ("lacking", "health"),
    [(["w1", "w2"], Health.FAILING), (["w1"], Health.HEALTHY), ([], Health.HEALTHY)],
    ids=["on all", "on one", "on none"],
)
def test_a_secret_that_no_worker_has(lacking: list[str], health: Health) -> None:
    found = fleet(HOURLY, HOURLY)
    assert set(found.workers) == {"w1", "w2"}
    [standing] = standings(found, {}, NOW, unresolved={worker: {"billing": (MISSING,)} for worker in lacking})
    assert (standing.health, standing.detail) == (health, MISSING if health is Health.FAILING else "")


def test_a_pause_counts_more_than_a_missing_secret() -> None:
    found = fleet(HOURLY, paused_at=NOW)
    [standing] = standings(found, {}, NOW, unresolved={"w1": {"billing": (MISSING,)}})
    assert standing.health is Health.PAUSED
