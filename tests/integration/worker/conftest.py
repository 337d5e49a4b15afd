"""A fleet of real workers on the test process's server, with an empty database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis
    from support.broker import PrivateBroker


@pytest.fixture
def fleet(broker: PrivateBroker, redis_client: redis.Redis, short_dir: Path) -> Iterator[Fleet]:
    """Workers to start; all are gone when the test ends."""
    made = Fleet(short_dir, broker.target, broker.url)
    yield made
    made.close()
