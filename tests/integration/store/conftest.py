"""The store over a real broker, on an empty database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.storedesk import Desk

if TYPE_CHECKING:
    import redis


@pytest.fixture
def desk(redis_client: redis.Redis) -> Desk:
    """The store's operations on a fresh database."""
    return Desk(redis_client)
