"""What the state of a fleet looks like: all well, and with everything that can be odd."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from support.described import NOW, described, running, sample
from support.schema import conforms
from syrupy.assertion import SnapshotAssertion

from relayctl.core.drift import deviations
from relayctl.core.plan import Change
from relayctl.core.running import BrokenApp
from relayctl.core.servicestanding import ServiceStanding
from relayctl.core.standing import Health, Standing, Sync
from relayctl.core.unbuilt import UnbuiltApp
from relayctl.render import status as render
from relayctl.render.status import Status, WorkerLine

MISSING = "the secret crm-token has no value here; set it with: relayctl secret set crm-token"
BROKEN = BrokenApp(
    app="crm",
    place="apps/crm/template.yaml:22",
    problem='RLY101 unknown key "retires" in schedules[0] "sync-contacts"',
    since="2026-09-29T09:40:00Z",
)
UNBUILT = UnbuiltApp(
    app="crm", file="requirements.txt", reason="No matching distribution found for httpz==3",
    lines=(
        "Looking in indexes: https://***@index.example/simple",
        "ERROR: Could not find a version that satisfies the requirement httpz==3 (from versions: none)",
    ),
    since="2026-09-29T09:55:00Z", serves="7c1e9d42",
)  # fmt: skip
WAITING = UnbuiltApp(app="site", file="package-lock.json", since="2026-09-29T10:14:40Z")
FINE = ServiceStanding(app="site", service="web", wanted=2, up=2)
BAD = (
    ServiceStanding(
        app="site", service="api", wanted=3, up=2, old=2, restarts=4, is_looping=True,
        detail="replica 0: exit code 1: no database (4 times in a row); 2 of the definition before go on until the new one is up",
    ),
    ServiceStanding(app="site", service="files", wanted=1, up=0, detail="port 8310 is taken by another process on this machine"),
    ServiceStanding(app="site", service="new", wanted=2, up=1),
)  # fmt: skip


def _worker(
    name: str,
    *broken: BrokenApp,
    drift: int = 0,
    notes: tuple[str, ...] = (),
    services: tuple[ServiceStanding, ...] = (),
    unbuilt: tuple[UnbuiltApp, ...] = (),
    unresolved: Mapping[str, tuple[str, ...]] | None = None,
) -> WorkerLine:
    return WorkerLine(
        id=name,
        version="0.1.0",
        apps=3,
        beat_age=timedelta(seconds=1.4),
        up=timedelta(days=2, hours=3),
        drift=drift,
        broken=broken,
        tzdata="2026f",
        evaluator="1",
        source="directory apps",
        revision="7c1e9d42ab12",
        revision_since="2026-09-29T09:54:00Z",
        notes=notes,
        is_publishing=True,
        services=services,
        unbuilt=unbuilt,
        unresolved=unresolved or {},
    )


def _standing(name: str, sync: Sync, health: Health, detail: str = "", waiting: int = 0) -> Standing:
    paused = health is Health.PAUSED
    return Standing(
        app="crm",
        schedule=name,
        sync=sync,
        health=health,
        next_at=None if paused else NOW + timedelta(minutes=75),
        waiting=waiting,
        detail=detail,
    )


def _status(*schedules: Standing, workers: tuple[WorkerLine, ...], checks: tuple[str, ...] = ()) -> Status:
    return Status(
        now=NOW,
        broker="redis://broker:6379 · valkey 8.1.0",
        namespace="relay",
        mode="pull",
        backlog=1,
        workers=workers,
        schedules=schedules,
        checks=checks,
    )


WELL = _status(_standing("sync", Sync.SYNCED, Health.HEALTHY), workers=(_worker("web-1", services=(FINE,)),))
ODD = _status(
    _standing("fine", Sync.SYNCED, Health.HEALTHY),
    _standing("failing", Sync.SYNCED, Health.FAILING, "exit 3"),
    _standing("held", Sync.HELD, Health.HEALTHY, "apps/crm/template.yaml:22 RLY101; the last good one runs"),
    _standing("odd", Sync.OUT_OF_SYNC, Health.HEALTHY, "other definition on web-2", waiting=2),
    _standing("overdue", Sync.SYNCED, Health.OVERDUE, "due at 2026-09-29 10:00:00Z and not published"),
    _standing("paused", Sync.SYNCED, Health.PAUSED),
    _standing("secretless", Sync.SYNCED, Health.FAILING, MISSING),
    _standing("nobody", Sync.UNKNOWN, Health.HEALTHY, "no live worker has it"),
    workers=(
        _worker(
            "web-1",
            BROKEN,
            services=(FINE,),
            unbuilt=(replace(UNBUILT, since="2026-09-29T09:54:00Z"),),
            unresolved={"crm": (MISSING,), "shop": (MISSING,)},
        ),
        _worker(
            "web-2",
            BROKEN,
            drift=1,
            notes=("memory is limited per process",),
            services=(FINE, *BAD),
            unbuilt=(UNBUILT, WAITING),
            unresolved={"crm": (MISSING,)},
        ),
    ),
    checks=("clock     this machine is 4.0 s ahead of the broker",),
)
NOBODY = _status(_standing("nobody", Sync.UNKNOWN, Health.HEALTHY, "no live worker has it"), workers=())
CASES = {"well": WELL, "odd": ODD, "nobody": NOBODY}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("case", CASES)
def test_text(case: str, width: int, golden: SnapshotAssertion) -> None:
    assert render.text(CASES[case], width=width, with_workers=True, with_counts=False, with_checks=True) == golden


def _deviations() -> tuple[Change, ...]:
    head = "env: {TOKEN: hunter2}\nservices:\n  - {name: web, command: [./a], port: 3000}\n"
    usual = described({
        "crm": sample("name: sync, every: 1m", "name: export, every: 5m", head=head, name="crm"),
        "search": sample(*(f"name: s{number}, every: 1h" for number in range(6)), name="search"),
    })  # fmt: skip
    other = described({
        "crm": sample(
            "name: sync, every: 2m, timeout: 9s", "name: more, every: 1m", head=head.replace("hunter2", "x"), name="crm"
        ),
    })  # fmt: skip
    return deviations(running(usual, usual, other))


def test_what_single_workers_run_otherwise(golden: SnapshotAssertion) -> None:
    found = replace(WELL, deviations=_deviations())
    shown = [
        render.text(found, width=width, with_workers=False, with_counts=False, with_checks=False) for width in (80, 120)
    ]
    document = json.dumps(render.document(found), indent=2)
    assert "hunter2" not in document + "".join(shown)
    for each in json.loads(document)["deviations"]:
        conforms(each, "status", "deviation")
    assert found.has_drift
    assert "\n".join(shown) == golden


def test_counts(golden: SnapshotAssertion) -> None:
    assert render.text(ODD, width=80, with_workers=False, with_counts=True, with_checks=False) == golden


def test_json(golden: SnapshotAssertion) -> None:
    assert json.dumps(render.document(ODD), indent=2) + "\n" == golden


def test_what_counts_as_drift() -> None:
    assert not WELL.has_drift
    assert ODD.has_drift
    assert NOBODY.has_drift
    left = _status(workers=(_worker("web-1", services=BAD[:1]),))
    taken = _status(workers=(_worker("web-1", services=BAD[1:]),))
    assert left.has_drift and not taken.has_drift


def test_a_long_list_is_cut_and_says_so() -> None:
    many = _status(*(_standing(f"s{number}", Sync.UNKNOWN, Health.HEALTHY) for number in range(1240)), workers=())
    shown = render.text(many, width=80, with_workers=False, with_counts=False, with_checks=False)
    assert "… 1,200 more; --format json lists all" in shown
    assert len(shown.splitlines()) < 60
