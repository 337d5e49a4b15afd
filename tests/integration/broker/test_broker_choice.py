"""Which broker is used: the named one or none, else the running one, else one started here; and which program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relayctl.broker import binary
from relayctl.broker.binary import find_server, read_version
from relayctl.broker.choose import resolve_broker
from relayctl.errors import BrokerRefused, BrokerUnavailable, NoBroker, UsageError
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir
from relayctl.store.connect import connect

CLOCK = SystemClock()


def choose(state, url=None, may_start=False):
    return resolve_broker(explicit_url=url, state=state, may_start=may_start, clock=CLOCK)


def program(directory: Path, name: str, says: str) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_a_named_broker_is_used_even_where_an_embedded_one_runs(broker, broker_factory):
    here = broker_factory()
    chosen = choose(here.embedded.state, broker.url)
    assert (chosen.target.path, chosen.embedded) == (broker.target.path, None)
    chosen.close()


def test_a_named_broker_that_does_not_answer_is_an_error_never_another_one(broker_factory):
    here = broker_factory()
    for may_start in (False, True):
        with pytest.raises(BrokerUnavailable) as caught:
            choose(here.embedded.state, "redis://app:hunter2@127.0.0.1:1/3", may_start)
        assert "redis://app:***@127.0.0.1:1/3" in caught.value.message
        assert "--redis" in caught.value.help
        assert "hunter2" not in repr(caught.value) + caught.value.message + caught.value.help


def test_a_wrong_password_is_refused_and_not_shown(broker_factory, short_dir):
    broker = broker_factory()
    with connect(broker.target) as client:
        client.config_set("requirepass", "right")
    with pytest.raises(BrokerRefused, match="password") as caught:
        choose(StateDir(short_dir), f"unix://{broker.target.path}?password=hunter2")
    assert "hunter2" not in caught.value.message + str(caught.value.__cause__)


def test_a_bad_url_is_a_usage_error(short_dir):
    with pytest.raises(UsageError):
        choose(StateDir(short_dir), "")


def test_the_running_embedded_one_is_found_without_a_url(broker_factory):
    here = broker_factory()
    chosen = choose(here.embedded.state)
    assert (chosen.endpoint.pid, chosen.endpoint.owner) == (here.pid, False)
    chosen.close()
    assert here.embedded.is_alive()


def test_only_who_may_start_one_does(short_dir):
    state = StateDir(short_dir / "state")
    with pytest.raises(NoBroker, match="none runs") as caught:
        choose(state)
    assert "relayctl serve" in caught.value.help
    assert not state.path.exists()
    chosen = choose(state, may_start=True)
    assert chosen.endpoint.owner
    chosen.close()
    assert not chosen.embedded.is_alive()


def test_the_bundled_program_comes_first(tmp_path):
    program(tmp_path, "valkey-server", "Valkey server v=99.0.0 sha=0")
    found = find_server(str(tmp_path))
    assert (found.origin, found.flavour, found.version[0]) == ("bundled", "valkey", 9)
    assert os.access(found.path, os.X_OK)


@pytest.fixture
def unbundled(monkeypatch):
    monkeypatch.setattr(binary, "_bundled", lambda: None)


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        ({"valkey-server": "Valkey server v=7.2.0 x", "redis-server": "Redis server v=8.0.0 x"}, ("valkey", (7, 2, 0))),
        (
            {"valkey-server": "Valkey server v=7.1.9 x", "redis-server": "Redis server v=7.0.15 x"},
            ("redis", (7, 0, 15)),
        ),
        ({"valkey-server": "Killed", "redis-server": "Redis server v=7.4.0-rc1 x"}, ("redis", (7, 4, 0))),
    ],
)
def test_then_the_first_suitable_one_on_path(tmp_path, unbundled, programs, expected):
    for name, says in programs.items():
        program(tmp_path, name, says)
    found = find_server(str(tmp_path))
    assert (found.flavour, found.version) == expected
    assert found.origin == "path"


def test_none_at_all_names_three_ways_out(tmp_path, unbundled):
    program(tmp_path, "redis-server", "Redis server v=6.2.5 x")
    with pytest.raises(NoBroker, match=r"redis 6\.2\.5, which is too old") as caught:
        find_server(str(tmp_path))
    for way in ("relayctl[embedded]", "valkey-server", "--redis"):
        assert way in caught.value.help


def test_a_program_that_cannot_run_has_no_version(tmp_path):
    assert read_version(tmp_path / "none") is None
