"""The worker's side of the guard: a small process that notices a killed worker and clears up behind it.

The kernel ends the children themselves with their worker; the guard is for what they had started.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PROGRAM = Path(__file__).parent / "child" / "last_guard.py"


class Guard:
    """Started on first need and once; without /proc there is none."""

    def __init__(self, marking: str, environ: Mapping[str, str], groups: str = "") -> None:
        """`marking` is in the environment of all that it looks for, `groups` what their control groups begin with."""
        self._arguments = (marking, groups)
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_wanted = Path("/proc/self/environ").exists()

    @property
    def pid(self) -> int | None:
        """The guard's process, once there is one."""
        return self._process.pid if self._process is not None else None

    def ensure(self) -> None:
        """Start it where it is missing. That it cannot be started is no reason to run nothing."""
        if not self._is_wanted:
            return
        self._is_wanted = False
        argv = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), *self._arguments]
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=self._environ,
                start_new_session=True,
            )
        except OSError:
            return

    def close(self) -> None:
        """All is well: let it go, and wait for that."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        try:
            os.write(process.stdin.fileno(), b".")
        except OSError:
            pass
        process.stdin.close()
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
