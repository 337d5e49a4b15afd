"""A worker's loops in process, on the test process's server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.workbench import Workbench

if TYPE_CHECKING:
    from pathlib import Path

    import redis


@pytest.fixture
def bench(redis_client: redis.Redis, tmp_path: Path) -> Workbench:
    """A worker on an empty tree and an empty database."""
    return Workbench(redis_client, tmp_path / "apps")
