"""golden/inspect: the sample apps and a tree with a broken app, as table, detail and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from relayctl.cli import app as cli

ROOT = Path(__file__).parent.parent.parent
AT = ("--from", "2026-09-29T10:15:00Z")
CASES = {
    "table": (),
    "table-utc": ("--utc", "--sort", "name"),
    "table-rate": ("--sort", "rate"),
    "app": ("orders",),
    "services": ("site",),
    "cron": ("billing/nightly-cleanup",),
    "written-dst": ("backups/nightly",),
    "every": ("orders/stale-orders",),
    "json": ("--format", "json"),
    "detail-json": ("billing/morning-report", "--format", "json"),
    "unknown-app": ("bilingl",),
    "unknown-schedule": ("billing/nightly-cleanpu",),
}


@pytest.mark.parametrize(
    ("case", "columns"),
    [(case, wide) for case in CASES for wide in ("40", "80", "120") if wide != "40" or "json" not in case],
)
def test_samples(
    case: str, columns: str, golden: SnapshotAssertion, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.chdir(ROOT)
    code = cli.run(["inspect", *CASES[case], *AT])
    page = capsys.readouterr()
    assert f"{page.out}{page.err}exit {code}\n" == golden


def test_broken(
    tmp_path: Path, golden: SnapshotAssertion, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.chdir(tmp_path)
    for name, cron in (("good", "0 3 * * *"), ("broken", "61 3 * * *")):
        (tmp_path / "apps" / name).mkdir(parents=True)
        (tmp_path / "apps" / name / "work.py").write_text("def run(event):\n    pass\n")
        (tmp_path / "apps" / name / "template.yaml").write_text(
            "runtime: python\nevents:\n  - {handler: work.run, pattern: {name: [x]}}\n"
            f'schedules:\n  - name: nightly\n    handler: work.run\n    cron: "{cron}"\n'
        )
    code = cli.run(["inspect", *AT])
    page = capsys.readouterr()
    assert f"{page.out}{page.err}exit {code}\n" == golden
