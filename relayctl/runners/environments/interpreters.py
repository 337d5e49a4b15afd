"""The interpreters that environments are made with, and what tells two of them apart. Each is asked once."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_ASK_WITHIN_S = 20.0
_ASK_PYTHON = (
    "import os, platform, sys, sysconfig\n"
    "own = os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable)\n"
    "print(sys.implementation.name, platform.python_version(), sysconfig.get_platform(),"
    " sysconfig.get_config_var('SOABI'), own)"
)
_ASK_NODE = "console.log(process.version, process.versions.modules, process.platform, process.arch, process.execPath)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """`path` is what to start; `identity` says version, binary interface, platform and where it really lies."""

    path: Path
    identity: str


class Interpreters:
    """Looks them up on the PATH of the handlers. Used by one thread."""

    def __init__(self, base: Mapping[str, str]) -> None:
        self._base = dict(base)
        self._known: dict[tuple[str, int, str], Interpreter | None] = {}

    def python(self, runtime: str, directory: Path) -> Interpreter | None:
        """That of `pythonX.Y`, or the worker's own for any other runtime; None where it is not here."""
        if not runtime.startswith("python") or runtime == "python":
            return _own()
        # A shim of a version manager may answer differently for each directory.
        return self._asked(runtime, ("-I", "-S", "-c", _ASK_PYTHON), directory)

    def node(self, directory: Path) -> Interpreter | None:
        """Node, or None where it is not here."""
        return self._asked("node", ("-e", _ASK_NODE), directory)

    def _asked(self, program: str, arguments: Sequence[str], directory: Path) -> Interpreter | None:
        found = shutil.which(program, path=self._base.get("PATH"))
        if found is None:
            return None
        try:
            key = (found, Path(found).stat().st_mtime_ns, str(directory))
        except OSError:
            return None
        if key not in self._known:
            identity = self._ask(found, arguments, directory)
            self._known[key] = Interpreter(path=Path(found), identity=identity) if identity else None
        return self._known[key]

    def _ask(self, program: str, arguments: Sequence[str], directory: Path) -> str:
        try:
            done = subprocess.run(
                [program, *arguments],
                cwd=directory,
                env=self._base,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ASK_WITHIN_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def _own() -> Interpreter:
    parts = (
        sys.implementation.name,
        platform.python_version(),
        sysconfig.get_platform(),
        str(sysconfig.get_config_var("SOABI")),
        os.path.realpath(sys.executable),
    )
    return Interpreter(path=Path(sys.executable), identity=" ".join(parts))
