"""golden/outbox_ls: what waits to be published, as a table and as JSON; and what the command makes of a bad file."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from syrupy.assertion import SnapshotAssertion

from relayctl.cli import app as cli
from relayctl.core.intent import Intent, Row
from relayctl.core.occurrence import Occurrence, from_epoch
from relayctl.render import outbox as render

if TYPE_CHECKING:
    from pathlib import Path

NOW = from_epoch(1_790_676_902)
INTENT = Intent(
    occurrence=Occurrence(
        app="crm", schedule="sync-contacts", handler="jobs.sync", scheduled_at=from_epoch(1_790_676_900), gen=3
    ),
    token="a1b2c3d4",
    attempts=7,
    first_failed_at=from_epoch(1_790_676_901),
    last_error="the broker cannot be reached: Connection refused",
)
KEPT = Row(id=INTENT.occurrence.id, intent=INTENT, rounds=2, next_at=NOW + timedelta(seconds=30))
ROWS = [
    KEPT,
    replace(KEPT, intent=replace(INTENT, is_ambiguous=True, last_error=""), next_at=NOW),
    replace(KEPT, holder="a1b2c3d4-9", held_until=NOW + timedelta(seconds=9)),
    replace(KEPT, id="schedule:crm:x:y\x1b[2J", intent=None, trouble="its fields name another firing, schedule:a:b:c"),
]


@pytest.mark.parametrize("width", [120, 80])
def test_text(width: int, golden: SnapshotAssertion) -> None:
    shown = render.text(ROWS, NOW, width=width)
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= width
    assert shown == golden


def test_json(golden: SnapshotAssertion) -> None:
    shown = json.dumps(render.document(ROWS), indent=2) + "\n"
    assert INTENT.token not in shown.replace("a1b2c3d4-9", ""), "a token is of no use to a reader"
    assert shown == golden


def test_asking_makes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["outbox", "ls", "--state-dir", str(tmp_path / "state")]) == 0
    assert capsys.readouterr().out == "the outbox is empty: nothing waits to be published\n"
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_an_error_and_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state.db").write_bytes(b"x" * 9000)
    assert cli.run(["outbox", "ls", "--state-dir", str(tmp_path)]) == 3
    shown = capsys.readouterr().err
    assert "is damaged" in shown and "relayctl serve" in shown
    assert (tmp_path / "state.db").read_bytes() == b"x" * 9000
