"""golden/import: what an import writes and what it says of the rest, at 80 and 120 columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from relayctl.cli import app as cli

CRONTAB = """\
# Nightly dump
SHELL=/bin/bash
MAILTO=ops@example.com
DB_PASSWORD=hunter2hunter2
CRON_TZ=Europe/Rome
30 2 * * * /usr/local/bin/dump.sh --full
0 22-2 * * 1-5 cd /srv/shop && ./manage.py reindex
@reboot /usr/local/bin/start
0 9 1 * * mail -s report boss@example.com%Hello,%it is ready.
* * * *
"""
CASES = {"text": (), "trial": ("--dry-run",), "json": ("--dry-run", "--format", "json")}


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("case", CASES)
def test_crontab(
    case: str,
    columns: str,
    golden: SnapshotAssertion,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LANG", "C.UTF-8")
    Path("old.crontab").write_text(CRONTAB, encoding="utf-8")
    code = cli.run(["import", "crontab", "old.crontab", "--app", "old", *CASES[case]])
    page = capsys.readouterr()
    assert f"{page.out}{page.err}exit {code}\n" == golden
    assert Path("apps/old").exists() is (case == "text")


def test_nothing_is_overwritten(
    golden: SnapshotAssertion, capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("apps/old").mkdir(parents=True)
    Path("old.crontab").write_text(CRONTAB, encoding="utf-8")
    code = cli.run(["import", "crontab", "old.crontab"])
    page = capsys.readouterr()
    assert f"{page.out}{page.err}exit {code}\n" == golden
    assert list(Path("apps/old").iterdir()) == []
