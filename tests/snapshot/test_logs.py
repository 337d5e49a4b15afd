"""golden/logs: kept output of runs of every kind, at 80 and 120 columns and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from support.schema import conforms
from syrupy.assertion import SnapshotAssertion

from relayctl.core.lifecycle import Slot
from relayctl.core.output import KeptOutput
from relayctl.core.record import Record
from relayctl.core.runlog import Follower, RunLog
from relayctl.core.verdict import Judgement, State
from relayctl.render import logs as render

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
AT = datetime(2026, 9, 29, 10, 0, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)
ROME = ZoneInfo("Europe/Rome")
MESSAGE = f"{AT_MS + 250}-0"
TRACE = 'connecting to crm.example\nTraceback (most recent call last):\n  File "jobs/sync.py", line 7, in handler\nOSError: the remote side said no\n'
FIRST = KeptOutput(
    app="crm",
    slot="@sync-contacts",
    message=MESSAGE,
    token="aaaa1111.7",
    handler="jobs.sync.handler",
    attempt=1,
    allowed=2,
    scheduled_at="2026-09-29T10:00:00Z",
    worker="web-1-aaaa1111",
    started_ms=AT_MS + 400,
    finished_ms=AT_MS + 8600,
    outcome="failed",
    reason="OSError: the remote side said no",
    exit="3",
    text=TRACE,
    printed=len(TRACE),
    lines=4,
)
SECOND = replace(
    FIRST,
    token="bbbb2222.1",
    attempt=2,
    worker="web-2-bbbb2222",
    started_ms=AT_MS + 70_000,
    finished_ms=AT_MS + 71_000,
    reason="exit 3",
    text="…ow 4711 of 9,000\n\\x1b[2Jrow 4712 of 9,000, with a token of ***\nno line end",
    lines=4712,
    printed=81_920,
    is_cut=True,
)
RECORD = Record(
    recorded_at=AT + timedelta(seconds=71),
    verdict="failed",
    reason="exit 3",
    kind="schedule",
    message=MESSAGE,
    handler="jobs.sync.handler",
    scheduled_at=AT,
    attempts=2,
    attempts_allowed=2,
    started_at=AT + timedelta(seconds=70),
    finished_at=AT + timedelta(seconds=71),
    exit="3",
    by="web-1-aaaa1111",
    worker="web-2-bbbb2222",
)


def run(*attempts: KeptOutput, **changes: Any) -> RunLog:
    known: dict[str, Any] = {
        "app": "crm", "name": "sync-contacts", "slot": Slot("@sync-contacts"), "message": MESSAGE, "scheduled_at": AT,
        "zone": ROME,
    }  # fmt: skip
    return RunLog(attempts=attempts, **known | changes)


RUNNING = replace(
    SECOND, finished_ms=0, outcome="running", reason="", exit="", text="row 1\nrow 2\nro", lines=2, is_cut=False
)
EVENT: dict[str, Any] = {"name": "jobs.on_deal", "slot": Slot("jobs.on_deal"), "scheduled_at": None}
DEAL = replace(FIRST, slot="jobs.on_deal", handler="jobs.on_deal", scheduled_at="", text="", printed=0, lines=0)
RUNS = {
    "failed": run(FIRST, SECOND, record=RECORD),
    "running": run(FIRST, RUNNING, state="running", begun=2),
    "retrying": run(FIRST, state="retrying", begun=1),
    "event": run(DEAL, record=replace(RECORD, kind="event", scheduled_at=None, attempts=1), **EVENT),
    "manual": run(
        replace(SECOND, slot="!sync-contacts", outcome="succeeded", reason="", exit="0", is_cut=False, lines=2),
        slot=Slot("!sync-contacts"),
        record=replace(RECORD, kind="manual", verdict="succeeded", reason="", marks=("triggered",)),
    ),
    "lost": run(replace(RUNNING, attempt=1).as_lost(), FIRST, state="waiting", begun=1),
    "silent": run(record=replace(RECORD, verdict="succeeded", reason="", attempts=1)),
    "gone": run(record=RECORD),
    "not-begun": run(state="waiting"),
    "never-ran": run(message="", judgement=Judgement(at=AT, state=State.OVERDUE)),
}  # fmt: skip


@pytest.mark.parametrize("width", [80, 120])
def test_text(golden: SnapshotAssertion, width: int) -> None:
    assert "\n".join(f"--- {name}\n{render.text([each], NOW, width=width)}" for name, each in RUNS.items()) == golden


def test_one_attempt_of_it(golden: SnapshotAssertion) -> None:
    assert render.text([RUNS["failed"]], NOW, width=100, attempt=1) == golden


def test_json(golden: SnapshotAssertion) -> None:
    document = render.document(list(RUNS.values()), NOW, name="crm/sync-contacts")
    conforms(document, "logs")
    assert json.dumps(document, indent=2, ensure_ascii=False) == golden


def test_stream(golden: SnapshotAssertion) -> None:
    page = render.stream(list(RUNS.values()), NOW)
    for line in map(json.loads, page.splitlines()):
        kind = {"line": "text_line", "attempt": "attempt_line", "attempt_end": "attempt_line"}.get(
            line["type"], "run_line"
        )
        conforms(line, "logs", kind)
    assert page == golden


def test_a_run_while_it_is_followed(golden: SnapshotAssertion) -> None:
    follower = Follower()
    ended = replace(
        RUNNING, text="row 8\nrow 9\n", lines=9, is_cut=True, outcome="succeeded", finished_ms=AT_MS + 90_000
    )
    looks = [
        run(FIRST, state="retrying", begun=1),
        run(FIRST, RUNNING, state="running", begun=2),
        run(FIRST, replace(RUNNING, text="row 1\nrow 2\nrow 3\n", lines=3), state="running", begun=2),
        run(FIRST, ended, record=replace(RECORD, verdict="succeeded", reason="")),
    ]
    pages = [render.head(looks[0], NOW, width=100)] + [render.news(follower.news(look)) for look in looks]
    assert "--- look\n".join([*pages, render.tail(looks[-1], NOW, width=100)]) == golden
