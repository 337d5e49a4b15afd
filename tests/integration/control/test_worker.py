"""Real workers, asked from outside: health, reconcile, emit, probes and metrics; through outages, stops and kills."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import BrokerFactory, await_fact
from support.console import Answer, command, inside, plain
from support.fleet import Fleet

from relayctl.host.client import submit
from relayctl.host.clock import SystemClock
from relayctl.host.operator import operator
from relayctl.host.socketfile import sockets_of
from relayctl.host.state import StateDir

pytestmark = pytest.mark.timeout(120)
Verb = Callable[..., Answer]


@pytest.fixture
def state(short_dir: Path) -> Path:
    return short_dir / "state"


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str], fleet: Fleet, state: Path) -> Verb:
    def run(*arguments: str, redis: bool = False) -> Answer:
        more = ["--redis", fleet.url] if redis else []
        return inside(capsys, *arguments, "--apps", str(fleet.tree.root), "--state-dir", str(state), *more)

    return run


@pytest.fixture
def factory(short_dir: Path) -> Iterator[BrokerFactory]:
    made = BrokerFactory(short_dir / "brokers")
    yield made
    made.close()


def _sockets(state: Path) -> list[Path]:
    return sorted(state.glob("control-*.sock"))


def _reports(verb: Verb) -> list[dict[str, Any]]:
    document = json.loads(verb("health", "--format", "json").out)
    assert document["v"] == 1
    return document["workers"]


def _await_ready(verb: Verb) -> None:
    """A worker tells that it has started a moment before its loops are up."""
    await_fact(lambda: verb("health").code == 0, "the workers do not become ready")


def _failed(report: dict[str, Any]) -> set[str]:
    return {check["name"] for check in report["checks"] if not check["is_ok"]}


def _get(address: str, path: str, method: str = "GET") -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://{address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _figures(address: str) -> dict[str, float]:
    status, page = _get(address, "/metrics")
    assert status == 200
    lines = [line for line in page.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_two_workers_on_one_directory_have_a_socket_each_and_leave_none(fleet: Fleet, state: Path, verb: Verb) -> None:
    assert verb("health").code == 1
    assert not state.exists(), "asking makes no state directory"
    fleet.tree.nightly("app")
    workers = [fleet.start(state=state), fleet.start(state=state)]
    assert len(_sockets(state)) == 2
    _await_ready(verb)
    reports = _reports(verb)
    assert {report["pid"] for report in reports} == {worker.pid for worker in workers}
    assert all(report["live"] and report["schedules"] == 1 for report in reports)
    sound = verb("health")
    assert (sound.code, sound.err) == (0, "") and sound.out.count(": sound; pid ") == 2
    assert workers[0].stop(signal.SIGTERM) == 0
    assert len(_sockets(state)) == 1
    assert workers[1].stop(signal.SIGINT) == 0
    assert _sockets(state) == []
    gone = verb("health")
    assert (gone.code, gone.out) == (1, "")
    assert "no worker runs" in gone.err and "relayctl serve" in gone.err


def test_a_killed_worker_is_not_counted_and_its_socket_goes(fleet: Fleet, state: Path, verb: Verb) -> None:
    fleet.tree.nightly("app")
    first = fleet.start(state=state)
    first.kill()
    assert len(_sockets(state)) == 1
    assert verb("health").code == 1
    assert _sockets(state) == []
    second = fleet.start(state=state)
    second.kill()
    third = fleet.start(state=state)
    assert [report["pid"] for report in _reports(verb)] == [third.pid]
    assert len(_sockets(state)) == 1


def test_a_stopped_process_is_told_apart_from_none(
    fleet: Fleet, state: Path, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    from relayctl.cli import health

    monkeypatch.setattr(health, "_WITHIN_S", 0.5)
    fleet.tree.nightly("app")
    worker = fleet.start(state=state)
    worker.send(signal.SIGSTOP)
    answer = verb("health")
    assert answer.code == 1
    assert ": not sound\n" in answer.out and "does not answer within 0.5 s" in answer.out
    worker.send(signal.SIGCONT)
    await_fact(lambda: verb("health").code == 0, "it does not recover")


def test_a_demand_finds_an_edit_that_no_watcher_saw(fleet: Fleet, state: Path, verb: Verb) -> None:
    fleet.tree.nightly("app")
    worker = fleet.start("--resync", "off", state=state, is_watch_silent=True)
    fleet.tree.nightly("second")
    answer = verb("reconcile")
    assert answer.code == 0 and answer.out.endswith(": looks now\n")
    worker.await_told("app-loaded", app="second")
    fleet.tree.nightly("third")
    worker.send(signal.SIGHUP)
    worker.await_told("app-loaded", app="third")
    [used] = worker.told("control-used", action="reconcile")
    assert used["by"] == operator()


def test_held_removals_wait_for_consent_through_the_worker(fleet: Fleet, state: Path, verb: Verb) -> None:
    fleet.tree.nightly("only")
    worker = fleet.start(state=state)
    (fleet.tree.root / "only").rename(fleet.root / "aside")
    revision = worker.await_told("removal-held")["revision"]
    [report] = _reports(verb)
    assert report["ready"] and _failed(report) == {"removals"}
    assert f"--accept-removals {revision}" in verb("reconcile").out
    wrong = verb("reconcile", "--accept-removals", "0123456789abcdef")
    assert wrong.code == 2 and f"--accept-removals {revision}" in wrong.err
    assert verb("reconcile", "--accept-removals", "*").code == 2
    assert not worker.told("app-removed")
    accepted = verb("reconcile", "--accept-removals", revision[:12])
    assert accepted.code == 0 and f"removals of {revision} are accepted" in accepted.out
    worker.await_told("app-removed", app="only")


def test_an_interrupted_wait_ends_at_once_and_says_so(fleet: Fleet, state: Path) -> None:
    StateDir(state).create()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(state / "control-00000001.sock"))
        silent.listen()
        waiting = subprocess.Popen(
            command("reconcile", "--state-dir", str(state)), env=plain(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        # The first connection asks whether the socket is alive, the second carries the request.
        silent.settimeout(15)
        silent.accept()[0].close()
        with silent.accept()[0] as asked:
            assert json.loads(asked.recv(1000))["path"] == "reconcile"
            waiting.send_signal(signal.SIGINT)
            out, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, out, err) == (130, b"", b"interrupted\n")


def test_reconcile_without_a_worker_says_the_way_out(verb: Verb) -> None:
    answer = verb("reconcile")
    assert answer.code == 3 and "relayctl serve" in answer.err


def test_what_is_wrong_with_the_tree_is_a_note(fleet: Fleet, state: Path, verb: Verb) -> None:
    fleet.tree.nightly("good")
    folder = fleet.tree.nightly("bad")
    worker = fleet.start("--resync", "1s", state=state)
    (folder / "template.yaml").write_text("runtime: [\n")
    worker.await_told("app-broken", app="bad")
    await_fact(lambda: _failed(_reports(verb)[0]) == {"templates"}, "the broken app is not told")
    fleet.tree.root.rename(fleet.root / "aside")
    worker.await_told("source-lost")
    await_fact(lambda: "source" in _failed(_reports(verb)[0]), "the lost source is not told")
    answer = verb("health")
    assert answer.code == 0 and "note   source:" in answer.out
    (fleet.root / "aside").rename(fleet.tree.root)


def test_probes_and_figures(fleet: Fleet, state: Path, verb: Verb) -> None:
    fleet.tree.app(
        "app",
        "- {name: tick, handler: jobs.run, every: 1s}",
        events="- {handler: jobs.on_event, pattern: {kind: [wanted]}}\n- {handler: jobs.on_bad_event, pattern: {kind: [bad]}, retries: 0}",
    )
    fleet.start("--http", "127.0.0.1:0", state=state)
    _await_ready(verb)
    address = _reports(verb)[0]["http"]
    assert _get(address, "/livez")[0] == 200
    status, body = _get(address, "/readyz")
    assert status == 200 and json.loads(body)["ok"] is True
    assert _get(address, "/nothing") == (404, b"not found\n")
    assert _get(address, "/livez", "POST")[0] == 405
    assert _get(address, "/livez", "HEAD") == (200, b"")
    for kind in ("wanted", "wanted", "bad", "other"):
        fleet.emit(kind=kind)
    fleet.client.xadd(fleet.keys.events, {"event": "no json"})
    at = fleet.now() + 2
    fleet.await_instant(at)
    fleet.await_idle()
    await_fact(lambda: _figures(address).get("relay_runs_total", 0) >= 0, "no figures")
    found = _figures(address)
    assert found["relay_published_total"] >= 2
    assert found["relay_publish_late_seconds_count"] == found["relay_published_total"]
    assert found["relay_events_received_total"] == 4
    assert found["relay_events_matched_total"] == 3
    assert found["relay_events_unmatched_total"] == 1
    assert found['relay_app_events_matched_total{app="app"}'] == 3
    assert found['relay_runs_total{kind="event",outcome="succeeded"}'] == 2
    assert found['relay_runs_total{kind="event",outcome="failed"}'] == 1
    assert found['relay_dead_letters_total{cause="exhausted"}'] == 1
    assert found['relay_dead_letters_total{cause="rejected"}'] == 1
    assert found['relay_runs_total{kind="schedule",outcome="succeeded"}'] >= 2
    assert found["relay_ready"] == found["relay_live"] == found["relay_armed_schedules"] == 1
    assert found['relay_scheduler_state{state="running"}'] == 1
    assert found['relay_reconcile_swaps_total{change="added"}'] == 1
    assert 0 <= found["relay_backlog"] <= 2


def test_an_address_that_is_taken_stops_the_start_with_a_way_out(fleet: Fleet, state: Path) -> None:
    fleet.tree.nightly("app")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        worker = fleet.start("--http", f"127.0.0.1:{taken.getsockname()[1]}", state=state, wait=False)
        assert worker.await_exit() == 3
    assert any("cannot listen on 127.0.0.1" in line for line in worker.noise)
    assert _sockets(state) == []


@pytest.mark.fault
@pytest.mark.slow
def test_a_worker_without_its_broker_is_live_but_not_ready_and_comes_back(
    fleet: Fleet, state: Path, verb: Verb, factory: BrokerFactory
) -> None:
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1s}")
    broker = factory("away")
    worker = fleet.start("--http", "127.0.0.1:0", "--drain", "1s", state=state, redis=broker.url)
    _await_ready(verb)
    address = _reports(verb)[0]["http"]
    broker.kill()
    await_fact(lambda: _get(address, "/readyz")[0] == 503, "it stays ready")
    assert "broker" in _failed(_reports(verb)[0])
    assert verb("health").code == 1
    # Longer than a complete pass may take: the loops come round all the same.
    await_fact(lambda: {"pass:consumer", "due"} <= _failed(_reports(verb)[0]), "passes seem to be complete", 20)
    assert "app/tick@" in verb("health").out
    assert _get(address, "/livez")[0] == 200
    assert _figures(address)["relay_broker_up"] == 0
    assert "relay_backlog" not in _figures(address)
    refused = verb("reconcile")
    assert refused.code == 0, "a look at the files needs no broker"
    broker.restart()
    await_fact(lambda: _get(address, "/readyz")[0] == 200, "it does not become ready again", 20)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        await_fact(lambda: _get(address, "/readyz")[0] == 503, "a broker that hangs is not noticed")
        assert _get(address, "/livez")[0] == 200
        assert worker.stop() == 0
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert _sockets(state) == []


def test_a_draining_worker_answers_refuses_and_leaves_nothing(fleet: Fleet, state: Path, verb: Verb) -> None:
    fleet.tree.app(
        "app", events="- {handler: jobs.on_slow_event, pattern: {kind: [slow]}, timeout: 30s}", env='TAKES: "3"'
    )
    worker = fleet.start("--http", "127.0.0.1:0", state=state)
    address = _reports(verb)[0]["http"]
    fleet.emit(kind="slow")
    await_fact(lambda: fleet.tree.runs("begin"), "the handler does not begin")
    worker.send(signal.SIGTERM)
    worker.await_told("draining")
    await_fact(lambda: _reports(verb)[0]["state"] == "draining", "the drain cannot be watched")
    assert _failed(_reports(verb)[0]) == {"state"}
    assert _get(address, "/livez")[0] == 200
    assert _get(address, "/readyz")[0] == 503
    refused = verb("reconcile")
    assert refused.code == 3 and "closing" in refused.err
    assert worker.await_exit() == 0
    assert fleet.tree.runs("end")
    assert _sockets(state) == []


def test_no_payload_and_no_password_reaches_log_or_arguments(fleet: Fleet, state: Path, verb: Verb) -> None:
    fleet.tree.nightly("app")
    worker = fleet.start(state=state)
    [path] = sockets_of(StateDir(state), SystemClock())
    submit(path, "reconcile", {"note": "hunter2"})
    worker.await_told("control-used")
    assert worker.stop() == 0
    assert "hunter2" not in worker.story() + "".join(map(json.dumps, worker.facts))


def test_emit_appends_what_was_written(fleet: Fleet, verb: Verb, tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text('{"kind": "wanted", "amount": 1.10, "big": 123456789012345678901234567890}\n')
    answer = verb("emit", str(file), redis=True)
    assert answer.code == 0, answer.err
    entry = answer.out.strip()
    [(found, fields)] = fleet.client.xrange(fleet.keys.events)
    assert (found, fields) == (entry, {"event": file.read_text().strip()})
    document = json.loads(verb("emit", str(file), "--format", "json", redis=True).out)
    assert document["v"] == 1 and document["entry"] > entry and document["namespace"] == "relay"


def test_emit_without_a_broker_starts_none(verb: Verb, tmp_path: Path, state: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text("{}")
    answer = verb("emit", str(file))
    assert answer.code == 3 and "relayctl serve" in answer.err
    assert not state.exists()
