"""A built environment as processes see it: which interpreter, which variables. A value; nothing is looked up here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the dependencies of an app were installed into. `key` is the digest of all that it was made from."""

    key: str
    directory: Path
    is_node: bool = False

    @property
    def python(self) -> Path | None:
        """The interpreter that finds what is installed here, or None where that is not Python's."""
        return None if self.is_node else self.directory / "bin" / "python"

    def variables(self, path: str) -> dict[str, str]:
        """What a process needs to find it; `path` is the PATH that it would have otherwise."""
        if self.is_node:
            modules = self.directory / "node_modules"
            return {"PATH": f"{modules / '.bin'}{os.pathsep}{path}", "NODE_PATH": str(modules)}
        return {"PATH": f"{self.directory / 'bin'}{os.pathsep}{path}", "VIRTUAL_ENV": str(self.directory)}
