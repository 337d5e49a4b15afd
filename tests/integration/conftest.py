"""Commands on the tree and the broker of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.console import Answer, inside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.fleet import Fleet


@pytest.fixture
def ask(fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Run a command on the fleet's tree, or another one, and its broker."""
    monkeypatch.chdir(fleet.root)

    def run(*arguments: str, apps: Path | None = None) -> Answer:
        answer = inside(capsys, *arguments, "--apps", str(apps or "apps"), "--redis", fleet.url)
        assert "Traceback" not in answer.err
        return answer

    return run
