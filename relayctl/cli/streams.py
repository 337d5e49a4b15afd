"""The two output streams of the process, made unable to fail on a character and quiet once their reader is gone."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path


def prepare_streams() -> None:
    """No character may end a command: what a stream cannot encode is escaped. What was closed leads nowhere."""
    _hold_places()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _hold_places() -> None:
    # Who closes a stream leaves its number to the next file or connection, which would get what others print there.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w" if number else "r", encoding="utf-8"))  # noqa: SIM115


def silence_closed() -> None:
    """What is buffered for a reader or terminal that is gone must not complain again when the interpreter ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
