"""The two output streams of the process, made unable to fail on a character and quiet once their reader is gone."""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """No character may end a command: what a stream cannot encode is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def silence_closed() -> None:
    """What is buffered for a reader or terminal that is gone must not complain again when the interpreter ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
