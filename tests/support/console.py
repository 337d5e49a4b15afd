"""The command line as a user runs it: a process, its two streams, its exit code, and an environment that says nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(sys.executable).parent / "relayctl"
AT = "2026-09-29T10:15:00Z"


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def relayctl(
    *arguments: str,
    cwd: Path = ROOT,
    environ: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 90,
) -> Answer:
    """Run the installed program to its end."""
    done = subprocess.run(
        command(*arguments), cwd=cwd, env=plain(environ), input=stdin, capture_output=True, timeout=timeout
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def inside(capsys: pytest.CaptureFixture[str], *arguments: str) -> Answer:
    """Run a command line in this process: the same answer without an interpreter's start."""
    from relayctl.cli.app import run

    capsys.readouterr()
    code = run(arguments)
    said = capsys.readouterr()
    return Answer(code, said.out, said.err)


def command(*arguments: str) -> Sequence[str]:
    return [str(PROGRAM), *arguments]


def plain(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """A terminal of 100 columns, UTF-8, no colour; whatever the developer has set stays out."""
    path = f"{PROGRAM.parent}:/usr/bin:/bin"
    return {"PATH": path, "LANG": "C.UTF-8", "COLUMNS": "100", "NO_COLOR": "1", "HOME": str(ROOT)} | dict(environ or {})
