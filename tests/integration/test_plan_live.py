"""plan, status and inspect against live workers: in sync, edited, at odds, broken, paused, failing, gone."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.console import Answer, inside
from support.fleet import Fleet, replace_file
from support.schema import conforms

from relayctl import api
from relayctl.api import Place
from relayctl.cli.planfile import read_plan
from relayctl.core.definition import TOMBSTONE
from relayctl.core.planfile import Reason, Refusal, refusal_of
from relayctl.host.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.broker import BrokerFactory

SECRET = "hunter2-and-more"
HOURLY = '- {name: tick, handler: jobs.run, cron: "0 * * * *", timezone: Europe/Rome, timeout: 20s}'


@pytest.fixture
def ask(ask: Callable[..., Answer]) -> Callable[..., Answer]:
    """The same, and nothing it says holds the secret."""

    def run(*arguments: str, apps: Path | None = None) -> Answer:
        answer = ask(*arguments, apps=apps)
        assert SECRET not in answer.out + answer.err
        return answer

    return run


def document(answer: Answer, schema: str) -> Any:
    found = json.loads(answer.out)
    conforms(found, schema)
    return found


def copied(fleet: Fleet, name: str, old: str, new: str, app: str = "app") -> Path:
    """A second checkout of the tree with one edit."""
    import shutil

    shutil.copytree(fleet.tree.root, fleet.root / name)
    file = fleet.root / name / app / "template.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    return fleet.root / name


def test_one_worker_in_sync_then_edited(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", HOURLY, env=f"GREETING: {SECRET}")
    fleet.tree.nightly("other")
    fleet.start()
    line = "Running   relay, pull mode · 1 worker\n"
    await_fact(lambda: line in ask("plan").out, "the worker is not seen", 10)
    quiet = ask("plan", "--detailed-exitcode")
    assert (quiet.code, quiet.err) == (0, "")
    assert "No changes. 2 schedules as desired." in quiet.out

    edited = copied(fleet, "edited", "20s", "20000ms")
    assert ask("plan", "--detailed-exitcode", apps=edited).code == 0
    file = edited / "app" / "template.yaml"
    file.write_text(file.read_text().replace("0 * * * *", "30 * * * *").replace(SECRET, f"{SECRET}-new"))
    shown = ask("plan", "--detailed-exitcode", apps=edited)
    assert shown.code == 10
    assert "0 * * * *  →  30 * * * *" in shown.out
    assert "env.GREETING       (value not shown) changed" in shown.out
    found = document(ask("plan", "--format", "json", apps=edited), "plan")
    assert [(change["item"], change["action"]) for change in found["changes"]] == [
        ("app", "change"),
        ("schedule", "change"),
    ]
    assert found["summary"]["unchanged"] == 1
    file.write_text(file.read_text().replace("20000ms", "2h"))
    assert "note RLY108        workers grant at most 1h" in ask("plan", apps=edited).out
    assert "2h (capped to 1h by the workers)" in ask("inspect", "app/tick", apps=edited).out
    for line in ask("plan", "--format", "jsonl", apps=edited).out.splitlines():
        conforms(json.loads(line), "plan", "line")
    assert ask("plan", "--target", "other", "--detailed-exitcode", apps=edited).code == 0
    wrong = ask("plan", "--target", "app/tock", apps=edited)
    assert (wrong.code, wrong.out) == (2, "")
    assert 'did you mean "app/tick"?' in wrong.err

    status = document(ask("status", "--format", "json", "--detailed-exitcode"), "status")
    assert {line["sync"] for line in status["schedules"]} == {"Synced"}
    table = document(ask("inspect", "--format", "json", apps=edited), "inspect")
    assert {row["app"]: (row["sync"], row["state"]) for row in table["schedules"]} == {
        "app": ("Out of sync", "changed, not applied"), "other": ("Synced", ""),
    }  # fmt: skip
    document(ask("inspect", "app/tick", "--format", "json"), "inspect")
    alone = document(ask("inspect", "app/tick", "--format", "json", "--offline"), "inspect")
    assert "sync" not in alone


def test_two_workers_that_disagree(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", HOURLY)
    edited = copied(fleet, "edited", "0 * * * *", "30 * * * *")
    first = fleet.start()
    assert "1 worker" in ask("plan").out
    second = fleet.start(apps=edited)
    # A definition never seen before goes forward, so it is the first worker that lags behind now.
    name = first.told("worker-started")[0]["worker"]
    shown = ask("plan", "--detailed-exitcode", apps=edited)
    assert shown.code == 10
    assert f"drift, will be restored on {name}" in shown.out
    assert f"0 * * * * on {name}  →  30 * * * *" in shown.out
    status = ask("status", "--detailed-exitcode", "--workers")
    assert status.code == 10
    assert f"other definition on {name}" in status.out
    assert f"drift     {name}: app: other schedule tick (cron)" in status.out
    assert f"drifted on {name}" in ask("inspect", apps=edited).out
    assert ask("plan").out.count("30 * * * *  →  0 * * * *") == 1
    # Once both read the same, they agree.
    replace_file(fleet.tree.root / "app" / "template.yaml", (edited / "app" / "template.yaml").read_text())
    await_fact(lambda: ask("plan", "--detailed-exitcode").code == 0, "the drift does not end", 20)
    assert "2 workers" in ask("plan").out
    assert ask("status", "--detailed-exitcode").code == 0
    assert (first.stop(), second.stop()) == (0, 0)


def test_a_broken_template_is_held_with_its_place(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    folder = fleet.tree.app("app", HOURLY)
    fleet.tree.nightly("other")
    worker = fleet.start()
    file = folder / "template.yaml"
    replace_file(file, file.read_text().replace("0 * * * *", "61 * * * *"))
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "61 *" in text)
    worker.await_told("app-broken", within_s=10)
    await_fact(lambda: "Held" in ask("status").out, "status does not hear of it", 5)
    status = document(ask("status", "--format", "json"), "status")
    [broken] = status["workers"][0]["broken"]
    assert broken["app"] == "app"
    assert broken["place"].endswith(f"app/template.yaml:{line}")
    assert broken["problem"].startswith("RLY201 ")
    assert broken["since"] <= status["now"]
    shown = ask("status", "--detailed-exitcode")
    assert shown.code == 10
    assert f"template.yaml:{line} RLY201" in " ".join(shown.out.split())
    plan = ask("plan")
    assert plan.code == 1
    assert f"apps/app/template.yaml:{line} RLY201" in plan.out
    assert "its running schedule stays as it is" in " ".join(plan.out.split())
    assert "remove" not in plan.out
    found = document(ask("plan", "--format", "json"), "plan")
    assert [(held["app"], held["schedules"]) for held in found["held"]] == [("app", 1)]
    assert ask("inspect").code == 1
    replace_file(file, file.read_text().replace("61 * * * *", "0 * * * *"))
    await_fact(lambda: ask("status", "--detailed-exitcode").code == 0, "it stays held", 10)


def test_a_broker_without_workers_and_a_pause(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", HOURLY)
    assert "relay: no live worker" in ask("plan").out
    assert ask("plan", "--detailed-exitcode").code == 10
    assert ask("status").code == 0
    worker = fleet.start()
    fleet.client.hset(fleet.keys.schedule("app", "tick"), "paused", fleet.now())
    shown = ask("plan", "--detailed-exitcode")
    assert shown.code == 0
    assert "= tick                 stays paused   since" in shown.out
    assert "1 Paused" in ask("status").out
    assert "paused since" in ask("inspect").out
    assert worker.stop() == 0
    gone = ask("plan", "--detailed-exitcode")
    assert gone.code == 0
    assert "relay: no live worker; as the registry last had it" in gone.out
    status = ask("status", "--detailed-exitcode", "--workers")
    assert status.code == 10
    assert "no live worker has it" in status.out
    edited = copied(fleet, "edited", "0 * * * *", "30 * * * *")
    assert "0 * * * *  →  30 * * * *" in ask("plan", apps=edited).out


def test_every_edit_is_planned_and_then_in_force(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("app", HOURLY, env="MODE: one")
    fleet.start()
    live = fleet.tree.root / "app" / "template.yaml"
    edits = (
        ("0 * * * *", "*/30 0 * * *"),
        ("timeout: 20s", "timeout: 20000ms, overlap: skip, input: {b: 1, a: [2]}"),
        ("MODE: one", "MODE: two"),
        ("kind: [never]", "kind: [never, seldom]"),
        ("schedules:\n", "schedules:\n  - {name: more, handler: jobs.run, every: 1d}\n"),
    )
    for number, (old, new) in enumerate(edits):
        edited = copied(fleet, f"edit-{number}", old, new)
        assert ask("plan", "--detailed-exitcode", apps=edited).code == 10
        replace_file(live, (edited / "app" / "template.yaml").read_text())
    # However the edits came to the worker, by one or all at once, nothing of them is left to do.
    await_fact(lambda: ask("plan", "--detailed-exitcode").code == 0, "the edits do not arrive", 20)
    assert ask("status", "--detailed-exitcode").code == 0


def test_a_run_in_flight_goes_on_and_a_pause_outlives_its_schedule(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    slow = "- {name: busy, handler: jobs.slow, every: 1d, timeout: 60s}\n" + HOURLY
    fleet.tree.app("app", slow)
    fleet.start()
    assert ask("trigger", "app/busy").code == 0
    edited = copied(fleet, "edited", "timeout: 60s", "timeout: 50s")
    line = "in flight          1 run goes on by the definition of its start"
    await_fact(lambda: line in ask("plan", apps=edited).out, "the run does not begin", 20)
    assert ask("pause", "app/tick").code == 0
    file = fleet.tree.root / "app" / "template.yaml"
    whole = file.read_text()
    replace_file(file, whole.replace(HOURLY, ""))
    gone = (fleet.keys.schedule("app", "tick"), "hash")
    await_fact(lambda: fleet.client.hget(*gone) == TOMBSTONE, "the schedule is not removed", 20)
    kept = copied(fleet, "kept", "timeout: 60s", f"timeout: 60s}}\n  {HOURLY.rstrip('}')}")
    shown = ask("plan", apps=kept).out
    assert "+ tick                 create" in shown
    assert "stays paused until relayctl resume" in " ".join(shown.split())


def test_a_saved_plan_is_bound_to_what_it_was_made_from(
    fleet: Fleet, ask: Callable[..., Answer], tmp_path: Path
) -> None:
    fleet.tree.app("app", HOURLY, env=f"GREETING: {SECRET}")
    fleet.start()
    edited = copied(fleet, "edited", "20s", "30s")
    assert ask("plan", "--out", str(tmp_path / "plan.json"), apps=edited).code == 0
    text = (tmp_path / "plan.json").read_text()
    assert SECRET not in text
    conforms(json.loads(text), "planfile")
    saved = read_plan(tmp_path / "plan.json")
    place, template = Place(redis_url=fleet.url, state_dir=tmp_path), saved.basis.template

    def refusal() -> Refusal | None:
        return refusal_of(saved, api.basis(api.observe(place, SystemClock()), template=template, namespace="relay"))

    assert saved.basis.schedules == 1
    assert saved.basis.epoch
    assert refusal() is None
    # A second worker, a pause and a run by hand change nothing that the plan is about.
    fleet.start()
    assert ask("pause", "app/tick").code == 0
    assert refusal() is None
    file = fleet.tree.root / "app" / "template.yaml"
    replace_file(file, file.read_text().replace("20s", "40s"))
    await_fact(lambda: refusal() is not None, "the edit does not reach the fleet", 20)
    moved = refusal()
    assert moved is not None
    assert moved.reason is Reason.MOVED


def test_how_the_last_run_went(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app(
        "app",
        "- {name: good, handler: jobs.run, every: 1s, overlap: skip}\n- {name: bad, handler: jobs.fail, every: 1s, retries: 0}",
    )
    fleet.start()
    await_fact(lambda: "1 Failing, 1 Healthy" in ask("status").out, "no run has failed", 15)
    detail = ask("inspect", "app/bad").out
    assert "app/bad" in detail.splitlines()[0]
    assert detail.splitlines()[0].endswith("Synced · Failing")
    assert "    failed (" in next(line for line in detail.splitlines() if line.startswith("  last "))
    last = next(line for line in ask("inspect", "app/good").out.splitlines() if line.startswith("  last "))
    assert "    ok in " in last
    assert last.endswith("    1 attempt")


@pytest.mark.slow
def test_a_silent_broker_is_an_error_soon(
    broker_factory: BrokerFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = broker_factory("silent")
    Fleet(tmp_path, broker.target, broker.url).tree.app("app", HOURLY)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        for command in ("plan", "inspect"):
            began = time.monotonic()
            answer = inside(capsys, command, "--apps", str(tmp_path / "apps"), "--redis", broker.url)
            assert (answer.code, answer.out) == (3, "")
            assert answer.err.count("did not answer") == 1
            assert time.monotonic() - began < 12
    finally:
        os.kill(broker.pid, signal.SIGCONT)
