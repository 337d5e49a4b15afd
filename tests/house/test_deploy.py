"""The files under docs/deploy name what exists: manifests fit their schemas, and flags, variables, probes and metrics are real."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from relayctl.core.duration import parse_duration
from relayctl.runners.service import GRACE_S
from relayctl.settings import SETTINGS
from relayctl.worker.metrics import COUNTERS
from tests.support.console import PROGRAM, ROOT, inside

DEPLOY = ROOT / "docs" / "deploy"
FILES = sorted(path for path in DEPLOY.iterdir() if path.is_file())
BIN = Path(sys.executable).parent
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
LEAST_STOP_S = parse_duration(SETTINGS["drain"].default or "").total_seconds() + GRACE_S


def _read(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def _documents(name: str) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(_read(name)))


def _workers_of_kubernetes() -> dict[str, Any]:
    [found] = [document for document in _documents("kubernetes.yaml") if document["kind"] == "StatefulSet"]
    return dict(found["spec"]["template"]["spec"])


@pytest.mark.parametrize(
    "command",
    [
        [BIN / "kubernetes-validate", "--strict", "--quiet", DEPLOY / "kubernetes.yaml"],
        [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"],
    ],
    ids=["kubernetes", "compose"],
)
def test_a_manifest_fits_its_schema(command: list[Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = _read("relayctl.service")
    assert "ExecStart=/opt/relayctl/bin/relayctl " in text
    unit = tmp_path / "relayctl.service"
    unit.write_text(text.replace("/opt/relayctl/bin/relayctl", str(PROGRAM)), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_stops_only_the_worker_and_waits_for_its_drain() -> None:
    unit = dict(line.split("=", 1) for line in _read("relayctl.service").splitlines() if "=" in line)
    assert unit["KillMode"] == "mixed"
    assert (unit["Restart"], unit["StartLimitIntervalSec"]) == ("always", "0"), "it would not wait for a late broker"
    assert int(unit["TimeoutStopSec"]) > LEAST_STOP_S


def test_containers_wait_for_the_drain() -> None:
    assert _workers_of_kubernetes()["terminationGracePeriodSeconds"] > LEAST_STOP_S
    services = _documents("compose.yaml")[0]["services"]
    workers = [service for name, service in services.items() if name.startswith("worker")]
    assert len(workers) == 2
    for worker in workers:
        assert parse_duration(worker["stop_grace_period"]).total_seconds() > LEAST_STOP_S


def test_each_worker_has_a_state_directory_of_its_own() -> None:
    where = re.search(r"RELAYCTL_STATE_DIR=(\S+)", _read("Dockerfile"))
    assert where is not None
    services = _documents("compose.yaml")[0]["services"]
    kept = [mount for service in services.values() for mount in service["volumes"] if mount.endswith(f":{where[1]}")]
    assert len(kept) == len(set(kept)) == 2
    [container] = _workers_of_kubernetes()["containers"]
    assert where[1] in {mount["mountPath"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    known = {setting.variable for setting in SETTINGS.values()}
    assert set(re.findall(r"\bRELAYCTL_[A-Z_]+\b", path.read_text(encoding="utf-8"))) <= known


def _serve_flags() -> dict[str, list[str]]:
    [container] = _workers_of_kubernetes()["containers"]
    services = _documents("compose.yaml")[0]["services"]
    started = re.search(r"^ExecStart=\S+ (.*)$", _read("relayctl.service"), re.MULTILINE)
    default = re.search(r"^CMD \[(.*)\]$", _read("Dockerfile"), re.MULTILINE)
    assert started is not None and default is not None
    return {
        "kubernetes": container["args"],
        "compose": services["worker-1"]["command"],
        "systemd": started[1].split(),
        "image": re.findall(r'"([^"]*)"', default[1]),
    }


def test_every_command_line_is_one_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    usage = inside(capsys, "serve", "--help").out
    for place, (verb, *rest) in _serve_flags().items():
        assert verb == "serve", place
        for flag in rest:
            assert not flag.startswith("--") or re.search(rf"{flag}\b", usage), f"{place}: {flag}"


def test_probes_ask_what_is_served() -> None:
    [container] = _workers_of_kubernetes()["containers"]
    port = {item["name"]: item["containerPort"] for item in container["ports"]}
    listens = re.search(r"RELAYCTL_HTTP=\S+:([0-9]+)", _read("Dockerfile"))
    assert listens is not None
    for name, probe in (("livenessProbe", "/livez"), ("startupProbe", "/livez"), ("readinessProbe", "/readyz")):
        asked = container[name]["httpGet"]
        assert asked["path"] == probe and f"| `{probe}` |" in OPERATIONS
        assert port[asked["port"]] == int(listens[1])


def _metrics() -> dict[str, set[str]]:
    """Every documented metric with its labels; those of the counters are the program's own."""
    rows = re.findall(r"^\| `(relay_[a-z_]+)` \| ([^|]*) \|", OPERATIONS, re.MULTILINE)
    found: dict[str, set[str]] = {}
    for name, labels in rows:
        found.setdefault(name, set()).update(re.findall(r"`([a-z]+)`", labels))
    assert {f"{name}_total" for name, _, _ in COUNTERS} <= set(found)
    return found


def test_alarms_rest_on_metrics_that_exist() -> None:
    metrics = _metrics()
    rules = [rule for group in _documents("alerts.yaml")[0]["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        expression = rule["expr"]
        assert expression.count("(") == expression.count(")"), rule["alert"]
        named = re.findall(r"(relay_[a-z_]+)(?:\{([^}]*)\})?", expression)
        assert named, rule["alert"]
        for name, matchers in named:
            assert name in metrics, f"{rule['alert']}: {name}"
            used = set(re.findall(r"([a-z]+)=~?\"", matchers)) - {"job"}
            assert used <= metrics[name], f"{rule['alert']}: {used - metrics[name]}"
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in {"critical", "warning"}


def test_the_image_has_what_a_worker_calls_for() -> None:
    text = _read("Dockerfile")
    installed = re.search(r"apt-get install [^&]*", text)
    assert installed is not None
    assert {"git", "tini"} <= set(installed[0].split())
    assert "/uv /bin/uv" in text
    assert re.search(r'^ENTRYPOINT \["/usr/bin/tini", "--", "relayctl"\]$', text, re.MULTILINE)
    users = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert users and users[-1] not in {"root", "0"}
    for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for name in copied.split():
            assert (ROOT / name).exists(), name
