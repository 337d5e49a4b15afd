"""Fixtures for every kind of test: one private server per test process, flushed for each test that uses it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from support.broker import BrokerFactory, PrivateBroker
    from support.cluster import Cluster
    from support.fleet import Fleet

# The developer's own settings must not steer a test, nor reach a process it starts.
for _name in [name for name in os.environ if name.startswith("RELAYCTL_")]:
    del os.environ[_name]

# Nor must the terminal and the locale that the suite was started in: what is shown depends on them.
os.environ |= {"LC_ALL": "C.UTF-8", "TERM": "xterm"}
for _name in ("NO_COLOR", "COLUMNS"):
    os.environ.pop(_name, None)

# A suite started in the background inherits ignored signals, and so would every program it starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ignored in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_ignored, signal.SIG_DFL)

# Without kept byte code each test process rewrites every assertion anew, and each program it starts compiles the package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The suite tries the same examples each time, so that a change is judged by itself; `make fault` searches with new ones.
settings.register_profile("suite", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("search", deadline=None, print_blob=True)
settings.load_profile("suite")

# What starts processes and waits for them comes first, so that no long test begins when the others have ended.
_LONGEST_FIRST = ("fault", "acceptance", "integration/worker", "integration/control", "integration", "property")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--broker=cluster` gives the tests that need no more than a server three nodes of a Cluster instead."""
    parser.addoption("--broker", choices=("embedded", "cluster"), default="embedded", help="what `broker` is")


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker of tests that `--broker=cluster` leaves out."""
    config.addinivalue_line("markers", "one_server: looks into the connections to a single server")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run on the broker that was asked for, and begin with what may take long."""
    if config.getoption("--broker") == "cluster":
        left_out = [item for item in items if item.get_closest_marker("one_server")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    items.sort(key=_order)


def _order(item: pytest.Item) -> tuple[float, int]:
    limit = item.get_closest_marker("timeout")
    allowed_s = float(limit.args[0]) if limit is not None and limit.args else 0.0
    return -allowed_s, _rank(item.path.parent)


@cache
def _rank(folder: Path) -> int:
    name = folder.relative_to(Path(__file__).parent).as_posix()
    return next((rank for rank, first in enumerate(_LONGEST_FIRST) if name.startswith(first)), len(_LONGEST_FIRST))


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A private directory whose path leaves room for sockets, unlike that of `tmp_path`."""
    path = Path(tempfile.mkdtemp(prefix="rl-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[PrivateBroker | Cluster]:
    """The server of this test process. Tests that kill theirs use `broker_factory`."""
    from support.broker import BrokerFactory

    if request.config.getoption("--broker") == "cluster":
        yield request.getfixturevalue("cluster")
        return

    path = Path(tempfile.mkdtemp(prefix="rl-"))
    factory = BrokerFactory(path)
    try:
        yield factory()
    finally:
        factory.close()
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three nodes of a Cluster for this test process; nobody kills them."""
    from support.cluster import Cluster

    path = Path(tempfile.mkdtemp(prefix="rl-"))
    made = Cluster(path)
    try:
        yield made
    finally:
        made.close()
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
def fleet(broker: PrivateBroker, redis_client: redis.Redis, short_dir: Path) -> Iterator[Fleet]:
    """Workers to start on `broker`; all are gone when the test ends."""
    from support.fleet import Fleet

    made = Fleet(short_dir, broker.target, broker.url)
    yield made
    made.close()


@pytest.fixture
def broker_factory(short_dir: Path) -> Iterator[BrokerFactory]:
    """Makes brokers a test may kill; all are stopped in the end."""
    from support.broker import BrokerFactory

    factory = BrokerFactory(short_dir)
    yield factory
    factory.close()
