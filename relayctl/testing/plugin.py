"""Fixtures for pytest, to be asked for: `pytest_plugins = ["relayctl.testing.plugin"]` in a top-level conftest.py.

Installing relayctl turns nothing on by itself.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from relayctl.broker.supervise import EmbeddedBroker
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir
from relayctl.store.target import Target
from relayctl.testing.rig import Rig


@pytest.fixture(scope="session")
def relay_broker() -> Iterator[Target]:
    """The broker of this test process; every rig has a namespace of its own in it."""
    home = Path(tempfile.mkdtemp(prefix="rl-"))
    broker = EmbeddedBroker(StateDir(home), SystemClock())
    try:
        broker.start_or_attach()
        yield broker.target
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def relay_apps(request: pytest.FixtureRequest) -> Path:
    """The directory of apps under test: `apps` in pytest's root directory. Override it where it lies elsewhere."""
    return request.config.rootpath / "apps"


@pytest.fixture
def relay_secrets() -> dict[str, str]:
    """The secrets that handlers find, by reference. Override it where there are some."""
    return {}


@pytest.fixture
def relay_rig(relay_broker: Target, relay_apps: Path, relay_secrets: dict[str, str]) -> Iterator[Rig]:
    """One worker on a copy of the apps, at midnight UTC of 2026-01-01; time passes only when the test says so."""
    with Rig(relay_apps, secrets=relay_secrets, target=relay_broker) as rig:
        yield rig
