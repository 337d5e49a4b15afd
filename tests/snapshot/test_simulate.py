"""golden/simulate: the sample apps over a window, as list, counts, picture and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from relayctl.cli import app as cli

ROOT = Path(__file__).parent.parent.parent
CASES = {
    "list": ("billing", "--to", "2026-10-02"),
    "cut": ("hello",),
    "hour": ("--by", "hour"),
    "minute": ("orders", "--by", "minute", "--to", "2026-09-29T12:00Z"),
    "week": ("--by", "week", "--to", "2026-10-06T10:15:00Z"),
    "json": ("billing", "--format", "json"),
    "backwards": ("--to", "2026-09-01"),
}


@pytest.mark.parametrize("case", CASES)
def test_samples(case: str, golden: SnapshotAssertion, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.chdir(ROOT)
    code = cli.run(["simulate", *CASES[case], "--from", "2026-09-29T10:15:00Z"])
    page = capsys.readouterr()
    assert f"{page.out}{page.err}exit {code}\n" == golden
