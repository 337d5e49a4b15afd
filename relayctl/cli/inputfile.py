"""What a user hands over in a file or on stdin, read up to a size. It does not know what is in it."""

from __future__ import annotations

import sys
from pathlib import Path

from relayctl.errors import UsageError, os_reason


def name_of(source: Path) -> str:
    """What messages call it; `-` is stdin."""
    return "stdin" if str(source) == "-" else str(source)


def read_bounded(source: Path, most: int, *, size: str, way_out: str) -> bytes:
    """All of it. UsageError where it cannot be read, or holds more than `most` bytes, which `size` puts into words."""
    name = name_of(source)
    try:
        if name == "stdin":
            raw = sys.stdin.buffer.read(most + 1)
        else:
            with source.open("rb") as file:
                raw = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {os_reason(error)}") from None
    if len(raw) > most:
        raise UsageError(f"{name}: larger than {size}", help=way_out)
    return raw
