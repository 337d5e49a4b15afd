"""`invoke` through real workers: once, in a child of a worker, beside the stream; through crowds, stops and kills."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.broker import await_fact
from support.console import Answer, command, inside, plain
from support.fleet import Fleet, ServeProcess

from relayctl.cli import callworker
from relayctl.errors import RequestRejected
from relayctl.host.client import submit
from relayctl.host.clock import SystemClock
from relayctl.host.requests import Result
from relayctl.host.socketfile import sockets_of
from relayctl.host.state import StateDir

pytestmark = pytest.mark.timeout(150)
Verb = Callable[..., Answer]
InBackground = Callable[[Callable[[], Any]], list[Any]]

HANDLERS = """
import json, os, pathlib, sys, time


def _note(what):
    with open(os.environ["RUNS"], "a") as file:
        file.write(json.dumps({"what": what, "at": None, "message": os.environ["RELAY_MESSAGE_ID"]}) + "\\n")


def show(event):
    print("event", json.dumps(event, sort_keys=True))
    print({name: value for name, value in os.environ.items() if name.startswith("RELAY_")}, file=sys.stderr)
    print("colour is", os.environ.get("COLOUR"), os.environ.get("KEY"))
    _note("show")


def fail(event):
    print("before the fall")
    raise ValueError("it broke")


def die(event):
    os._exit(7)


def hold(event):
    _note("begin")
    print("holding", flush=True)
    while not pathlib.Path(event["until"]).exists():
        time.sleep(0.01)
    _note("end")


def short(event):
    time.sleep(0.02)
    _note("short")


def much(event):
    for n in range(20000):
        print(n, "x" * 50)
