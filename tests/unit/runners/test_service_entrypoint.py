"""The command line of a service: which interpreter, which file, which program, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from relayctl.core.model import Resources, Service
from relayctl.core.names import ServiceName
from relayctl.runners.build import Build
from relayctl.runners.entrypoint import launch_of
from relayctl.runners.runner import CannotLaunch


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def command(tmp_path: Path, runtime: str = "", memory: int | None = None, **service: object) -> list[str]:
    """What the shim is asked to become, with `tmp_path/bin` as PATH; the app is `tmp_path/app`."""
    build = Build(
        app="app",
        revision="r",
        directory=tmp_path / "app",
        runtime=runtime,
        resources=Resources(memory=memory),
    )
    made = Service(name=ServiceName("web"), **service)  # type: ignore[arg-type]
    launch = launch_of(build, made, {"PATH": str(tmp_path / "bin")})
    assert launch.argv[launch.channel_at + 1] == str(memory or 0)
    return [launch.argv[launch.channel_at - 1], *launch.argv[launch.channel_at + 2 :]]


def test_an_entrypoint_is_run_by_its_runtime(tmp_path: Path) -> None:
    file = program(tmp_path / "app" / "web" / "main")
    for name in ("node", "python3.99"):
        program(tmp_path / "bin" / name)
    entry = {"entrypoint": "web/main"}
    assert command(tmp_path, "python", **entry) == [sys.executable, "-B", "-u", str(file)]
    assert command(tmp_path, "python3.99", **entry) == [str(tmp_path / "bin" / "python3.99"), "-B", "-u", str(file)]
    assert command(tmp_path, "node", memory=1 << 20, **entry) == [str(tmp_path / "bin" / "node"), str(file)]
    assert command(tmp_path, "exec", **entry) == [str(file)]


def test_a_command_is_sought_on_path_in_the_app_or_on_the_host(tmp_path: Path) -> None:
    found = program(tmp_path / "bin" / "serve")
    own = program(tmp_path / "app" / "bin" / "serve")
    assert command(tmp_path, command=("serve", "--port", "$PORT")) == [str(found), "--port", "$PORT"]
    assert command(tmp_path, command=("./bin/serve",)) == [str(own)]
    assert command(tmp_path, command=(str(found), "x")) == [str(found), "x"]


@pytest.mark.parametrize(
    ("runtime", "service", "reason"),
    [
        ("python", {"entrypoint": "gone.py"}, "app app has no file gone.py"),
        ("python", {"entrypoint": "../out.py"}, "../out.py lies outside its app"),
        ("exec", {"entrypoint": "plain"}, "plain is not executable; chmod +x it"),
        ("node", {"entrypoint": "plain"}, "node is not on the PATH that the service is given"),
        ("", {"command": ("serve",)}, "serve is not on the PATH that the service is given"),
        ("", {"command": ("./plain",)}, "program ./plain is not executable; chmod +x it"),
        ("", {"command": ("./../out.py",)}, "./../out.py lies outside its app"),
        ("", {"command": ("/no/such/program",)}, "there is no program /no/such/program on this machine"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_reason(
    tmp_path: Path, runtime: str, service: dict[str, object], reason: str
) -> None:
    program(tmp_path / "app" / "plain", 0o644)
    program(tmp_path / "out.py")
    (tmp_path / "bin").mkdir()
    with pytest.raises(CannotLaunch) as refused:
        command(tmp_path, runtime, **service)
    assert str(refused.value) == reason
