"""Services in control groups of the real kernel."""

from __future__ import annotations

from pathlib import Path

from service_stage import ServiceStage
from support.broker import await_fact, is_running
from support.kernelgroup import KillingOnly, group_of_test

SERVER = """
import subprocess, time

grandchild = ["env", "-i", "sleep", "600"]
print("started", subprocess.Popen(grandchild, start_new_session=True, stdout=subprocess.DEVNULL).pid)
print("in", *[line[3:].strip() for line in open("/proc/self/cgroup") if line.startswith("0::")])
time.sleep(600)
"""
TEMPLATE = "runtime: python\nresources: {pids: 20}\nservices:\n  - {name: web, entrypoint: web.py, replicas: 2}\n"


def test_a_stop_takes_whoever_left_session_and_environment(tmp_path: Path) -> None:
    with group_of_test() as root:
        stage = ServiceStage(tmp_path, KillingOnly(root=root))
        try:
            stage.app("app", TEMPLATE, {"web.py": SERVER})
            stage.await_up()
            labels = [f"app/web.{index}" for index in (0, 1)]
            strays = [int(stage.await_line(label, "started").split()[1]) for label in labels]
            groups = {Path(stage.await_line(label, "in ").split()[1]).name for label in labels}
            assert groups == {path.name for path in root.glob("relayctl-*")} and len(groups) == 2
            stage.remove("app")
            await_fact(lambda: not any(map(is_running, strays)), "strays of stopped replicas are there")
        finally:
            stage.stop()
        assert not list(root.glob("relayctl-*"))
