"""How the children of each runtime are launched. A runtime without an answer here is refused, with a reason."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from relayctl.core.model import Isolation
from relayctl.errors import UsageError
from relayctl.runners.build import Build
from relayctl.runners.cgroups import Group
from relayctl.runners.limits import data_limit

_PROGRAMS = Path(__file__).parent / "child"
_OWN_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
_NODE_ROOM = 192 * 1024 * 1024
_VERSIONED = re.compile(r"python\d+(\.\d+)?", re.ASCII)


class CannotLaunch(Exception):
    """A run cannot be launched; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line without the descriptor of the channel, which goes in at index `channel_at`.

    With `is_zygote` it starts a process that forks the children, and no child.
    """

    argv: tuple[str, ...]
    channel_at: int
    is_zygote: bool = False

    def within(self, group: Group | None, *, keeps_memory: bool) -> Launch:
        """The same, and the process first enters `group`; one that `keeps_memory` takes the place of a data limit."""
        if group is None:
            return self
        at = self.channel_at + 1  # after the worker's pid, in every program of ours
        limit = "0" if keeps_memory else self.argv[at]
        return replace(self, argv=(*self.argv[:at], f"{limit}:{group.path}", *self.argv[at + 1 :]))


class Runner(Protocol):
    """What the pool asks of a runtime. A warm one has children that wait for runs; a cold one is launched for each."""

    is_warm: bool
    is_single_use: bool

    def launch(self, handler: str, *, is_preloading: bool) -> Launch:
        """The command line of a child; `handler` matters to a cold runner only. Raises CannotLaunch."""
        ...


class PythonRunner:
    """Children that keep the app's modules loaded. The app's directory is first on their path."""

    is_warm = True

    def __init__(self, build: Build, interpreter: str) -> None:
        self._build = build
        self._interpreter = interpreter
        self.is_single_use = build.isolation is Isolation.FRESH
        # Elsewhere a fork of a process that has used the system's frameworks is not safe: there a child that is used
        # once keeps the promise of `isolation: fresh`, at the price of an interpreter's start.
        self._is_forking = self.is_single_use and sys.platform == "linux"

    def launch(self, handler: str, *, is_preloading: bool) -> Launch:  # noqa: ARG002 - for other runners
        build = self._build
        program = (self._interpreter, "-B", str(_PROGRAMS / "python_child.py"), str(build.directory))
        mode = ("--fork",) if self._is_forking else ()
        handlers = build.handlers if is_preloading else ()
        rest = (str(os.getpid()), str(data_limit(build.resources)), *mode, *handlers)
        return Launch(argv=(*program, *rest), channel_at=len(program), is_zygote=self._is_forking)


class NodeRunner:
    """Children that keep the app's modules loaded, in the node of the worker's PATH."""

    is_warm = True

    def __init__(self, build: Build, node: str) -> None:
        self._build = build
        self._node = node
        self.is_single_use = build.isolation is Isolation.FRESH

    def launch(self, handler: str, *, is_preloading: bool) -> Launch:  # noqa: ARG002 - for other runners
        build = self._build
        program = (sys.executable, "-I", "-S", "-B", str(_PROGRAMS / "node_start.py"), self._node)
        limit = data_limit(build.resources)
        # So that it ends with node's own words, and not in the middle of something.
        options = (f"--max-old-space-size={limit >> 20}",) if limit else ()
        own = (str(len(options)), *options, str(_PROGRAMS / "node_child.cjs"), str(build.directory))
        rest = (str(os.getpid()), str(_with_room(limit)), *own, *(build.handlers if is_preloading else ()))
        return Launch(argv=(*program, *rest), channel_at=len(program))


class ExecRunner:
    """A program of the app per run: no shell, no arguments, the event on standard input."""

    is_warm = False
    is_single_use = True

    def __init__(self, build: Build) -> None:
        self._build = build

    def launch(self, handler: str, *, is_preloading: bool) -> Launch:  # noqa: ARG002 - for other runners
        program = self._program(handler)
        shim = (sys.executable, "-I", "-S", "-B", str(_PROGRAMS / "exec_shim.py"), str(program))
        return Launch(argv=(*shim, str(os.getpid()), str(data_limit(self._build.resources))), channel_at=len(shim))

    def _program(self, handler: str) -> Path:
        root = self._build.directory.resolve()
        program = root / handler
        if not program.resolve().is_relative_to(root):
            raise CannotLaunch(f"program {handler} lies outside its app")
        if not program.is_file():
            raise CannotLaunch(f"app {self._build.app} has no program {handler}")
        if not os.access(program, os.X_OK):
            raise CannotLaunch(f"program {handler} is not executable; chmod +x it")
        return program


def _with_room(limit: int) -> int:
    """A data limit that leaves node its own threads and tables beside what the handlers keep."""
    return limit + _NODE_ROOM if limit else 0


def runner_for(build: Build, base: Mapping[str, str]) -> Runner:
    """The runner of a build's runtime. Raises UsageError for one that this worker cannot run."""
    if build.runtime.startswith("python") and build.environment is not None and build.environment.python is not None:
        return PythonRunner(build, str(build.environment.python))
    if build.runtime == "python":
        return PythonRunner(build, sys.executable)
    if build.runtime == "exec":
        return ExecRunner(build)
    if build.runtime == "node":
        node = shutil.which("node", path=base.get("PATH"))
        if node is None:
            raise UsageError(
                f"app {build.app} wants node, which is not on this worker's PATH", help="install node 18 or later"
            )
        return NodeRunner(build, node)
    if _VERSIONED.fullmatch(build.runtime):
        found = shutil.which(build.runtime, path=base.get("PATH"))
        if found is None:
            raise UsageError(
                f"app {build.app} wants {build.runtime}, which is not on this worker's PATH",
                help=f"install {build.runtime}, or use `runtime: python`, which is {_OWN_VERSION} here",
            )
        return PythonRunner(build, found)
    if not build.runtime:
        raise UsageError(f"app {build.app} declares no runtime", help="add `runtime: python` to its template")
    raise UsageError(
        f"app {build.app} wants runtime {build.runtime!r}, which this worker cannot run",
        help="use python, pythonX.Y, node or exec",
    )
