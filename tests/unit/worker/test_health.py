"""Health: the judgement over what was observed, and the clock that takes a loop's pulse."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relayctl.core.health import (
    BEAT_LIMIT_S,
    CLOCK_LIMIT_S,
    RECONCILER_BEAT_LIMIT_S,
    HealthReport,
    LoopSigns,
    Signs,
    State,
    Weight,
    judge,
    unanswering,
)
from relayctl.host.clock import HeldClock
from relayctl.worker.health import BeatClock

LOOPS = ("scheduler", "claimer", "consumer", "reconciler")
SOUND = Signs(
    worker="host-0a1b2c3d",
    pid=7,
    version="0.1.0",
    state=State.RUNNING,
    uptime=timedelta(minutes=5),
    loops={name: LoopSigns(beat_age_s=0.1, pass_age_s=0.1) for name in LOOPS} | {"watch": LoopSigns(beat_age_s=0)},
    resync=timedelta(seconds=30),
    apps=2,
    schedules=3,
    armed=3,
    running=0,
    is_registered=True,
    clock_difference=timedelta(milliseconds=2),
    source="directory apps",
)


def _loop(name: str, **signs: Any) -> dict[str, LoopSigns]:
    return {**SOUND.loops, name: replace(SOUND.loops[name], **signs)}


def _failed(report: HealthReport) -> set[str]:
    return {check.name for check in report.failures}


def test_a_worker_with_nothing_wrong_is_live_and_ready() -> None:
    report = judge(SOUND)
    assert report.is_live and report.is_ready and report.failures == ()
    assert all(check.reason for check in report.checks)


@pytest.mark.parametrize(
    ("signs", "failed"),
    [
        ({"broker_trouble": "it is away", "clock_difference": None}, "broker"),
        ({"is_registered": False}, "registered"),
        ({"overdue": ["a/s@2026-09-29T10:15:00Z"], "overdue_by": timedelta(seconds=11)}, "due"),
        ({"clock_difference": timedelta(seconds=CLOCK_LIMIT_S + 1)}, "clock"),
        ({"clock_difference": timedelta(seconds=-CLOCK_LIMIT_S - 1)}, "clock"),
        ({"state": State.DRAINING}, "state"),
        ({"loops": _loop("scheduler", pass_age_s=5.1)}, "pass:scheduler"),
        ({"loops": _loop("claimer", pass_age_s=10.1)}, "pass:claimer"),
        ({"loops": _loop("consumer", pass_age_s=10.1)}, "pass:consumer"),
        ({"loops": _loop("reconciler", pass_age_s=40.1)}, "pass:reconciler"),
    ],
)
def test_unsound_scheduling_is_live_but_not_ready(signs: dict[str, Any], failed: str) -> None:
    report = judge(replace(SOUND, **signs))
    assert (_failed(report), report.is_live, report.is_ready) == ({failed}, True, False)


@pytest.mark.parametrize(
    "signs",
    [
        {"loops": _loop("scheduler", is_alive=False)},
        {"loops": _loop("watch", is_alive=False)},
        {"loops": _loop("consumer", beat_age_s=BEAT_LIMIT_S + 0.1)},
        {"loops": _loop("reconciler", beat_age_s=RECONCILER_BEAT_LIMIT_S + 0.1)},
    ],
)
def test_a_dead_or_hanging_loop_is_not_live(signs: dict[str, Any]) -> None:
    report = judge(replace(SOUND, **signs))
    assert not report.is_live and not report.is_ready


@pytest.mark.parametrize(
    ("signs", "failed", "said"),
    [
        ({"is_source_lost": True}, "source", "keeps running"),
        ({"held_removal": "7c1e9d42"}, "removals", "--accept-removals 7c1e9d42"),
        ({"broken": [f"app{n}" for n in range(7)]}, "templates", "app4 and 2 more"),
        ({"behind": 1}, "drift", "1 schedule is behind"),
    ],
)
def test_what_somebody_should_look_at_does_not_make_it_unready(signs: dict[str, Any], failed: str, said: str) -> None:
    report = judge(replace(SOUND, **signs))
    assert report.is_live and report.is_ready and _failed(report) == {failed}
    assert said in report.failures[0].reason


def test_who_has_been_fetching_is_named_and_is_no_failure() -> None:
    report = judge(replace(SOUND, source="git x main:apps", source_busy="process 7 (relayctl serve) since noon"))
    [check] = [check for check in report.checks if check.name == "source"]
    assert (check.is_ok, report.is_ready) == (True, True)
    assert check.reason.endswith("can be read; it is being fetched by process 7 (relayctl serve) since noon")


@pytest.mark.parametrize("age", [5.0, 0.0])
def test_a_limit_itself_is_in_order(age: float) -> None:
    assert judge(replace(SOUND, loops=_loop("scheduler", pass_age_s=age))).is_ready


def test_without_a_periodic_pass_the_reconciler_still_has_its_limit() -> None:
    off = replace(SOUND, resync=None)
    assert judge(replace(off, loops=_loop("reconciler", pass_age_s=9.9))).is_ready
    assert not judge(replace(off, loops=_loop("reconciler", pass_age_s=10.1))).is_ready


def test_a_starting_worker_is_live_and_judged_on_nothing_else() -> None:
    report = judge(replace(SOUND, state=State.STARTING, loops={}, is_registered=False))
    assert report.is_live and not report.is_ready and _failed(report) == {"state"}


def test_a_report_survives_the_wire() -> None:
    report = judge(replace(SOUND, http="127.0.0.1:9100", revision="7c1e9d42", broken=["crm"]))
    assert HealthReport.from_json(report.to_json()) == report
    silent = unanswering("control-0a1b2c3d.sock", "it does not answer")
    assert not silent.is_live and HealthReport.from_json(silent.to_json()) == silent


@pytest.mark.parametrize("document", [{}, {"checks": 3}, judge(SOUND).to_json() | {"checks": [{"name": "x"}]}])
def test_a_foreign_document_is_no_report(document: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        HealthReport.from_json(document)


def test_weights_are_told_by_name() -> None:
    weights = {check["name"]: check["weight"] for check in judge(SOUND).to_json()["checks"]}
    assert weights["loop:scheduler"] == Weight.LIVE.value and weights["due"] == "ready" and weights["source"] == "note"


def test_asking_the_time_and_coming_out_of_a_wait_are_signs_of_life() -> None:
    held = HeldClock(datetime(2026, 9, 29, tzinfo=UTC))
    clock = BeatClock(held)
    held.advance(timedelta(seconds=3))
    assert clock.beat_at == 0.0 and clock.now() == held.now() and clock.time() == held.time()
    assert clock.monotonic() == clock.beat_at == 3.0
    waiting = threading.Thread(target=clock.wait, args=(threading.Event(), 2.0))
    waiting.start()
    assert held.await_waiters(1)
    held.advance(timedelta(seconds=1))
    assert clock.beat_at == 3.0
    held.advance(timedelta(seconds=1))
    waiting.join(5)
    assert clock.beat_at == 5.0


def test_an_old_outbox_is_not_ready_and_a_young_one_is() -> None:
    waiting = replace(SOUND, outbox_rows=2, outbox_age=timedelta(seconds=59))
    assert judge(waiting).is_ready
    old = judge(replace(waiting, outbox_age=timedelta(seconds=61)))
    assert _failed(old) == {"outbox"}
    assert old.is_live and not old.is_ready
    assert "2 firings wait in the outbox, the oldest for 61 s, at most 60 s are in order" in old.failures[0].reason
    assert judge(replace(waiting, outbox_age=None)).is_ready, "rows that are never published do not age"
    assert _failed(judge(replace(SOUND, outbox_trouble="the database cannot be used"))) == {"outbox"}
