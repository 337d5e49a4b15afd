"""golden/simulate: the sample apps over a window, as list, counts, picture and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.templates import write_app
from syrupy.assertion import SnapshotAssertion

from relayctl.cli import app as cli

WORK = {"work.py": "def run(event):\n    pass\n"}
ROOT = Path(__file__).parent.parent.parent
CASES = {
    "list": ("billing", "--to", "2026-10-02"),
    "cut": ("hello", "--to", "now+4h"),
    "minute-json": ("orders", "--by", "minute", "--to", "2026-09-29T11:00Z", "--format", "json"),
    "hour": ("--by", "hour"),
    "minute": ("orders", "--by", "minute", "--to", "2026-09-29T12:00Z"),
    "week": ("--by", "week", "--to", "2026-10-06T10:15:00Z"),
    "json": ("billing", "--format", "json"),
    "backwards": ("--to", "2026-09-01"),
}


@pytest.mark.parametrize(
    ("case", "columns"),
    [(case, wide) for case in CASES for wide in ("40", "80", "120") if wide == "80" or "json" not in case],
)
def test_samples(
    case: str, columns: str, golden: SnapshotAssertion, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.chdir(ROOT)
    code = cli.run(["simulate", *CASES[case], "--from", "2026-09-29T10:15:00Z"])
    page = capsys.readouterr()
    assert f"{page.out}{page.err}exit {code}\n" == golden


@pytest.mark.parametrize("columns", ["40", "120"])
def test_herds(
    columns: str,
    tmp_path: Path,
    golden: SnapshotAssertion,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.chdir(tmp_path)
    hours = [("early", "0 3 * * *", 6), ("late", "5 20 * * 1-5", 9), ("often", "*/10 * * * *", 1)]
    rows = [
        f'  - {{name: {name}{n}, handler: work.run, cron: "{cron}"}}' for name, cron, of in hours for n in range(of)
    ]
    events = "events:\n  - {handler: work.run, pattern: {name: [x]}}\n"
    write_app(tmp_path / "apps", "crowd", "runtime: python\n" + events + "schedules:\n" + "\n".join(rows), WORK)
    code = cli.run(["simulate", "--by", "week", "--from", "2026-09-29T10:15:00Z"])
    page = capsys.readouterr()
    assert f"{page.out}{page.err}exit {code}\n" == golden
