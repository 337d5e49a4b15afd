"""Fleets on a server that the test may hurt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.broker import BrokerFactory, PrivateBroker


@pytest.fixture
def own_broker(broker_factory: BrokerFactory) -> PrivateBroker:
    """A server that the test may kill and stop."""
    return broker_factory("broker")


@pytest.fixture
def frail_fleet(own_broker: PrivateBroker, short_dir: Path) -> Iterator[Fleet]:
    """Workers on `own_broker`."""
    made = Fleet(short_dir, own_broker.target, own_broker.url)
    yield made
    made.close()
