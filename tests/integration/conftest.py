"""A fleet of real workers on the test process's server, with an empty database, and commands on its tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.console import Answer, inside
from support.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis
    from support.broker import PrivateBroker


@pytest.fixture
def fleet(broker: PrivateBroker, redis_client: redis.Redis, short_dir: Path) -> Iterator[Fleet]:
    """Workers to start; all are gone when the test ends."""
    made = Fleet(short_dir, broker.target, broker.url)
    yield made
    made.close()


@pytest.fixture
def ask(fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Run a command on the fleet's tree, or another one, and its broker."""
    monkeypatch.chdir(fleet.root)

    def run(*arguments: str, apps: Path | None = None) -> Answer:
        answer = inside(capsys, *arguments, "--apps", str(apps or "apps"), "--redis", fleet.url)
        assert "Traceback" not in answer.err
        return answer

    return run
