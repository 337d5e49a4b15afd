"""Apps with dependencies of their own in a live worker: installed by the real tools, without any network."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact
from support.fakeuv import FakeUv
from support.fleet import Fleet, ServeProcess
from support.wheel import write_wheel

from relayctl.runners.environ import base_environ

if TYPE_CHECKING:
    from support.console import Answer

NIGHTLY = 'cron: "0 3 29 2 *"'
INDEX = "https://reader:t0psecret@127.0.0.1:1/simple"
JOBS = """
import json, os, sys
import tinydep


def run(event):
    names = [name for name in os.environ if name.startswith(("PIP", "UV", "NPM", "NODE"))]
    note = {"version": tinydep.VERSION, "prefix": sys.prefix, "place": os.environ.get("VIRTUAL_ENV"), "index": names, "tool": os.popen("tinytool").read()}
    with open(os.environ["RUNS"], "a") as file:
        file.write(json.dumps(note | {"what": "run", "at": None}) + "\\n")


def on_event(event):
    pass


def serve():
    while sys.stdin is not None:
        print("serving with", tinydep.VERSION, sys.prefix, flush=True)
        import time
        time.sleep(30)


if __name__ == "__main__":
    serve()
"""


def app(fleet: Fleet, requirements: str, *, head: str = "", trigger: str = "every: 1s") -> Path:
    folder = fleet.tree.app("app", f"- {{name: tick, handler: jobs.run, {trigger}}}", head=head)
    (folder / "jobs.py").write_text(JOBS)
    (folder / "requirements.txt").write_text(requirements)
    return folder


def start(fleet: Fleet, *flags: str, **environ: str) -> ServeProcess:
    """A worker whose environment has an index in it."""
    state = fleet.root / "state"
    arguments = ["serve", "-v", "--apps", str(fleet.tree.root), "--log-format", "json", "--state-dir", str(state)]
    environ = {"PIP_INDEX_URL": INDEX, "UV_DEFAULT_INDEX": INDEX, "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0", **environ}
    worker = ServeProcess([*arguments, "--redis", fleet.url, *flags], environ, fleet.root)
    fleet.workers.append(worker)
    return worker.await_up()


def test_requirements_are_installed_before_the_swap_and_what_cannot_be_leaves_what_runs(
    fleet: Fleet, ask: Callable[..., Answer]
) -> None:
    folder = app(
        fleet, "--no-index\n./tinydep-1.0-py3-none-any.whl\n", head="services: [{name: web, entrypoint: jobs.py}]"
    )
    write_wheel(folder, "tinydep", script="tinytool")
    for name in ("venv.py", "pip.py"):
        (folder / name).write_text("raise SystemExit('taken for the installer')\n")
    worker = start(fleet)
    worker.await_told("environment-built", app="app", file="requirements.txt")
    await_fact(lambda: fleet.tree.runs("run"), "a run with what was installed")
    run = fleet.tree.runs("run")[0]
    assert (run["version"], run["tool"], run["index"], run["place"]) == ("1.0", "1.0\n", [], run["prefix"])
    place = Path(run["prefix"])
    assert place.parent == fleet.root / "state" / "environments"
    worker.await_told("output", label="app/web.0", line=f"serving with 1.0 {place}")

    (folder / "requirements.txt").write_text("--no-index\nno-such-package==7\n")
    failed = worker.await_told("environment-failed", app="app")
    assert "no-such-package" in failed["reason"], "in the words of whichever installer is here"
    assert failed["serves"] == worker.told("app-loaded")[-1]["revision"]
    words = f"app app: building requirements.txt failed: {failed['reason']}; runs its build of {failed['serves']}"

    def shown() -> str:
        answer = ask("status")
        assert answer.code == 0, answer.err
        return " ".join(answer.out.split())

    await_fact(lambda: words in shown(), f"status says that {words}")
    assert f"| {failed['lines'][0]}" in shown()
    [unbuilt] = [
        each for line in json.loads(ask("status", "--format", "json").out)["workers"] for each in line["unbuilt"]
    ]
    assert (unbuilt["app"], unbuilt["reason"]) == ("app", failed["reason"])
    count = len(fleet.tree.runs("run"))
    await_fact(lambda: len(fleet.tree.runs("run")) > count, "a run of the build before")
    assert fleet.tree.runs("run")[-1]["prefix"] == str(place)
    assert "t0psecret" not in json.dumps(worker.facts) + "".join(worker.noise)


def test_a_run_by_hand_installs_first_and_says_so(
    fleet: Fleet, ask: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = FakeUv(tmp_path / "bin")
    (app(fleet, "x\n") / "tinydep.py").write_text("VERSION = 'beside'\n")
    monkeypatch.setenv("PATH", uv.environ["PATH"])
    answers = [ask("invoke", "app/tick", "--local") for _ in range(2)]
    assert [("installing what requirements.txt names" in answer.err, answer.code) for answer in answers] == [
        (True, 0),
        (False, 0),
    ]
    assert Path(fleet.tree.runs("run")[0]["place"]).parent == fleet.root / ".relayctl" / "environments"
    (fleet.tree.root / "app" / "requirements.txt").write_text("fail error: no such thing\n")
    failed = ask("invoke", "app/tick", "--local")
    assert failed.code == 3
    assert "building requirements.txt failed: no such thing\n  | error: no such thing" in failed.err


def test_without_building_an_app_runs_on_what_the_worker_runs_on(fleet: Fleet) -> None:
    folder = app(fleet, "no-such-package\n")
    (folder / "tinydep.py").write_text("VERSION = 'beside'\n")
    worker = start(fleet, "--no-build")
    await_fact(lambda: fleet.tree.runs("run"), "a run")
    assert fleet.tree.runs("run")[0]["version"] == "beside"
    assert worker.told("environment-building") == []
    assert not (fleet.root / "state" / "environments").exists()


@pytest.mark.slow
def test_a_run_that_ends_by_itself_waits_for_what_is_installed(fleet: Fleet, tmp_path: Path) -> None:
    uv = FakeUv(tmp_path / "bin")
    (app(fleet, "wait\n", trigger=NIGHTLY) / "tinydep.py").write_text("VERSION = 'beside'\n")
    worker = start(fleet, "--once", "--drain", "30s", **uv.environ)
    await_fact(lambda: uv.noted("runs"), "a build that has begun")
    assert worker.process.poll() is None
    uv.go()
    assert worker.await_exit() == 0
    worker.await_told("app-loaded", app="app")


@pytest.mark.slow
def test_a_build_ends_with_its_worker_however_that_ends(fleet: Fleet, tmp_path: Path) -> None:
    uv = FakeUv(tmp_path / "bin")
    app(fleet, "stray\nwait\n", trigger=NIGHTLY)
    for number, signals in enumerate(([signal.SIGTERM], [signal.SIGKILL]), 1):
        worker = start(fleet, **uv.environ)
        await_fact(lambda number=number: len(uv.noted("strays")) == number, "a build that has left a process")  # type: ignore[misc]
        pids = [int(uv.noted(name)[-1].split()[0]) for name in ("runs", "strays")]
        for each in signals:
            worker.send(each)
        worker.await_exit()
        await_fact(lambda pids=pids: not any(_is_running(pid) for pid in pids), "the end of all of it")  # type: ignore[misc]
    left = [path.name for path in (fleet.root / "state" / "environments").iterdir()]
    assert [name for name in left if "." not in name], "a killed worker leaves what it was at"
    uv.go()
    third = start(fleet, **uv.environ)
    third.await_told("environment-built")


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_packages_of_node_are_found_by_modules_of_either_kind(fleet: Fleet) -> None:
    folder = fleet.tree.root / "app"
    folder.mkdir(parents=True)
    needs = {}
    for name, files in {
        "one": {"package.json": '{"name": "one", "version": "1.0.0", "main": "i.js"}', "i.js": "exports.V = 'c'"},
        "two": {"package.json": '{"name": "two", "version": "1.0.0", "type": "module", "exports": "./i.js"}',
                "i.js": "import one from 'one'; export const V = 'e' + one.V"},
    }.items():  # fmt: skip
        needs[name] = f"file:{name}.tgz"
        with tarfile.open(folder / f"{name}.tgz", "w:gz") as archive:
            for inner, text in files.items():
                member = tarfile.TarInfo(f"package/{inner}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
    (folder / "package.json").write_text(json.dumps({"name": "app", "version": "1.0.0", "dependencies": needs}))
    subprocess.run(["npm", "install", "--package-lock-only", "--no-audit"], cwd=folder, check=True, env=base_environ())
    (folder / "esm.mjs").write_text(
        "import { V } from 'two'; import one from 'one'; export const run = () => console.log(V + one.V)"
    )
    (folder / "cjs.cjs").write_text(
        "const { V } = require('one'); exports.run = async () => console.log(V + (await import('two')).V)"
    )
    (folder / "template.yaml").write_text(
        "runtime: node\nevents:\n  - {handler: esm.run, pattern: {kind: [now]}}\n  - {handler: cjs.run, pattern: {kind: [now]}}\n"
    )
    worker = start(fleet)
    worker.await_told("environment-built", app="app", file="package-lock.json")
    worker.await_told("app-loaded", app="app")
    fleet.emit(kind="now")
    worker.await_told("output", line="ecc")
    worker.await_told("output", line="cec")
    assert not (folder / "node_modules").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_uv_installs_where_it_is_there(fleet: Fleet) -> None:
    folder = app(fleet, "--no-index\n./tinydep-1.0-py3-none-any.whl\n")
    write_wheel(folder, "tinydep", script="tinytool")
    start(fleet).await_told("environment-built", app="app", file="requirements.txt")
    await_fact(lambda: fleet.tree.runs("run"), "a run with what was installed")
