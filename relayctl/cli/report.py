"""Writes the report of an internal error to an owner-only file: versions and the stack, no values and no messages."""

from __future__ import annotations

import os
import platform
import tempfile
import traceback

from relayctl import __version__


def write_report(error: BaseException) -> str | None:
    """The path of the report, or None where no file can be written."""
    lines = [f"relayctl {__version__}, Python {platform.python_version()}, {platform.platform()}"]
    cause: BaseException | None = error
    while cause is not None:
        # The text of an exception can repeat what a user typed, a password for instance.
        lines.append(f"\n{type(cause).__module__}.{type(cause).__qualname__}")
        lines.extend(
            f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in traceback.extract_tb(cause.__traceback__)
        )
        cause = cause.__cause__ or cause.__context__
    try:
        handle, path = tempfile.mkstemp(prefix="relayctl-report-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\n".join(lines) + "\n")
    except OSError:
        return None
    return path
