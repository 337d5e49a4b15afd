"""The commands that fill an environment, by its kind and by what is installed here. They are run elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from relayctl.runners.environments.recipe import Kind, Recipe, references_of

_PIP_WITH_TARGET = (22, 3)
"""The first pip that installs for another interpreter; an older one has to be put into the environment."""
_ASK_WITHIN_S = 30.0


class NoInstaller(Exception):
    """What is needed to make the environment is not on this machine; the text says what, and the way out."""


class Command(NamedTuple):
    """A program with its arguments, and the directory in which it runs."""

    argv: tuple[str, ...]
    directory: Path


def commands_for(recipe: Recipe, place: Path, environ: Mapping[str, str]) -> Iterator[Command]:
    """What is to be run, one after the other, to fill `place`. Raises NoInstaller, OSError."""
    yield from _BY_KIND[recipe.kind](recipe, place, environ)


def _with_uv_lock(recipe: Recipe, _place: Path, environ: Mapping[str, str]) -> Iterator[Command]:
    uv = shutil.which("uv", path=environ.get("PATH"))
    if uv is None:
        raise NoInstaller("uv.lock needs uv, which is not on this worker's PATH; install it, or remove uv.lock")
    if not (recipe.directory / "pyproject.toml").is_file():
        raise NoInstaller("uv.lock has no pyproject.toml beside it; add it, or remove uv.lock")
    # Where it goes is said by UV_PROJECT_ENVIRONMENT. The project itself is the app, which children find anyway.
    sync = (uv, "sync", "--frozen", "--no-dev", "--no-editable", "--no-install-project", "--no-progress")
    yield Command((*sync, "--python", str(recipe.interpreter)), recipe.directory)


def _with_requirements(recipe: Recipe, place: Path, environ: Mapping[str, str]) -> Iterator[Command]:
    wanted = ("-r", recipe.file)
    python = str(place / "bin" / "python")
    uv = shutil.which("uv", path=environ.get("PATH"))
    if uv is not None:
        venv = (uv, "venv", "--no-project", "--no-progress", "--clear", "--python", str(recipe.interpreter))
        yield Command((*venv, str(place)), recipe.directory)
        yield Command((uv, "pip", "install", "--no-progress", "--python", python, *wanted), recipe.directory)
        return
    quiet = ("--no-input", "--disable-pip-version-check")
    install = ("install", "--no-warn-script-location", "--progress-bar", "off", *wanted)
    # It runs in the app, whose calendar.py must not be taken for the interpreter's own.
    yield Command((str(recipe.interpreter), "-I", "-m", "venv", "--without-pip", str(place)), recipe.directory)
    if _pip_version(recipe, environ) >= _PIP_WITH_TARGET:
        pip: tuple[str, ...] = (str(recipe.interpreter), "-I", "-m", "pip", "--python", python)
    else:
        yield Command((python, "-I", "-m", "ensurepip", "--default-pip"), recipe.directory)
        pip = (python, "-I", "-m", "pip")
    yield Command((*pip, *quiet, *install), recipe.directory)


def _pip_version(recipe: Recipe, environ: Mapping[str, str]) -> tuple[int, ...]:
    """That of the interpreter's own pip; empty where it has none."""
    if str(recipe.interpreter) == sys.executable:
        try:
            return _numbers(metadata.version("pip"))
        except metadata.PackageNotFoundError:
            return ()
    try:
        done = subprocess.run(
            [str(recipe.interpreter), "-I", "-m", "pip", "--version"],
            cwd=recipe.directory,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return _numbers(done.stdout.decode("utf-8", "replace").removeprefix("pip "))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found is not None else ()


def _with_package_lock(recipe: Recipe, place: Path, environ: Mapping[str, str]) -> Iterator[Command]:
    npm = shutil.which("npm", path=environ.get("PATH"))
    if npm is None:
        raise NoInstaller("package-lock.json needs npm, which is not on this worker's PATH; install it")
    if not (recipe.directory / "package.json").is_file():
        raise NoInstaller("package-lock.json has no package.json beside it; add it, or remove package-lock.json")
    _copy_package(recipe, place)
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--no-progress")
    yield Command((npm, "ci", "--omit=dev", *quiet), place)


def _copy_package(recipe: Recipe, place: Path) -> None:
    """npm installs beside a package file, which is not to happen in the app's directory."""
    references = references_of(recipe)
    for name, content in references.files:
        (place / name).write_bytes(content)
    for local in references.places:
        if not local.resolve().is_relative_to(recipe.directory.resolve()):
            raise NoInstaller(f"package-lock.json names {local}, which lies outside the app")
        target = place / local.relative_to(recipe.directory)
        target.parent.mkdir(parents=True, exist_ok=True)
        if local.is_dir():
            # Links stay links: one that leads upwards has no end, and what lies behind them is no part of the key.
            leave_out = shutil.ignore_patterns("node_modules")
            shutil.copytree(local, target, symlinks=True, ignore=leave_out, dirs_exist_ok=True)
        else:
            shutil.copy2(local, target)


_BY_KIND: Mapping[Kind, Callable[[Recipe, Path, Mapping[str, str]], Iterator[Command]]] = {
    Kind.UV: _with_uv_lock,
    Kind.PIP: _with_requirements,
    Kind.NPM: _with_package_lock,
}
