"""Owners and servers that are killed, races for the start, and what nobody may lose by them."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.broker import Participant, await_fact, is_running

from relayctl.errors import BrokerError
from relayctl.host.clock import SystemClock
from relayctl.host.lock import FileLock
from relayctl.store.connect import Target, connect, translate

pytestmark = pytest.mark.fault


@pytest.fixture
def join(short_dir):
    """Makes participants in the broker of one directory; ends those still alive."""
    made: list[Participant] = []

    def make(*flags: str, wait: bool = True) -> Participant:
        made.append(Participant(short_dir / "state", *flags, wait=wait))
        return made[-1]

    yield make
    for participant in reversed(made):
        participant.stop()


def test_ten_that_start_at_once_share_one_server(join):
    racers = [join("no-watch", wait=False) for _ in range(10)]
    told = [racer.await_told("up", within_s=30) for racer in racers]
    assert len({up["pid"] for up in told}) == 1
    assert sum(up["owner"] for up in told) == 1


@pytest.mark.parametrize("tie", ["signal", "pipe"])
def test_the_server_dies_cleanly_with_its_killed_owner(join, short_dir, tie):
    owner = join(tie, "no-watch")
    server = owner.up["pid"]
    owner.kill()
    assert await_fact(lambda: not is_running(server), "an orphaned server lives on", within_s=3) < 1
    log = (short_dir / "state" / "broker.log").read_text()
    assert "ready to exit" in log
    assert not os.path.exists(short_dir / "state" / "broker.sock")
    # Its threads end a moment after its main one, and with the last of them the lock.
    lock = FileLock(short_dir / "state" / "broker.lock", SystemClock())
    await_fact(lambda: not lock.is_held(), "the lock outlives the server", within_s=1)


@pytest.mark.parametrize("farewell", ["killed", "stopped"])
def test_when_the_owner_leaves_an_attached_process_restarts_it_within_a_second(join, farewell):
    owner = join()
    attached = [join(), join()]
    url, old = owner.up["url"], owner.up["pid"]
    assert not any(one.up["owner"] for one in attached)
    with connect(Target.parse(url)) as client:
        client.set("kept", "1")
        if farewell == "killed":
            owner.kill()
        else:
            owner.stop()
        # The old one takes commands for some milliseconds more.
        took = await_fact(lambda: server_of(client) not in {None, old}, "nobody restarted the broker")
        assert took < 1.5, f"took {took:.2f} s"
        assert client.get("kept") == "1"


def server_of(client) -> int | None:
    try:
        with translate():
            return client.info("server")["process_id"]
    except BrokerError:
        return None


def test_a_server_killed_under_writers_comes_back_with_all_it_acknowledged(join):
    owner = join()
    target = Target.parse(owner.up["url"])
    acknowledged: list[list[str]] = [[] for _ in range(4)]
    done = threading.Event()

    def write(mine: list[str], name: int) -> None:
        client, number = connect(target), 0
        while not done.is_set():
            number += 1
            try:
                with translate():
                    client.xadd("log", {"who": f"{name}-{number}"})
            except BrokerError:
                done.wait(0.01)
                continue
            mine.append(f"{name}-{number}")
        client.close()

    server = owner.up["pid"]
    with ThreadPoolExecutor(4) as pool:
        for name, mine in enumerate(acknowledged):
            pool.submit(write, mine, name)
        try:
            for _ in range(3):
                await_growth(acknowledged, 200)
                os.kill(server, signal.SIGKILL)
                server = owner.await_told("started")["pid"]
            await_growth(acknowledged, 1)
        finally:
            done.set()
    with connect(target) as client:
        kept = {fields["who"] for _, fields in client.xrange("log")}
    assert {entry for mine in acknowledged for entry in mine} <= kept


def await_growth(lists: list[list[str]], by: int) -> None:
    wanted = sum(map(len, lists)) + by
    await_fact(lambda: sum(map(len, lists)) >= wanted, "the writers do not get on")


def test_the_process_that_restarted_it_owns_it(join):
    owner, attached = join(), join()
    owner.kill()
    started = attached.await_told("started")
    attached.stop()
    assert not is_running(started["pid"])


def test_a_removed_state_directory_is_made_again_and_the_old_server_does_no_harm(join, short_dir):
    owner = join()
    # To the worker a directory moved away is a removed one; removing it would race with its making anew.
    (short_dir / "state").rename(short_dir / "gone")
    started = owner.await_told("started")
    assert started["pid"] != owner.up["pid"]
    assert not is_running(owner.up["pid"])
    with connect(Target.parse(owner.up["url"])) as client:
        assert client.ping()


def test_a_removed_socket_is_replaced_without_loss(join, short_dir):
    owner = join()
    with connect(Target.parse(owner.up["url"])) as client:
        client.set("kept", "1")
    (short_dir / "state" / "broker.sock").unlink()
    owner.await_told("started")
    with connect(Target.parse(owner.up["url"])) as client:
        assert client.get("kept") == "1"


def test_a_stopped_server_is_not_mistaken_for_a_dead_one(join):
    owner = join()
    attached = join()
    os.kill(owner.up["pid"], signal.SIGSTOP)
    try:
        with pytest.raises(queue.Empty):
            attached.await_told("lost", within_s=0.7)
    finally:
        os.kill(owner.up["pid"], signal.SIGCONT)
    with connect(Target.parse(owner.up["url"])) as client:
        assert client.info("server")["process_id"] == owner.up["pid"]


def test_a_restart_that_fails_is_told_and_tried_again_ever_more_slowly(broker_factory, tmp_path):
    broken = tmp_path / "server"
    broken.write_text("#!/bin/sh\necho out of order\nexit 1\n")
    broken.chmod(0o755)
    made, told = broker_factory(), queue.SimpleQueue()

    def listen(event) -> None:
        told.put((event, time.monotonic()))
        raise RuntimeError("a listener that fails must do no harm")

    sound, made.embedded._binary = made.embedded._binary, replace(made.embedded._binary, path=broken)
    made.embedded.watch(listen)
    os.kill(made.pid, signal.SIGKILL)
    assert told.get(timeout=30)[0].kind == "lost"
    failures = [told.get(timeout=30) for _ in range(4)]
    assert all("out of order" in event.error.message for event, _ in failures)
    gaps = [later - earlier for (_, earlier), (_, later) in itertools.pairwise(failures)]
    assert gaps[2] > 0.2, gaps
    made.embedded._binary = sound
    event, _ = told.get(timeout=30)
    while event.kind == "failed":
        event, _ = told.get(timeout=30)
    assert (event.kind, event.endpoint.owner) == ("started", True)
