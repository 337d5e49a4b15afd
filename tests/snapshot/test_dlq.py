"""golden/dlq: the list of dead letters and single ones, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from relayctl.core.deadletter import DeadLetter, letter_of
from relayctl.core.lifecycle import Descriptor
from relayctl.core.output import KeptOutput
from relayctl.render import dlq as render

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
CONTRACT = Descriptor(
    app="billing",
    schedule="nightly-cleanup",
    handler="jobs.cleanup.handler",
    timeout_ms=20_000,
    timeout_from="template",
    retries=2,
    backoff_ms=(60_000, 120_000),
    input=None,
    overlap="skip",
    revision="3f9c1ab",
)


def _letter(ago: timedelta, replaying: str = "", **fields: str) -> DeadLetter:
    entry = f"{int((NOW - ago).timestamp() * 1000)}-0"
    return letter_of(entry, {"v": "1", "replayable": "1", **fields}, replaying)


FIRING = _letter(
    timedelta(minutes=12),
    app="billing",
    slot="@nightly-cleanup",
    handler=CONTRACT.handler,
    message="1790676900000-0",
    scheduled_at="2026-09-29T03:00:00Z",
    reason="exhausted",
    detail="exit code 3",
    attempts="3",
    worker="vm-0a1b2c3d",
    descriptor=CONTRACT.to_json(),
    event='{"v":1,"source":"relay.schedule","app":"billing","schedule":"nightly-cleanup","scheduled_at":"2026-09-29T03:00:00Z"}',
)
EVENT = _letter(
    timedelta(hours=3),
    replaying="1790677000000-0",
    app="crm",
    slot="events.created.handler",
    handler="events.created.handler",
    message="1790666000000-0",
    reason="lost",
    detail="its worker vanished on the last attempt",
    attempts="5",
    event=json.dumps({"text": "x" * 6000}),
)
MANUAL = _letter(timedelta(days=2), app="crm", slot="!sync", handler="jobs.sync", reason="exhausted", detail="timeout")
RAW = _letter(
    timedelta(days=9),
    replayable="0",
    message="1789900000000-0",
    reason="not-an-object",
    detail="event is not a JSON object",
    size="5242880",
    head="rubbish \x1b[31m",
)
NEWER = _letter(timedelta(days=12), v="7", app="crm", slot="h", reason="exhausted")
ALL = [FIRING, EVENT, MANUAL, RAW, NEWER]
SINGLE = {"firing": FIRING, "event": EVENT, "raw": RAW, "newer": NEWER}


@pytest.mark.parametrize("width", [80, 120])
def test_list(width: int, golden: SnapshotAssertion) -> None:
    assert render.text(ALL, NOW, total=1204, evicted=37, width=width) == golden


def test_empty_list(golden: SnapshotAssertion) -> None:
    assert render.text([], NOW, total=0, evicted=0, width=80) == golden


def test_list_document(golden: SnapshotAssertion) -> None:
    assert json.dumps(render.document(ALL, total=5, evicted=0), indent=2) + "\n" == golden


@pytest.mark.parametrize("case", SINGLE)
def test_show(case: str, golden: SnapshotAssertion) -> None:
    assert render.show_text(SINGLE[case]) == golden


def test_show_with_output(golden: SnapshotAssertion) -> None:
    lines = "".join(f"row {number}\tof 12\n" for number in range(12))
    kept = KeptOutput(
        app="billing",
        slot=FIRING.slot,
        message=FIRING.message,
        token="t",
        handler=FIRING.handler,
        attempt=3,
        allowed=3,
        scheduled_at=FIRING.scheduled_at,
        worker=FIRING.worker,
        started_ms=1,
        outcome="failed",
        text=lines + "no line end",
    )
    silent = replace(kept, text="")
    assert render.show_text(FIRING, kept) + render.show_text(FIRING, silent) == golden


def test_show_document(golden: SnapshotAssertion) -> None:
    assert json.dumps(render.show_document(FIRING), indent=2) + "\n" == golden
