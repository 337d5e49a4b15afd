"""A `uv` that makes environments at once from a list of names: what a build does to the worker, without installing.

`requirements.txt` says how it goes: `wait` waits for the file `go` in the folder of the program, `fail TEXT` prints TEXT
and fails, `stray` leaves a process behind that has left its session, anything else succeeds. It notes each run.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """#!/bin/sh
here={here}
if [ "$1" = venv ]; then
  for place; do :; done
  mkdir -p "$place/bin" && ln -s {python} "$place/bin/python"
  exit
fi
echo "$$ $UV_INDEX_URL" >> "$here/runs"
while read -r word rest; do
  case "$word" in
    wait) until [ -e "$here/go" ]; do sleep 0.01; done ;;
    fail) echo "$rest" >&2; exit 1 ;;
    stray) setsid sleep 60 & echo $! >> "$here/strays" ;;
  esac
done < requirements.txt
"""


class FakeUv:
    """The program in a folder of its own; `environ` finds it before any other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "uv"
        program.write_text(_PROGRAM.format(here=folder, python=sys.executable))
        program.chmod(0o755)
        self.environ = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def go(self) -> None:
        """Let those go on that wait."""
        (self.folder / "go").touch()

    def noted(self, name: str) -> list[str]:
        """The lines of `runs` (pid and index) or `strays` (pids)."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []
