"""golden/account: what why and history say, at 80 and 120 columns and as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from support.schema import conforms
from support.workbench import cron, generation
from syrupy.assertion import SnapshotAssertion

from relayctl.core.account import Recorded
from relayctl.core.occurrence import epoch_seconds
from relayctl.core.record import Record
from relayctl.core.underway import Underway
from relayctl.core.verdict import Evidence, Live, judge
from relayctl.render import history as render_history
from relayctl.render import why as render_why

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
AT = datetime(2026, 9, 29, 10, 0, tzinfo=UTC)
ROME = ZoneInfo("Europe/Rome")
HOUR = timedelta(hours=1)
DEFINED = generation(cron("0 * * * *", "Europe/Rome"), epoch_seconds(NOW) - 30 * 86_400)


def message(at: datetime, late_ms: int = 250) -> str:
    return f"{epoch_seconds(at) * 1000 + late_ms}-0"


def run(at: datetime, verdict: str = "succeeded", **changes: Any) -> Record:
    known: dict[str, Any] = {
        "recorded_at": at + timedelta(seconds=9),
        "verdict": verdict,
        "kind": "schedule",
        "message": message(at),
        "handler": "jobs.sync.handler",
        "scheduled_at": at,
        "attempts": 1,
        "attempts_allowed": 5,
        "started_at": at + timedelta(milliseconds=400),
        "finished_at": at + timedelta(seconds=8, milliseconds=600),
        "exit": "0",
        "by": "web-1-aaaa1111",
        "worker": "web-2-bbbb2222",
    }
    return Record(**known | changes)


RANGE = Record(
    recorded_at=AT - 2 * HOUR,
    verdict="missed",
    reason="catch_up: latest",
    kind="schedule",
    scheduled_at=AT - 3 * HOUR,
    first_at=AT - 9 * HOUR,
    count=7,
    finished_at=AT - 2 * HOUR,
    worker="web-1-aaaa1111",
)
RECORDS = [
    run(AT),
    run(AT - HOUR, "failed", reason="exit 3: the remote side said no", exit="3", attempts=5, marks=("late",)),
    run(AT - 2 * HOUR, marks=("caught_up",)),
    RANGE,
    run(AT - 10 * HOUR, "skipped", reason="another run had not ended: 1-0", attempts=0, started_at=None, exit="", worker=""),
]  # fmt: skip


def underway(state: str, at: datetime, **changes: Any) -> Underway:
    known: dict[str, Any] = {
        "state": state,
        "kind": "schedule",
        "message": message(at),
        "handler": "jobs.sync.handler",
        "scheduled_at": at,
        "attempts": 1,
        "attempts_allowed": 5,
        "started_at": at + timedelta(seconds=1),
        "worker": "web-2-bbbb2222",
    }
    return Underway(**known | changes)


UNFINISHED = [
    underway("waiting", NOW, attempts=0, attempts_allowed=0, handler="", started_at=None, worker=""),
    underway("running", NOW - timedelta(seconds=75), attempts=2),
    underway(
        "retrying",
        NOW - timedelta(minutes=5),
        kind="manual",
        finished_at=NOW - timedelta(minutes=4, seconds=57),
        due_at=NOW + timedelta(seconds=40),
        reason="exit 3: the remote side said no, and that it would say so again",
    ),
    underway("waiting", NOW - timedelta(minutes=6), attempts=0, started_at=None, due_at=NOW - timedelta(minutes=6)),
]


def evidence(**changes: Any) -> Evidence:
    fields = {str(epoch_seconds(record.scheduled_at)): f"p|aaaa1111|{record.message}" for record in RECORDS if record.message and record.scheduled_at}  # fmt: skip
    known: dict[str, Any] = {
        "app": "crm",
        "schedule": "sync-contacts",
        "now": NOW,
        "generations": [DEFINED],
        "floor": epoch_seconds(AT - 12 * HOUR),
        "paused_at": None,
        "recorded": Recorded.of(fields | {f"{epoch_seconds(AT - 9 * HOUR)}-{epoch_seconds(AT - 3 * HOUR)}": "c|missed|catch_up: latest"}),
        "records": RECORDS,
        "live": {},
        "workers": ["web-1-aaaa1111", "web-2-bbbb2222"],
    }  # fmt: skip
    return Evidence(**known | changes)


ENTRY = message(AT)
EARLY = message(AT - timedelta(minutes=48))
NOTHING = Recorded.of({})
CASES: dict[str, tuple[Evidence, datetime]] = {
    "succeeded": (evidence(), AT),
    "failed": (evidence(), AT - HOUR),
    "missed": (evidence(), AT - 5 * HOUR),
    "running": (
        evidence(records=[], live={ENTRY: Live(state="claimed", attempts=2, attempts_allowed=5, token="bbbb2222.9")}),
        AT,
    ),
    "retrying": (
        evidence(
            records=[],
            live={ENTRY: Live(state="ready", attempts=1, attempts_allowed=5, due_at=NOW + timedelta(seconds=45))},
        ),
        AT,
    ),
    "waiting": (evidence(records=[], live={ENTRY: Live(state="ready")}), AT),
    "overdue": (evidence(records=[], recorded=NOTHING), AT),
    "paused": (evidence(records=[], recorded=NOTHING, paused_at=AT - timedelta(minutes=5)), AT),
    "ahead": (evidence(), AT + 3 * HOUR),
    "by order, before its time": (
        evidence(
            records=[run(AT, message=EARLY, marks=("triggered",))],
            recorded=Recorded.of({str(epoch_seconds(AT)): f"p|aaaa1111|{EARLY}"}),
        ),
        AT,
    ),
    "settled": (evidence(), AT - 20 * HOUR),
    "not-expected": (evidence(), AT + timedelta(minutes=7)),
    "before-it-was": (evidence(), AT - timedelta(days=40)),
}


def why(case: str) -> render_why.Why:
    known, at = CASES[case]
    return render_why.Why(app="crm", schedule="sync-contacts", now=NOW, zone=ROME, firings=[judge(known, at)])


@pytest.mark.parametrize("width", [80, 120])
def test_why(golden: SnapshotAssertion, width: int) -> None:
    page = "\n".join(f"--- {case}\n{render_why.text(why(case), width=width)}" for case in CASES)
    assert max(map(len, page.splitlines())) <= width
    assert page == golden


@pytest.mark.parametrize("width", [80, 120])
def test_why_of_a_day(golden: SnapshotAssertion, width: int) -> None:
    firings = [judge(evidence(), AT - number * HOUR) for number in (5, 2, 1, 0)]
    asked = render_why.Why(app="crm", schedule="sync-contacts", now=NOW, zone=ROME, firings=firings, more=1436)
    assert render_why.text(asked, width=width) == golden


def test_why_json(golden: SnapshotAssertion) -> None:
    documents = [render_why.document(why(case)) for case in CASES]
    for document in documents:
        conforms(document, "why")
    assert json.dumps(documents, indent=2) == golden


@pytest.mark.parametrize("width", [80, 120, 200])
def test_history(golden: SnapshotAssertion, width: int) -> None:
    shown = render_history.History(
        app="crm",
        name="sync-contacts",
        is_schedule=True,
        zone=ROME,
        now=NOW,
        unfinished=UNFINISHED,
        records=RECORDS,
        is_cut=True,
    )
    page = render_history.text(shown, width=width)
    assert max(map(len, page.splitlines())) <= width
    assert page == golden


def test_history_json(golden: SnapshotAssertion) -> None:
    shown = render_history.History(
        app="crm", name="sync-contacts", is_schedule=True, zone=ROME, now=NOW, unfinished=UNFINISHED, records=RECORDS
    )
    document = render_history.document(shown)
    conforms(document, "history")
    assert json.dumps(document, indent=2) == golden


def test_history_of_nothing() -> None:
    shown = render_history.History(app="crm", name="jobs.run", is_schedule=False, zone=UTC, now=NOW, records=[])
    assert render_history.text(shown, width=80) == "nothing on record of crm/jobs.run\n"
