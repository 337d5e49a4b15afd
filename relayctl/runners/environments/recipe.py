"""What an app's environment is made from: which lock file, which interpreter, and the one key of both.

Equal keys mean equal environments, so apps and workers on one state directory share them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.runners.environments.references import References, of_package_lock, of_requirements, of_uv_lock

if TYPE_CHECKING:
    from relayctl.runners.environments.interpreters import Interpreters

LAYOUT_VERSION = 1
"""Part of every key: raise it when what is built from the same files would be another."""


class Kind(Enum):
    """By whom an environment is filled, named by the file that says with what."""

    UV = "uv.lock"
    PIP = "requirements.txt"
    NPM = "package-lock.json"


_OF: dict[Kind, Callable[[Path], References]] = {
    Kind.UV: of_uv_lock,
    Kind.PIP: of_requirements,
    Kind.NPM: of_package_lock,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to make one environment from the files in `directory`. Two with one key make the same."""

    kind: Kind
    key: str
    interpreter: Path
    directory: Path
    contents: str
    """What tells the files apart that it was made from."""

    @property
    def file(self) -> str:
        """What people know it by."""
        return self.kind.value


def kind_of(runtime: str, directory: Path) -> Kind | None:
    """Which file says what an app needs, by its runtime; `uv.lock` wins over `requirements.txt`. None where none does.

    Programs and services without a runtime may be of either kind, Python before node.
    """
    kinds: tuple[Kind, ...] = (Kind.UV, Kind.PIP, Kind.NPM)
    if runtime == "node":
        kinds = (Kind.NPM,)
    elif runtime.startswith("python"):
        kinds = (Kind.UV, Kind.PIP)
    return next((kind for kind in kinds if (directory / kind.value).is_file()), None)


def recipe_of(runtime: str, directory: Path, interpreters: Interpreters) -> Recipe | None:
    """The recipe of an app, or None where it needs none, or its interpreter is not here. Raises OSError."""
    kind = kind_of(runtime, directory)
    if kind is None:
        return None
    interpreter = interpreters.node(directory) if kind is Kind.NPM else interpreters.python(runtime, directory)
    if interpreter is None:
        return None
    references = _OF[kind](directory)
    contents = references.digest()
    parts = [str(LAYOUT_VERSION), kind.value, interpreter.identity, contents]
    if references.is_tied:
        parts.append(str(directory))
    return Recipe(
        kind=kind,
        key=hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=10).hexdigest(),
        interpreter=interpreter.path,
        directory=directory,
        contents=contents,
    )


def references_of(recipe: Recipe) -> References:
    """The files of a recipe as they are now. Raises OSError."""
    return _OF[recipe.kind](recipe.directory)
