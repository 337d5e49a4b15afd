"""golden/config: the table of `config show`, with passwords masked and the origin of each value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from relayctl.cli import app as cli


def test_show(tmp_path: Path, golden: SnapshotAssertion, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relayctl.toml").write_text('drain = "10s"\n')
    monkeypatch.setenv("RELAYCTL_REDIS_URL", "redis://worker:hunter2@broker:6379/0")
    monkeypatch.setenv("RELAYCTL_RESYNC_INTERVAL", "off")
    assert cli.run(["config", "show", "--apps", "tree/apps", "--state-dir", "state"]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert out == golden
