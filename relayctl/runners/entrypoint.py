"""The command line of a service: an interpreter and a file of the app, or the program that the template names.

Looked up at each start, so a program that is installed later is found by the next try. Nothing is run here.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from relayctl.core.model import Service
from relayctl.runners.build import Build
from relayctl.runners.limits import data_limit
from relayctl.runners.runner import CannotLaunch, Launch

_SHIM = Path(__file__).parent / "child" / "exec_shim.py"
# Unbuffered, or what it prints is seen only when a buffer is full.
_PYTHON_FLAGS = ("-B", "-u")


def launch_of(build: Build, service: Service, environ: Mapping[str, str]) -> Launch:
    """How a replica is started; programs are sought on the PATH of its own environment. Raises CannotLaunch."""
    command = _command(build, service, environ)
    shim = (sys.executable, "-I", "-S", "-B", str(_SHIM), command[0])
    return Launch(argv=(*shim, str(os.getpid()), str(data_limit(build.resources)), *command[1:]), channel_at=len(shim))


def _command(build: Build, service: Service, environ: Mapping[str, str]) -> tuple[str, ...]:
    if service.command is not None:
        program, *arguments = service.command
        return (_program(build, program, environ), *arguments)
    file = _file(build, service.entrypoint or "")
    if build.runtime == "exec":
        if not os.access(file, os.X_OK):
            raise CannotLaunch(f"{service.entrypoint} is not executable; chmod +x it")
        return (str(file),)
    if build.runtime.startswith("python") and build.environment is not None and build.environment.python is not None:
        return (str(build.environment.python), *_PYTHON_FLAGS, str(file))
    if build.runtime == "python":
        return (sys.executable, *_PYTHON_FLAGS, str(file))
    flags = _PYTHON_FLAGS if build.runtime.startswith("python") else ()
    return (_on_path(build.runtime, environ), *flags, str(file))


def _file(build: Build, name: str) -> Path:
    root = build.directory.resolve()
    file = root / name
    if not file.resolve().is_relative_to(root):
        raise CannotLaunch(f"{name} lies outside its app")
    if not file.is_file():
        raise CannotLaunch(f"app {build.app} has no file {name}")
    return file


def _program(build: Build, name: str, environ: Mapping[str, str]) -> str:
    """A name without a slash is sought on PATH, a relative one is a file of the app, an absolute one is of the host."""
    if "/" not in name:
        return _on_path(name, environ)
    file = Path(name) if name.startswith("/") else _file(build, name)
    if not file.is_file():
        raise CannotLaunch(f"there is no program {name} on this machine")
    if not os.access(file, os.X_OK):
        raise CannotLaunch(f"program {name} is not executable; chmod +x it")
    return str(file)


def _on_path(name: str, environ: Mapping[str, str]) -> str:
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is None:
        raise CannotLaunch(f"{name} is not on the PATH that the service is given")
    return os.path.abspath(found)  # noqa: PTH100 - a link must stay one: busybox goes by its name
