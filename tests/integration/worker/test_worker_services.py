"""Services of a whole worker: through edits, drains and kills, and what its record and its figures say of them."""

from __future__ import annotations

import json
import urllib.request

import pytest
from support.console import inside
from support.fleet import Fleet, await_true, is_running, replace_file

from relayctl.store.fleet import Fleet as Records

NIGHTLY = '- {name: tick, handler: jobs.run, cron: "0 3 29 2 *"}'
FAMILY = """
import os, subprocess, sys, time
nap = "import time; time.sleep(600)"
inner = subprocess.Popen([sys.executable, "-c", nap])
stray = subprocess.Popen([sys.executable, "-c", nap], start_new_session=True)
print("family", os.getpid(), inner.pid, stray.pid, flush=True)
time.sleep(600)
"""


def services(*rows: str) -> str:
    return "services:\n" + "\n".join(f"  - {{{row}}}" for row in rows)


SLEEPER = services("name: web, command: [sleep, '600'], replicas: 2")


def standing(fleet: Fleet) -> list[tuple[str, str, int]]:
    """Name, state and replicas that are up, as the worker's record has them."""
    records = Records(fleet.client, fleet.keys).records()
    return [(it.name, it.word, it.up) for it in records[0].services] if records else []


def test_edits_swap_services_through_the_reconciler(fleet: Fleet) -> None:
    folder = fleet.tree.app("app", NIGHTLY, head=SLEEPER)
    fleet.tree.app("other", NIGHTLY, head=services("name: api, command: [sleep, '600']"))
    worker = fleet.start("--debounce", "10ms")
    pids = [worker.await_told("service-started", app="app", replica=index)["pid"] for index in (0, 1)]
    worker.await_told("service-up", app="app", count=2)
    await_true(lambda: standing(fleet) == [("app/web", "up", 2), ("other/api", "up", 1)], "the record does not say it")
    # An edit of a schedule alone restarts nothing, and a broken template leaves what runs.
    fleet.tree.app("app", NIGHTLY.replace("0 3", "5 3"), head=SLEEPER)
    worker.await_told("app-loaded", app="app", changed=1)
    replace_file(folder / "template.yaml", "runtime: [\n")
    worker.await_told("app-broken", app="app")
    assert all(is_running(pid) for pid in pids)
    # Without the service the app goes on, and the service ends.
    fleet.tree.app("app", NIGHTLY)
    worker.await_told("service-stopped", app="app", count=2, reason="it is not in the template any more")
    assert not any(is_running(pid) for pid in pids)
    assert worker.told("service-stopped", app="other") == [] and worker.told("service-ended") == []


def test_a_killed_worker_leaves_no_process_of_its_services(fleet: Fleet) -> None:
    folder = fleet.tree.app("app", head="services:\n  - {name: web, entrypoint: web.py}")
    (folder / "web.py").write_text(FAMILY)
    worker = fleet.start()
    line = worker.await_told("output", label="app/web.0")["line"]
    family = [int(word) for word in line.split()[1:]]
    assert all(is_running(pid) for pid in family)
    worker.kill()
    await_true(lambda: not any(is_running(pid) for pid in family), f"{family} outlive their worker", within_s=5)


def test_a_drain_ends_services_after_the_handlers(fleet: Fleet) -> None:
    fleet.tree.app(
        "app", events="- {handler: jobs.on_slow_event, pattern: {kind: [slow]}}", head=SLEEPER, env='TAKES: "0.7"'
    )
    worker = fleet.start()
    worker.await_told("service-up", count=2)
    fleet.emit(kind="slow")
    worker.await_told("run-started")
    assert worker.stop() == 0
    order = [fact["event"] for fact in worker.facts]
    assert order.index("draining") < order.index("run-ended") < order.index("service-stopped")
    assert {fact["reason"] for fact in worker.told("service-stopped")} == {"the worker is stopping"}
    assert not any(is_running(fact["pid"]) for fact in worker.told("service-started"))
    assert order[-1] == "stopped"


def test_chatter_of_a_service_does_not_delay_ticks(fleet: Fleet) -> None:
    folder = fleet.tree.app(
        "app", "- {name: tick, handler: jobs.run, every: 1s}", head=services("name: web, entrypoint: web.py")
    )
    (folder / "web.py").write_text(
        "import time\nat = time.monotonic()\n"
        "for number in range(10**9):\n    print('line', number, 'x' * 60)\n"
        "    at += 0.001\n    time.sleep(max(0.0, at - time.monotonic()))\n"
    )
    worker = fleet.start()
    worker.await_told("output", label="app/web.0", count=600)
    worker.await_told("published", count=3)
    late = [fact["late_s"] for fact in worker.told("published")]
    assert sorted(late)[len(late) // 2] < 1, late
    assert worker.stop() == 0


def test_a_worker_for_one_round_starts_no_service(fleet: Fleet) -> None:
    fleet.tree.app("app", NIGHTLY, head=SLEEPER)
    worker = fleet.start("--once", wait=False)
    assert worker.await_exit() == 0
    assert worker.told("worker-started") and worker.told("service-started") == []


def test_status_health_and_figures_show_a_service_that_loops(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.tree.app("app", NIGHTLY, head=services("name: web, command: [sh, -c, 'echo no disk >&2; exit 4']"))
    worker = fleet.start("--http", "127.0.0.1:0")
    worker.await_told("service-crash-loop", reason="exit code 4: no disk")
    place = ("--apps", str(fleet.tree.root), "--state-dir", str(fleet.root / "state-0"))
    await_true(lambda: standing(fleet) == [("app/web", "looping", 0)], "the record does not say it")
    told = inside(capsys, "status", "--redis", fleet.url, *place)
    assert told.code == 0 and "Services  0 of 1 replica up" in told.out
    assert "app/web" in told.out and "looping" in told.out and "exit code 4: no disk (" in told.out
    health = inside(capsys, "health", "--format", "json", *place)
    [report] = json.loads(health.out)["workers"]
    [check] = [check for check in report["checks"] if check["name"] == "services"]
    assert health.code == 0 and check["weight"] == "note" and not check["is_ok"]
    assert check["reason"].startswith("app/web is looping, 0 of 1 up: exit code 4: no disk (")
    with urllib.request.urlopen(f"http://{report['http']}/metrics", timeout=5) as answer:
        page = answer.read().decode()
    assert 'relay_service_up{app="app",service="web"} 0.0' in page
    assert 'relay_service_wanted{app="app",service="web"} 1.0' in page
