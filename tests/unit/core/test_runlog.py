"""What is told of a run from look to look, why nothing is kept of one, and the document of an attempt."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayctl.core.lifecycle import Slot
from relayctl.core.output import KeptOutput, look_command, read_output
from relayctl.core.record import Record
from relayctl.core.runlog import Absence, Began, Follower, Lines, Over, RunLog

AT = datetime(2026, 9, 29, 10, tzinfo=UTC)
KEPT = KeptOutput(
    app="crm",
    slot="@sync",
    message="1790676000250-0",
    token="t1",
    handler="jobs.sync",
    attempt=1,
    allowed=3,
    scheduled_at="2026-09-29T10:00:00Z",
    worker="w1",
    started_ms=1_790_676_000_400,
)


def run(*attempts: KeptOutput, **changes: Any) -> RunLog:
    known: dict[str, Any] = {"app": "crm", "name": "sync", "slot": Slot("@sync"), "message": KEPT.message}
    return RunLog(attempts=attempts, **known | changes)


def printed(text: str, *, lines: int | None = None, **changes: Any) -> KeptOutput:
    count = text.count("\n") if lines is None else lines
    return replace(KEPT, text=text, lines=count, is_cut=lines is not None, **changes)


def told(follower: Follower, *attempts: KeptOutput) -> list[str]:
    said = []
    for item in follower.news(run(*attempts)):
        match item:
            case Began():
                said.append(f"+{item.kept.attempt}")
            case Lines():
                said += [f"({item.missing})"] if item.missing else []
                said += [f"{number} {text}" for number, text in enumerate(item.texts, item.first)]
            case Over():
                said.append(f"-{item.kept.attempt}")
    return said


def test_a_line_is_told_once_and_when_it_is_whole() -> None:
    follower = Follower()
    assert told(follower, printed("one\ntw")) == ["+1", "0 one"]
    assert told(follower, printed("one\ntwo\nth")) == ["1 two"]
    assert told(follower, printed("one\ntwo\nth")) == []
    assert told(follower, printed("one\ntwo\nthree", outcome="failed")) == ["2 three", "-1"]
    assert told(follower, printed("one\ntwo\nthree", outcome="failed")) == []


def test_lines_that_look_alike_are_told_apart() -> None:
    follower = Follower()
    assert told(follower, printed("tick\n" * 3)) == ["+1", "0 tick", "1 tick", "2 tick"]
    assert told(follower, printed("tick\n" * 3, lines=5)) == ["3 tick", "4 tick"]


def test_what_went_by_between_two_looks_is_counted() -> None:
    follower = Follower()
    told(follower, printed("a\nb\n"))
    assert told(follower, printed("k\nl\n", lines=12)) == ["(8)", "10 k", "11 l"]


def test_attempts_one_after_another_and_one_alone() -> None:
    first = printed("one\n", outcome="failed")
    second = replace(printed("two\n", outcome="succeeded"), attempt=2, token="t2")
    assert told(Follower(), first, second) == ["+1", "0 one", "-1", "+2", "0 two", "-2"]
    assert told(Follower(2), first, second) == ["+2", "0 two", "-2"]


@given(st.lists(st.sampled_from(["a", "bc", "\n", "d\n\ne"]), max_size=30), st.integers(1, 12))
def test_no_line_is_lost_or_doubled(pieces: list[str], size: int) -> None:
    """Where the kept end is long enough for one look to reach the one before."""
    follower, whole, seen = Follower(), "", []
    for position in range(0, len(pieces), size):
        whole += "".join(pieces[position : position + size])
        seen += told(follower, printed(whole))
    seen += told(follower, printed(whole, outcome="succeeded"))
    lines = whole.split("\n")
    if not lines[-1]:
        lines.pop()
    assert [line for line in seen if line[0] not in "+-"] == [f"{number} {line}" for number, line in enumerate(lines)]


ENDED = Record(recorded_at=AT, verdict="succeeded", message=KEPT.message, attempts=1, started_at=AT, finished_at=AT)
AT_MS = int(AT.timestamp() * 1000)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"message": ""}, Absence.NEVER_RAN),
        ({"record": replace(ENDED, verdict="skipped", attempts=0, started_at=None)}, Absence.NEVER_RAN),
        ({"state": "waiting"}, Absence.NOT_BEGUN),
        ({"state": "retrying"}, Absence.NOT_BEGUN),
        ({"state": "running"}, Absence.NOT_YET),
        ({"record": ENDED}, Absence.SILENT),
        ({"record": ENDED, "older_ms": AT_MS - 1}, Absence.SILENT),
        ({"record": ENDED, "older_ms": AT_MS + 1}, Absence.GONE),
        ({"record": replace(ENDED, verdict="failed")}, Absence.GONE),
        ({}, Absence.GONE),
    ],
)
def test_why_nothing_is_kept(changes: dict[str, Any], expected: Absence) -> None:
    assert run(**changes).absence is expected


def test_what_a_run_is_asked_for_by() -> None:
    assert run(scheduled_at=AT).target == "crm/sync@2026-09-29T10:00:00Z"
    assert run(scheduled_at=AT, slot=Slot("!sync")).target == f"crm/sync@{KEPT.message}"
    assert look_command("crm", Slot("@sync"), KEPT.message, "2026-09-29T10:00:00Z").endswith("@2026-09-29T10:00:00Z")
    assert look_command("crm", Slot("jobs.on"), "1-0") == "relayctl logs crm/jobs.on@1-0"


def test_the_document_comes_back_as_it_was() -> None:
    kept = printed('caf\u00e9 "\\\n', outcome="failed", reason="exit 3", exit="3", finished_ms=1, printed=9)
    assert read_output(kept.to_json()) == kept


@given(st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2))
def test_a_damaged_document_is_none(value: object) -> None:
    document = json.loads(KEPT.to_json())
    for name in ("v", "slot", "text", "attempt", "is_cut"):
        damaged = document | {name: value}
        read = read_output(json.dumps(damaged))
        assert read is None or type(value) is type(document[name])
    assert read_output(json.dumps(value)) is None
