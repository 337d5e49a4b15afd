"""Fixtures for every kind of test: one private server per test process, flushed for each test that uses it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from support.broker import BrokerFactory, PrivateBroker

# The developer's own settings must not steer a test, nor reach a process it starts.
for _name in [name for name in os.environ if name.startswith("RELAYCTL_")]:
    del os.environ[_name]


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A private directory whose path leaves room for sockets, unlike that of `tmp_path`."""
    path = Path(tempfile.mkdtemp(prefix="rl-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def broker() -> Iterator[PrivateBroker]:
    """The server of this test process. Tests that kill theirs use `broker_factory`."""
    from support.broker import BrokerFactory

    path = Path(tempfile.mkdtemp(prefix="rl-"))
    factory = BrokerFactory(path)
    try:
        yield factory()
    finally:
        factory.close()
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def redis_client(broker: PrivateBroker) -> Iterator[redis.Redis]:
    """A client of `broker` from the project's own factory, on an empty database without scripts."""
    from relayctl.store.connect import connect

    client = connect(broker.target)
    client.flushall()
    client.script_flush()
    yield client
    client.close()


@pytest.fixture
def broker_factory(short_dir: Path) -> Iterator[BrokerFactory]:
    """Makes brokers a test may kill; all are stopped in the end."""
    from support.broker import BrokerFactory

    factory = BrokerFactory(short_dir)
    yield factory
    factory.close()
