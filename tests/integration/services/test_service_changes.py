"""Services across edits: what did not change keeps its process, what did is replaced one by one."""

from __future__ import annotations

import os
import threading

import pytest
from service_stage import NAPPER, SERVER, ServiceStage, free_port
from support.broker import await_fact, is_running

from relayctl.core import service as rules


def template(more: str = "", *, replicas: int = 1, head: str = "") -> str:
    return f"runtime: python\n{head}services:\n  - {{name: web, entrypoint: web.py, replicas: {replicas}{more}}}\n"


def test_edits_that_are_about_something_else_keep_the_process(stage: ServiceStage) -> None:
    stage.app("app", template(), {"web.py": NAPPER})
    before = stage.await_up()
    stage.app("app", template(head="# a remark\nconcurrency: 7\n") + "  - {name: other, entrypoint: web.py}\n")
    stage.await_up("app/other")
    stage.app("two", template(), {"web.py": NAPPER})
    stage.await_up("two/web")
    stage.deploy()
    # More replicas add to those that run, fewer take the last ones away.
    stage.app("app", template(replicas=3))
    await_fact(lambda: len(stage.await_up()) == 3, "it does not grow")
    grown = stage.pids()
    assert grown[0] == before[0]
    stage.app("app", template(replicas=1))
    stage.await_told("service-stopped", count=2, service="web", reason="fewer replicas are wanted")
    assert is_running(before[0]) and not is_running(grown[1]) and not is_running(grown[2])
    assert stage.told("service-ended") == [] and stage.told("service-replaced") == []


def test_new_code_and_new_settings_replace_one_replica_after_the_other(stage: ServiceStage) -> None:
    port = free_port(3)
    more = f", port: {port}, check: {{path: /, interval: 50ms}}"
    stage.app("app", template(more, replicas=3), {"web.py": SERVER})
    before = stage.await_up()
    fewest, is_over = [3], threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            standing = stage.standing()
            fewest.append(3 if standing is None else standing.up)
            is_over.wait(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    stage.app("app", template(more, replicas=3), {"web.py": SERVER + "\n# new\n"})
    stage.await_told("service-replaced")
    is_over.set()
    watcher.join()
    after = stage.await_up()
    assert set(before).isdisjoint(after) and not any(is_running(pid) for pid in before)
    assert min(fewest) >= 2
    order = [fact for fact in stage.facts if fact.event in {"service-stopped", "service-up"}]
    assert [fact.event for fact in order[3:]] == ["service-stopped", "service-up"] * 3
    stage.app("app", template(more, replicas=3, head="env: {A: b}\n"))
    stage.await_told("service-replaced", count=2)


def test_a_new_definition_that_does_not_come_up_leaves_the_others_alone(
    stage: ServiceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than an interpreter takes to come to its first line, also on a busy machine.
    monkeypatch.setattr(rules, "SETTLED_AFTER_S", 0.8)
    stage.app("app", template(replicas=2), {"web.py": NAPPER})
    before = stage.await_up()
    stage.app("app", template(replicas=2), {"web.py": "raise SystemExit('no database')"})
    held = stage.await_told("service-held")
    assert held["old"] == 1 and held["reason"] == "exit code 1: no database"
    standing = stage.standing()
    assert standing is not None
    assert (standing.up, standing.old, standing.wanted) == (1, 1, 2)
    assert "1 of the definition before goes on until the new one is up" in standing.detail
    assert [is_running(pid) for pid in before] == [False, True]
    monkeypatch.setattr(rules, "SETTLED_AFTER_S", 0.1)
    stage.app("app", template(replicas=2), {"web.py": NAPPER + "# mended\n"})
    stage.await_told("service-replaced")
    assert not any(is_running(pid) for pid in before)


def test_a_change_that_cannot_be_started_costs_no_replica(stage: ServiceStage) -> None:
    port = free_port()
    stage.app("app", template(), {"web.py": NAPPER})
    stage.app("holder", template(f", port: {port}"), {"web.py": SERVER})
    (pid,) = stage.await_up()
    stage.await_line("holder/web.0", "listening")
    stage.app("app", template(f", port: {port}"))
    reason = f"port {port} is taken by holder/web.0 of this worker"
    assert stage.await_told("service-not-started", app="app")["reason"] == reason
    held = stage.await_told("service-held", app="app")
    assert held["old"] == 1 and held["reason"] == reason
    stage.app("app", template(head="secrets: {TOKEN: token}\n"))
    stage.await_told("service-not-started", app="app", reason="secret token is not set; relayctl secret set token")
    assert is_running(pid) and stage.told("service-stopped") == []
    standing = stage.standing()
    assert standing is not None and (standing.up, standing.old) == (1, 1) and "is not set" in standing.detail
    stage.secrets["token"] = "s3cret-token"
    stage.await_told("service-replaced", app="app")


def test_ports_that_move_by_one_are_handed_over(stage: ServiceStage) -> None:
    port = free_port(3)
    check = ", check: {path: /, interval: 50ms}"
    stage.app("app", template(f", port: {port}{check}", replicas=2), {"web.py": SERVER})
    stage.await_up()
    for first in (port + 1, port):
        stage.app("app", template(f", port: {first}{check}", replicas=2))
        await_fact(lambda first=first: _ports(stage) == [first, first + 1], "the ports do not move")
        stage.await_up()
    assert stage.told("service-not-started") == [] and stage.told("service-ended") == []


def _ports(stage: ServiceStage) -> list[int]:
    latest = {fact["replica"]: fact["port"] for fact in stage.told("service-started")}
    return [latest[index] for index in sorted(latest)]


def test_many_services_start_a_few_at_a_time(stage: ServiceStage) -> None:
    rows = "".join(f"  - {{name: s{number}, command: [sleep, '600']}}\n" for number in range(24))
    stage.app("app", f"services:\n{rows}")
    await_fact(lambda: len(stage.services.standings) == 24, "not all are known")
    await_fact(lambda: all(it.is_well for it in stage.services.standings), "not all are up", 30.0)
    assert len(stage.told("service-started")) == 24
    stage.stop()
    assert not any(is_running(fact["pid"]) for fact in stage.told("service-started"))


def test_the_loop_survives_a_failure_of_its_own(stage: ServiceStage) -> None:
    stage.app("app", template(), {"web.py": NAPPER})
    before = stage.await_up()
    broken = dict(stage.live)
    broken["bad"] = object()  # type: ignore[assignment]  # what no reconciler hands over
    stage.services.deploy(broken)
    stage.await_told("loop-failed")
    stage.app("two", template(), {"web.py": NAPPER})
    stage.await_up("two/web")
    assert stage.pids() == before and is_running(before[0])
    assert os.getsid(before[0]) == before[0]