"""

RULES = "\n".join(
    f"- {{handler: jobs.{name}, pattern: {{kind: [{name}]}}, retries: 0, timeout: 60s}}"
    for name in ("show", "fail", "die", "hold", "short", "much")
)


@pytest.fixture
def state(short_dir: Path) -> Path:
    return short_dir / "state"


@pytest.fixture
def gate(short_dir: Path) -> Path:
    """What `jobs.hold` waits for."""
    return short_dir / "gate"


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str], fleet: Fleet, state: Path) -> Verb:
    def run(*arguments: str) -> Answer:
        return inside(capsys, *arguments, "--apps", str(fleet.tree.root), "--state-dir", str(state))

    return run


def _app(fleet: Fleet, name: str = "app", *, concurrency: int = 1, schedules: str = "", **more: str) -> None:
    folder = fleet.tree.root / name
    folder.mkdir(exist_ok=True)
    (folder / "jobs.py").write_text(HANDLERS)
    schedules = schedules or '- {name: nightly, handler: jobs.show, cron: "0 3 * * *"}'
    head = "\n".join([f"concurrency: {concurrency}", *more.pop("head", "").splitlines()])
    fleet.tree.app(name, schedules, events=RULES, head=head, env="COLOUR: blue", **more)


def _ask(state: Path, name: str, event: dict[str, Any] | None = None, **more: Any) -> Result:
    """One request to the only worker there is."""
    [path] = sockets_of(StateDir(state), SystemClock())
    request = {"app": "app", "name": name, "event": None if event is None else json.dumps(event)}
    return submit(path, "invoke", request, within_s=60, on_line=lambda _stream, _line: None, **more)


def _holding(
    fleet: Fleet, state: Path, gate: Path, in_background: InBackground, waiting: int
) -> tuple[list[Any], list[list[Any]]]:
    """One run that holds the only place until `gate` is there, and others that are queued behind it, one by one."""
    held = in_background(lambda: _ask(state, "jobs.hold", {"until": str(gate)}))
    await_fact(lambda: fleet.tree.runs("begin"), "the first one does not begin")
    queue = []
    for _ in range(waiting):
        queued = threading.Event()
        queue.append(in_background(lambda queued=queued: _ask(state, "jobs.short", on_event=lambda _: queued.set())))
        assert queued.wait(30)
    return held, queue


def test_a_run_is_seen_by_who_asked_and_by_nobody_else(fleet: Fleet, state: Path, verb: Verb) -> None:
    _app(fleet, head="secrets: {KEY: key}")
    secrets = StateDir(state).create().secrets
    secrets.mkdir(mode=0o700, exist_ok=True)
    (secrets / "key").write_text("hunter2hunter2")
    (secrets / "key").chmod(0o600)
    worker = fleet.start(state=state)
    answer = verb("invoke", "app/nightly")
    assert answer.code == 0, answer.err
    [event, colour] = answer.out.splitlines()
    assert event.startswith('event {"scheduled_at": "') and '"source": "relay.schedule"' in event
    assert colour == "colour is blue ***"
    assert "app/jobs.show ok (" in answer.err
    for shown in (
        "'RELAY_ATTEMPT': '1'",
        "'RELAY_SCHEDULE': 'nightly'",
        f"invoke-{worker.told('worker-started')[0]['worker'][-8:]}-1",
    ):
        assert shown in answer.err
    ended = worker.await_told("invoke-ended", outcome="succeeded")
    assert worker.told("control-used", action="invoke", target=f"app/jobs.show@{ended['message']}")
    assert fleet.client.exists(fleet.keys.events) == 0 or fleet.entries_added() == 0
    assert not fleet.published("app", "nightly")
    history = verb("history", "app/nightly", "--format", "json", "--redis", fleet.url)
    assert history.code == 0 and json.loads(history.out)["records"] == [], history.err


def test_an_event_reaches_its_handler_and_no_log(fleet: Fleet, state: Path, verb: Verb, tmp_path: Path) -> None:
    _app(fleet)
    worker = fleet.start(state=state)
    file = tmp_path / "event.json"
    file.write_text('{"kind": "wanted", "word": "hunter2-\\u00e9"}')
    ran = verb("invoke", "app/jobs.fail", "--event", str(file), "--format", "json")
    assert ran.code == 3
    document = json.loads(ran.out)
    assert (document["v"], document["app"], document["handler"], document["outcome"]) == (
        1,
        "app",
        "jobs.fail",
        "failed",
    )
    assert document["occurrence_id"] is None and "before the fall" in document["output"]
    assert "ValueError: it broke" in document["reason"]
    local = verb("invoke", "app/jobs.fail", "--event", str(file), "--format", "json", "--local")
    assert local.code == 3 and set(json.loads(local.out)) == set(document)
    assert local.err.splitlines()[-1].rpartition(" (")[0] == ran.err.splitlines()[-1].rpartition(" (")[0]
    died = verb("invoke", "app/jobs.die")
    assert died.code == 3 and "app/jobs.die failed: " in died.err
    assert verb("invoke", "app/jobs.much").out.count("\n") == 10_001
    assert worker.stop() == 0
    assert "hunter2" not in worker.story() + "".join(map(json.dumps, worker.facts))


def test_the_first_worker_that_has_the_app_runs_it(fleet: Fleet, state: Path, verb: Verb) -> None:
    for name in ("app", "other"):
        _app(fleet, name)
    assert verb("invoke", "app/nightly").err.splitlines()[0].startswith("error: no worker runs on the state directory")
    workers = {name: fleet.start("--only", name, state=state) for name in ("app", "other")}
    for name, worker in workers.items():
        assert verb("invoke", f"{name}/nightly").code == 0
        assert worker.told("control-used", action="invoke")
    missing = verb("invoke", "othr/nightly")
    assert missing.code == 2 and 'no running app "othr"' in missing.err
    nightly = verb("invoke", "other/nigtly")
    assert nightly.code == 2 and 'did you mean "other/nightly"?' in nightly.err
    bare = verb("invoke", "other")
    assert bare.code == 2 and 'did you mean "other/nightly"?' in bare.err


def test_a_full_queue_refuses_and_a_stop_answers_everybody(
    fleet: Fleet, state: Path, verb: Verb, gate: Path, in_background: InBackground
) -> None:
    _app(fleet)
    worker = fleet.start(state=state)
    held, queue = _holding(fleet, state, gate, in_background, 16)
    refused = verb("invoke", "app/jobs.short")
    assert refused.code == 3 and "(full)" in refused.err
    assert verb("health").code == 0, "questions are answered beside it"
    worker.send(signal.SIGTERM)
    assert worker.await_told("draining")["running"] == 1
    await_fact(lambda: all(queue), "what waited was not answered")
    assert {each[0].reason for each in queue} == {"cancelled"}
    assert "(closing)" in verb("invoke", "app/jobs.short").err
    gate.touch()
    await_fact(lambda: held, "what ran was not answered")
    assert held[0].is_ok and held[0].document["outcome"] == "succeeded"
    assert worker.await_exit() == 0
    assert fleet.tree.runs("end") and not fleet.tree.runs("short")


def test_a_run_that_outlasts_the_drain_is_interrupted_and_told(
    fleet: Fleet, state: Path, gate: Path, in_background: InBackground
) -> None:
    _app(fleet)
    worker = fleet.start("--drain", "0s", state=state)
    held, _ = _holding(fleet, state, gate, in_background, 0)
    assert worker.stop() == 0
    await_fact(lambda: held, "who waited was not answered")
    assert (held[0].is_ok, held[0].document["outcome"]) == (False, "interrupted")
    assert held[0].reason == "the worker is stopping"


def test_a_kill_is_another_error_than_nobody_there(
    fleet: Fleet, state: Path, verb: Verb, gate: Path, tmp_path: Path
) -> None:
    _app(fleet)
    worker = fleet.start(state=state)
    file = tmp_path / "event.json"
    file.write_text(json.dumps({"until": str(gate)}))

    def kill() -> None:
        await_fact(lambda: fleet.tree.runs("begin"), "it does not begin")
        worker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    lost = verb("invoke", "app/jobs.hold", "--event", str(file))
    killer.join(30)
    assert lost.code == 3 and "went away before the result came" in lost.err
    nobody = verb("invoke", "app/jobs.hold")
    assert nobody.code == 3 and "no worker runs" in nobody.err and "--local" in nobody.err


def _started(fleet: Fleet, state: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("invoke", *arguments, "--state-dir", str(state)),
        cwd=fleet.root,
        env=plain(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_ctrl_c_takes_back_what_waits_and_leaves_alone_what_runs(
    fleet: Fleet, state: Path, gate: Path, tmp_path: Path
) -> None:
    _app(fleet)
    worker = fleet.start(state=state)
    file = tmp_path / "event.json"
    file.write_text(json.dumps({"until": str(gate)}))
    with _started(fleet, state, "app/jobs.hold", "--event", str(file)) as runs:
        assert runs.stdout is not None
        assert runs.stdout.readline() == b"holding\n", "output comes while it runs"
        with _started(fleet, state, "app/jobs.short") as waits:
            worker.await_told("control-used", action="invoke", count=2)
            # It says so after a second of waiting, so it waits when the signal comes.
            assert waits.stderr is not None
            assert waits.stderr.readline() == b"waits for a free place of the app\n"
            waits.send_signal(signal.SIGINT)
            _, err = waits.communicate(timeout=60)
            assert waits.returncode == 130
            assert err.decode().splitlines() == ["the run had not begun, and will not", "interrupted"]
        runs.send_signal(signal.SIGTERM)
        _, err = runs.communicate(timeout=60)
        assert runs.returncode == 143 and "goes on in the worker" in err.decode()
    gate.touch()
    worker.await_told("invoke-ended", handler="jobs.hold", outcome="succeeded")
    assert _ask(state, "jobs.short").is_ok
    assert len(fleet.tree.runs("short")) == 1, "what was taken back has run"


def test_a_worker_that_hangs_is_passed_over_and_does_not_run_it_later(
    fleet: Fleet, state: Path, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    _app(fleet)
    worker = fleet.start(state=state)
    monkeypatch.setattr(callworker, "_ACCEPT_WITHIN_S", 0.5)
    worker.send(signal.SIGSTOP)
    try:
        silent = verb("invoke", "app/jobs.short")
    finally:
        worker.send(signal.SIGCONT)
    assert silent.code == 3 and "does not answer within 0.5 s" in silent.err
    assert _ask(state, "jobs.short").is_ok
    ended = worker.await_told("invoke-ended")
    assert [line["message"] for line in fleet.tree.runs("short")] == [ended["message"]]


def test_guests_and_the_stream_share_one_place(fleet: Fleet, state: Path, in_background: InBackground) -> None:
    _app(fleet)
    fleet.start(state=state)
    for _ in range(30):
        fleet.emit(kind="short")
    outcomes = [in_background(lambda: [_ask(state, "jobs.short").is_ok for _ in range(5)]) for _ in range(3)]
    await_fact(lambda: all(outcomes), "those who ask starve", 60)
    assert outcomes == [[[True] * 5]] * 3
    await_fact(lambda: len(fleet.tree.runs("short")) == 45, "the stream starves", 60)
    fleet.await_idle()
    order = ["guest" if line["message"].startswith("invoke-") else "stream" for line in fleet.tree.runs("short")]
    contested = order[order.index("stream") : len(order) - order[::-1].index("stream")]
    assert "guest guest guest" not in " ".join(contested), "the stream waits while guests run"


def test_children_that_are_used_once_serve_guests_too(fleet: Fleet, state: Path, verb: Verb, tmp_path: Path) -> None:
    _app(fleet, "fresh", head="isolation: fresh")
    program = fleet.tree.root / "program"
    program.mkdir()
    (program / "echo.sh").write_text("#!/bin/sh\ncat\nexit 4\n")
    (program / "echo.sh").chmod(0o755)
    (program / "template.yaml").write_text(
        "runtime: exec\nevents:\n  - {handler: echo.sh, pattern: {kind: [never]}, retries: 0}\n"
    )
    fleet.start(state=state)
    for _ in range(3):
        assert verb("invoke", "fresh/jobs.short").code == 0
    file = tmp_path / "event.json"
    file.write_text('{"n": 1.10}')
    echoed = verb("invoke", "program/echo.sh", "--event", str(file))
    assert (echoed.code, echoed.out) == (3, '{"n": 1.10}\n'), echoed.err
    assert "program/echo.sh failed: exit code 4" in echoed.err


def test_a_broken_app_answers_with_the_reason(fleet: Fleet, state: Path, verb: Verb) -> None:
    _app(fleet)
    (fleet.tree.root / "app" / "jobs.py").write_text(HANDLERS + "\n\nos._exit(9)\n")
    fleet.start(state=state)
    answer = verb("invoke", "app/jobs.short")
    assert answer.code == 3 and "app/jobs.short failed: " in answer.err, answer.err


REFUSED = [
    ({"app": "app"}, "malformed"),
    ({"app": "app", "name": "nightly", "event": {"a": 1}}, "malformed"),
    ({"app": "app", "name": "nightly", "event": "[1]"}, "malformed"),
    ({"app": "app", "name": "nightly", "event": '{"a": NaN}'}, "malformed"),
    ({"app": "app", "name": "nightly", "event": '{"a": "\ud800"}'}, "malformed"),
    ({"app": "app", "name": "nightly", "event": '{"a": "' + "x" * 300_000 + '"}'}, "too-large"),
    ({"app": "nope", "name": "nightly"}, "no-app"),
    ({"app": "app", "name": "nope"}, "no-handler"),
]


def test_what_cannot_be_run_is_refused_with_its_reason(fleet: Fleet, state: Path) -> None:
    _app(fleet)
    worker = fleet.start(state=state)
    [path] = sockets_of(StateDir(state), SystemClock())
    for request, reason in REFUSED:
        with pytest.raises(RequestRejected) as refused:
            submit(path, "invoke", request, within_s=30)
        assert refused.value.reason == reason
    largest = {"kind": "é" * (256 * 512 - 10)}
    request = {"app": "app", "name": "jobs.short", "event": json.dumps(largest, ensure_ascii=False)}
    assert submit(path, "invoke", request, within_s=60).is_ok, "what is within the size of an event is taken"
    assert len(worker.told("control-used", action="invoke")) == 1


def _holds(worker: ServeProcess) -> tuple[int, int, int]:
    """Descriptors, threads and children of a worker."""
    place = Path(f"/proc/{worker.pid}")
    return len(list((place / "fd").iterdir())), len(list((place / "task").iterdir())), len(worker.children())


def _resident_kib(worker: ServeProcess) -> int:
    return int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1]) * 4


def _many(fleet: Fleet, state: Path, runs: int) -> None:
    _app(fleet)
    worker = fleet.start(state=state)
    for _ in range(20):
        assert _ask(state, "jobs.show").is_ok
    before, size = _holds(worker), _resident_kib(worker)
    assert all(_ask(state, "jobs.show").is_ok for _ in range(runs))
    # Other loops may have opened something of theirs meanwhile; each run that left something would be far more.
    await_fact(
        lambda: all(now <= then + 5 for now, then in zip(_holds(worker), before, strict=True)), "something is left"
    )
    assert _resident_kib(worker) - size < 4096 + runs


def test_many_in_a_row_leave_nothing(fleet: Fleet, state: Path) -> None:
    _many(fleet, state, 100)


@pytest.mark.slow
def test_two_thousand_in_a_row_leave_nothing(fleet: Fleet, state: Path) -> None:
    _many(fleet, state, 2000)
