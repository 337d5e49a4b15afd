"""golden/explain: what is said of an expression, at 80 and 120 columns, and of one that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from relayctl.cli import app as cli

AT = ("--from", "2026-09-29T10:15:00Z")
CASES = {
    "nightly-rome": ("30 2 * * *", "--timezone", "Europe/Rome"),
    "uneven-step": ("*/7 8-18 * * 1-5", "--timezone", "America/New_York"),
    "day-or-day": ("0 9 1 * 1", "--next", "5"),
    "every-minute": ("* * * * *", "--timezone", "Europe/Rome"),
    "never": ("0 0 30 2 *",),
    "leap-day": ("0 0 29 2 *",),
    "compare": ("30 2 * * *", "--timezone", "Europe/Rome", "--compare", "--from", "2026-10-24"),
    "json": ("@monthly", "--format", "json"),
    "six-fields": ("0 0 3 * * *",),
    "every-descriptor": ("@every 15m",),
    "bad-value": ("61 * * * *",),
    "bad-zone": ("0 3 * * *", "--timezone", "Europe/Rom"),
}


@pytest.mark.parametrize(
    ("case", "columns"),
    [(case, wide) for case in CASES for wide in ("40", "80", "120") if wide != "40" or "json" not in case],
)
def test_case(
    case: str, columns: str, golden: SnapshotAssertion, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LANG", "C.UTF-8")
    arguments = CASES[case] if "--from" in CASES[case] else (*CASES[case], *AT)
    code = cli.run(["explain", *arguments])
    page = capsys.readouterr()
    assert f"{page.out}{page.err}exit {code}\n" == golden
