"""The loop of services on its own, in a thread, over apps that a test writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from service_stage import ServiceStage

from relayctl.core import service as rules
from relayctl.runners import service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceStage]:
    """A stage with short times; everything on it is gone when the test ends."""
    monkeypatch.setattr(rules, "SETTLED_AFTER_S", 0.15)
    monkeypatch.setattr(rules, "BACKOFF_S", (0.05, 0.1, 0.2))
    monkeypatch.setattr(service, "GRACE_S", 1.0)
    made = ServiceStage(tmp_path / "apps")
    yield made
    made.stop()
