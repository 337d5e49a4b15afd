"""Where in an app's source a handler stands, found by reading; the app's code is never imported."""

from __future__ import annotations

from pathlib import Path

from relayctl.templates.pysource import read_module


def handler_place(directory: Path, runtime: str | None, handler: str) -> str:
    """`file:line` of a handler, or '' where reading does not tell."""
    if runtime == "exec":
        return f"{(directory / handler).as_posix()}:1"
    if runtime is None or not runtime.startswith("python"):
        return ""
    module, _, name = handler.rpartition(".")
    stem = directory.joinpath(*module.split("."))
    path = next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)
    if path is None:
        return ""
    line = getattr(read_module(path).names.get(name), "lineno", None)
    return path.as_posix() if line is None else f"{path.as_posix()}:{line}"
