"""Processes that work on one job in turn, driven from a test step by step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("cycle_process.py")


class Actor:
    """One such process. Every call waits for its answer, which comes at once: it never waits for others."""

    def __init__(self, capacity: int = 1) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(capacity)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """Dead, and buried: what it held is free."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
