"""What became of one firing, from every kind of evidence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.workbench import cron, every, generation, schedule

from relayctl.core.account import Recorded
from relayctl.core.cron import Cron, Dst, Gap
from relayctl.core.definition import TOMBSTONE, Generation
from relayctl.core.occurrence import epoch_seconds, from_epoch
from relayctl.core.record import Record, read_record
from relayctl.core.verdict import Evidence, Live, State, judge, why_not

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
AT = datetime(2026, 9, 29, 10, 0, tzinfo=UTC)
ENTRY = f"{epoch_seconds(AT) * 1000 + 250}-0"
HOURLY = generation(cron("0 * * * *", "Europe/Rome"), epoch_seconds(NOW) - 86_400)


def evidence(fields: dict[str, str] | None = None, **changes: Any) -> Evidence:
    known: dict[str, Any] = {
        "app": "crm",
        "schedule": "sync",
        "now": NOW,
        "generations": [HOURLY],
        "floor": None,
        "paused_at": None,
        "recorded": Recorded.of(fields or {}),
        "records": [],
        "live": {},
        "workers": ["web-1-aaaa1111", "web-2-bbbb2222"],
    }
    return Evidence(**known | changes)


PUBLISHED = {str(epoch_seconds(AT)): f"p|aaaa1111|{ENTRY}"}


def run(verdict: str = "succeeded", **changes: Any) -> Record:
    known = {
        "recorded_at": NOW,
        "verdict": verdict,
        "kind": "schedule",
        "message": ENTRY,
        "scheduled_at": AT,
        "attempts": 1,
        "by": "web-1-aaaa1111",
        "worker": "web-2-bbbb2222",
    }
    return Record(**known | changes)


def test_a_published_firing_that_ended() -> None:
    found = judge(evidence(PUBLISHED, records=[run()]), AT)
    assert (found.state, found.verdict, found.by, found.worker) == (
        State.ENDED,
        "succeeded",
        "web-1-aaaa1111",
        "web-2-bbbb2222",
    )
    assert found.published_at == AT + timedelta(milliseconds=250)
    assert (found.before, found.after) == (AT - timedelta(hours=1), AT + timedelta(hours=1))
    assert judge(evidence(records=[run()], floor=epoch_seconds(AT)), AT).verdict == "succeeded", "dropped, on record"


@pytest.mark.parametrize(
    ("live", "state"),
    [
        (Live(state=None), State.PUBLISHED),
        (Live(state="ready"), State.WAITING),
        (Live(state="waiting"), State.WAITING),
        (Live(state="ready", attempts=2), State.RETRYING),
        (Live(state="claimed", attempts=1, token="bbbb2222.7"), State.RUNNING),
        (Live(state="succeeded", attempts=1), State.ENDED),
        (None, State.SETTLED),
    ],
)
def test_a_published_firing_that_has_not_ended(live: Live | None, state: State) -> None:
    found = judge(evidence(PUBLISHED, live={} if live is None else {ENTRY: live}), AT)
    assert found.state is state
    assert (found.message, found.by) == (ENTRY, "web-1-aaaa1111")
    if state is State.RUNNING:
        assert found.worker == "web-2-bbbb2222"


def test_a_worker_that_is_gone_is_known_by_its_token() -> None:
    assert judge(evidence(PUBLISHED, workers=[]), AT).by == "aaaa1111"


def test_closed_alone_in_a_range_and_from_the_record() -> None:
    second = epoch_seconds(AT)
    for fields in ({str(second): "c|missed|horizon"}, {f"{second - 7200}-{second}": "c|missed|horizon"}):
        found = judge(evidence(fields), AT)
        assert (found.state, found.verdict, found.reason) == (State.CLOSED, "missed", "horizon")
    closing = Record(
        recorded_at=NOW,
        verdict="paused",
        reason="maintenance",
        kind="schedule",
        scheduled_at=AT,
        first_at=AT - timedelta(hours=5),
        count=6,
    )
    found = judge(evidence(records=[closing], floor=second), AT)
    assert (found.state, found.verdict, found.record) == (State.CLOSED, "paused", closing)


def test_an_operator_who_ran_a_closed_one_after_all() -> None:
    closing = Record(recorded_at=NOW, verdict="missed", reason="horizon", kind="schedule", scheduled_at=AT)
    found = judge(evidence(PUBLISHED, records=[run(marks=("triggered",)), closing]), AT)
    assert (found.state, found.verdict, found.replaced) == (State.ENDED, "succeeded", closing)


def test_a_replay_leaves_the_verdict_and_marks_it() -> None:
    replay = run("succeeded", message="1-9", marks=("replayed",))
    found = judge(evidence(PUBLISHED, records=[replay, run("failed", reason="exit 3")]), AT)
    assert (found.verdict, found.reason) == ("failed", "exit 3")
    assert found.record is not None
    assert found.record.marks == ("replayed",)


def test_nothing_recorded() -> None:
    assert judge(evidence(), AT).state is State.OVERDUE
    assert judge(evidence(now=AT + timedelta(seconds=30)), AT).state is State.DUE
    jittery = evidence(now=AT + timedelta(seconds=80), jitter=timedelta(seconds=30))
    assert judge(jittery, AT).state is State.DUE
    assert judge(evidence(floor=epoch_seconds(AT)), AT).state is State.SETTLED
    assert judge(evidence(), AT + timedelta(hours=2)).state is State.AHEAD
    paused = evidence(paused_at=AT - timedelta(minutes=1))
    assert judge(paused, AT).state is State.PAUSED
    assert judge(replace(paused, paused_until=AT), AT).state is State.OVERDUE
    assert judge(paused, AT - timedelta(hours=1)).state is State.OVERDUE


def test_another_evaluators_definition_is_not_judged() -> None:
    foreign = replace(HOURLY, spec=HOURLY.spec.replace('"zone":"', '"zone":"0'))
    assert judge(evidence(generations=[foreign]), AT).state is State.UNJUDGED
    assert judge(evidence(PUBLISHED, generations=[foreign], records=[run()]), AT).state is State.ENDED


def test_a_manual_run_at_that_second_is_no_firing() -> None:
    assert judge(evidence(records=[run(kind="manual")]), AT).state is State.OVERDUE


def objections(item: Any, at: str, zone: str = "UTC") -> tuple[str, ...]:
    found: tuple[str, ...] = why_not([generation(item, 0)], datetime.fromisoformat(at).replace(tzinfo=UTC))
    return found


@pytest.mark.parametrize(
    ("expression", "zone", "at", "said"),
    [
        ("0 3 * * *", "UTC", "2026-09-29T03:31:00", ("minute is 31, and the schedule wants 0",)),
        ("0 3 * * *", "UTC", "2026-09-29T04:00:00", ("hour is 4, and the schedule wants 3",)),
        ("0 3 * * *", "Europe/Rome", "2026-09-29T03:00:00", ("hour is 5, and the schedule wants 3",)),
        ("0 3 * * *", "Europe/Rome", "2026-09-29T01:00:00", ()),
        ("0 3 * * *", "UTC", "2026-09-29T03:00:30", ("cron fires at whole minutes, and this is 30 s after one",)),
        ("0 3 1 * 1", "UTC", "2026-09-28T03:00:00", ()),
    ],
)
def test_which_field_does_not_match(expression: str, zone: str, at: str, said: tuple[str, ...]) -> None:
    assert objections(cron(expression, zone), at) == said


def test_both_day_fields_are_named_where_neither_matches() -> None:
    said = objections(cron("0 3 1 * 1"), "2026-09-29T03:00:00")
    assert len(said) == 2


def test_the_pass_of_a_fold_that_does_not_count() -> None:
    [said] = objections(cron("30 2 * * *", "Europe/Rome"), "2026-10-25T01:30:00")
    assert said == "the clock went back, and 02:30 had its firing in the first pass (dst.fold: first)"


SKIPPING = schedule(Cron.parse("30 2 * * *", "Europe/Rome", Dst(gap=Gap.SKIP)), "tick")


@pytest.mark.parametrize("at", ["2027-03-28T01:00:00", "2027-03-28T01:30:00", "2027-03-27T23:00:00"])
@pytest.mark.parametrize("item", [SKIPPING, cron("*/30 2 * * *", "Europe/Rome")], ids=["fixed", "star"])
def test_a_day_that_lacks_its_time(item: Any, at: str) -> None:
    [said] = objections(item, at)
    assert said.startswith("the clock goes forward on that day: it has no 02:")


def test_other_days_and_firings_that_were_moved_are_judged_by_the_fields() -> None:
    assert objections(SKIPPING, "2027-03-29T01:30:00") == ("hour is 3, and the schedule wants 2",)
    moved = objections(cron("30 2 * * *", "Europe/Rome"), "2027-03-28T01:30:00")
    assert moved == ("hour is 3, and the schedule wants 2",)
    assert objections(cron("7 * * * *", "Europe/Rome"), "2027-03-28T01:30:00")[0].startswith("minute is 30")


def test_an_interval_and_definitions_that_fire_nothing() -> None:
    assert objections(every(900), "2026-09-29T10:05:00") == ("it lies 5m after a whole multiple of 15m",)
    assert objections(every(900, enabled=False), "2026-09-29T10:00:00")[0].startswith("the schedule was disabled")
    begin = epoch_seconds(AT) + 60
    assert "no definition yet" in why_not([generation(every(60), begin)], AT)[0]
    assert "oldest definition" in why_not([generation(every(60), begin, gen=7)], AT)[0]
    gone = Generation(gen=2, hash=TOMBSTONE, spec="", from_ms=epoch_seconds(AT) * 1000 - 1)
    assert "was removed" in why_not([replace(HOURLY, to_ms=gone.from_ms), gone], AT)[0]
    assert why_not([], AT) == ("nothing is known of the schedule",)


def test_records_of_any_age_are_read_and_newer_ones_left() -> None:
    assert read_record(1000, {"v": "2"}) is None
    found = read_record(1000, {"v": "1", "verdict": "failed", "started": "x", "attempts": "-1"})
    assert found is not None
    assert (found.recorded_at, found.attempts, found.started_at, found.took) == (from_epoch(1), 0, None, None)
