"""One embedded broker from start to stop: what it listens on, what lies on disk, and who may read it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.broker import Participant, await_fact, is_running

from relayctl.broker.binary import find_server
from relayctl.broker.config import quote_path
from relayctl.broker.supervise import EmbeddedBroker
from relayctl.errors import BrokerUnavailable, NewerFormat
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir
from relayctl.store.connect import connect, probe


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def tcp_listeners_of(pid: int) -> int:
    """Listening TCP sockets among the descriptors of a process (state 0A in the kernel's table)."""
    mine = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        # The connection of an earlier test may be closing just now.
        with suppress(FileNotFoundError):
            mine.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    return sum(1 for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine)


def test_the_fixture_serves_an_empty_database(redis_client):
    assert redis_client.dbsize() == 0
    redis_client.set("a", "1")
    assert redis_client.get("a") == "1"


def test_only_the_owner_can_reach_it_and_only_by_the_socket(broker):
    assert mode(broker.target.path) == 0o600
    assert mode(broker.state_dir) == 0o700
    assert mode(broker.embedded.state.broker_log) == 0o600
    assert tcp_listeners_of(broker.pid) == 0


def test_it_is_durable_and_evicts_nothing(redis_client):
    wanted = {
        "appendonly": "yes",
        "appendfsync": "no",
        "aof-use-rdb-preamble": "no",
        "maxmemory-policy": "noeviction",
        "save": "",
        "port": "0",
        "enable-debug-command": "no",
        "enable-module-command": "no",
    }
    assert {name: redis_client.config_get(name)[name] for name in wanted} == wanted


def test_nothing_secret_reaches_the_server(broker_factory, monkeypatch):
    monkeypatch.setenv("RELAYCTL_REDIS_URL", "redis://:hunter2@elsewhere")
    made = broker_factory()
    for file in ("environ", "cmdline"):
        assert b"hunter2" not in Path(f"/proc/{made.pid}/{file}").read_bytes()


def test_stop_ends_the_server_and_leaves_no_socket(broker_factory):
    made = broker_factory()
    made.stop()
    assert not is_running(made.pid)
    assert not os.path.exists(made.target.path)
    assert made.embedded.endpoint is None
    made.stop()


def test_data_survives_an_orderly_restart(broker_factory):
    made = broker_factory()
    with connect(made.target) as client:
        client.set("kept", "1")
        made.stop()
        assert made.restart().owner
        assert client.get("kept") == "1"


def test_data_survives_a_kill_and_the_stale_socket_is_replaced(broker_factory):
    made = broker_factory()
    with connect(made.target) as client:
        client.set("kept", "1")
        made.kill()
        assert os.path.exists(made.target.path)
        made.restart()
        assert client.get("kept") == "1"


def test_a_second_one_attaches_and_stops_nothing(broker_factory):
    first, second = broker_factory(), broker_factory()
    assert (first.endpoint.owner, second.endpoint.owner) == (True, False)
    assert first.pid == second.pid
    second.stop()
    assert is_running(first.pid)
    assert first.embedded.ensure() == first.endpoint


def test_attach_starts_nothing(short_dir):
    state = StateDir(short_dir / "state")
    assert EmbeddedBroker(state, SystemClock()).attach() is None
    assert not state.path.exists()
    state.create()
    assert EmbeddedBroker(state, SystemClock()).attach() is None


def test_attach_gives_up_on_a_stale_socket(broker_factory):
    made = broker_factory()
    made.kill()
    assert EmbeddedBroker(made.embedded.state, SystemClock()).attach(within_s=0.1) is None


@pytest.mark.parametrize("name", ["with space", 'quo"te\\back', "hash # and 'tick'", "ünï", "d" * 150])
def test_any_directory_name_works(broker_factory, name):
    made = broker_factory(name)
    with connect(made.target) as client:
        client.set("a", "1")
    assert any((made.embedded.state.broker_data / "aof").iterdir())
    made.kill()
    assert made.restart().owner
    made.stop()
    if len(name) == 150:
        os.rmdir(os.path.dirname(made.target.path))


def test_odd_bytes_are_quoted():
    assert quote_path(Path('a "b"\\c\n')) == '"a \\"b\\"\\\\c\\x0a"'
    assert quote_path(Path(os.fsdecode(b"\xff"))) == '"\\xff"'


def test_the_directory_is_stamped_and_a_newer_format_is_refused(broker_factory):
    made = broker_factory()
    stamp = made.embedded.state.broker_stamp
    written = json.loads(stamp.read_text())
    assert (written["format"], written["flavour"]) == (1, "valkey")
    made.stop()
    stamp.write_text('{"format": 99}')
    with pytest.raises(NewerFormat, match="format 99") as caught:
        made.restart()
    assert caught.value.help
    stamp.write_text("torn{")
    assert made.restart().owner


def test_ctrl_c_does_not_reach_the_server(broker_factory, short_dir):
    worker = Participant(short_dir / "state")
    worker.interrupt_group()
    worker.await_told("interrupted")
    attached = broker_factory()
    assert attached.pid == worker.up["pid"]
    assert os.getsid(attached.pid) == attached.pid
    worker.stop()
    assert not is_running(attached.pid)


def test_the_server_outlives_the_thread_that_asked_for_it(short_dir):
    worker = Participant(short_dir / "state", "thread", "no-watch")
    # Had the server been tied to that thread, it would be gone before this attached one saw it twice.
    other = EmbeddedBroker(StateDir(short_dir / "state"), SystemClock())
    assert other.attach().pid == worker.up["pid"]
    pause = threading.Event()
    assert not pause.wait(0.4)
    assert other.attach().pid == worker.up["pid"]
    worker.stop()


@pytest.fixture
def slow_server(tmp_path):
    """The real server, which loads slowly; it looks at its clients once per thousand keys."""
    real = find_server()
    program = tmp_path / "slow"
    program.write_text(f"#!/bin/sh\nexec '{real.path}' \"$@\" --key-load-delay 100\n")
    program.chmod(0o755)
    return replace(real, path=program)


def test_start_and_attach_wait_through_the_reload(broker_factory, slow_server):
    made = broker_factory()
    with connect(made.target) as client, client.pipeline(transaction=False) as pipeline:
        for number in range(20_000):
            pipeline.set(f"key-{number}", "x")
        pipeline.execute()
    made.kill()
    made.embedded._binary = slow_server
    starting = threading.Thread(target=made.restart)
    starting.start()
    await_fact(lambda: probe(made.target) == "loading", "it was never seen loading")
    impatient = EmbeddedBroker(made.embedded.state, SystemClock())
    with pytest.raises(BrokerUnavailable, match="does not answer") as caught:
        impatient.attach(within_s=0.01)
    assert "try again" in caught.value.help
    other = broker_factory()
    with connect(made.target) as client:
        assert client.dbsize() == 20_000
    starting.join(10)
    assert (made.endpoint.owner, other.endpoint.owner) == (True, False)
    assert made.pid == other.pid


def test_a_command_waits_while_a_worker_is_about_to_restart_it(broker_factory, tmp_path):
    """Between the end of a server and its restart only the watchers tell that there is a broker at all."""
    made = broker_factory()
    watching, failed = EmbeddedBroker(made.embedded.state, SystemClock()), threading.Event()
    watching.attach()
    watching._binary = replace(find_server(), path=Path("/bin/false"))
    watching.watch(lambda event: event.kind == "failed" and failed.set())
    try:
        made.stop()
        assert failed.wait(5)
        asking = ThreadPoolExecutor(1)
        answer = asking.submit(EmbeddedBroker(made.embedded.state, SystemClock()).attach, within_s=8)
        with pytest.raises(TimeoutError):
            answer.result(timeout=0.1)
        watching._binary = find_server()
        assert answer.result() is not None
        asking.shutdown()
    finally:
        watching.stop()
    assert EmbeddedBroker(made.embedded.state, SystemClock()).attach() is None


def test_ensure_replaces_a_server_whose_directory_was_removed(broker_factory, short_dir):
    made = broker_factory()
    (short_dir / "state").rename(short_dir / "gone")
    endpoint = made.embedded.ensure()
    assert endpoint.owner
    assert endpoint.pid != made.pid
    assert not is_running(made.pid)
    with connect(made.target) as client:
        assert client.ping()


def test_after_a_stop_only_an_explicit_start_starts(broker_factory):
    made = broker_factory()
    made.stop()
    with pytest.raises(BrokerUnavailable, match="stop"):
        made.embedded.ensure()
    assert made.restart().owner


def test_stop_cuts_a_start_short(broker_factory, short_dir):
    holder = StateDir(short_dir / "state").create()
    with subprocess.Popen(["flock", holder.broker_lock, "cat"], stdin=subprocess.PIPE) as blocker:
        broker = EmbeddedBroker(holder, SystemClock())
        await_fact(broker._has_traces, "the lock was never taken")
        caught = []

        def start() -> None:
            try:
                broker.start_or_attach()
            except BrokerUnavailable as error:
                caught.append(error.message)

        thread = threading.Thread(target=start)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        broker.stop()
        thread.join(2)
        assert not thread.is_alive()
        assert "stop" in caught[0]
        blocker.stdin.close()
