"""Which files the dependencies of an app are written in: the lock file, what it includes, local packages it names.

It reads and hashes; what it does not understand it leaves to the installer, which will say so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

MAX_FILES = 20_000
_SKIPPED = frozenset({"__pycache__", "node_modules"})
_CONTINUED = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r"(^|\s)#.*$")
_INCLUDE = re.compile(r"(?:-r|-c|--requirement|--constraint)(?:\s*=\s*|\s*)(\S.*)")
_PLACE = re.compile(r"(?:-f|--find-links|(-e|--editable))(?:\s*=\s*|\s*)(\S+)")
_ARCHIVE = re.compile(r".*\.(?:whl|zip|tar\.gz|tgz|tar\.bz2)(?:\[.*\])?", re.ASCII)


@dataclass(slots=True)
class References:
    """The files of one app's dependencies: name, relative to the app where it lies in it, and content.

    `places` are local packages, files or directories. With `is_tied` the environment points into the app's directory.
    """

    files: list[tuple[str, bytes]] = field(default_factory=list)
    places: list[Path] = field(default_factory=list)
    is_tied: bool = False

    def add(self, directory: Path, name: str) -> bytes:
        """Read a file that has to be there; raises OSError."""
        content = (directory / name).read_bytes()
        self.files.append((name, content))
        return content

    def add_if_there(self, directory: Path, *names: str) -> None:
        """Read those that are there."""
        for name in names:
            if (directory / name).is_file():
                self.add(directory, name)

    def digest(self) -> str:
        """What tells their contents apart."""
        found = hashlib.blake2b(digest_size=20)
        for name, content in self.files:
            found.update(b"%b\0%b\0" % (name.encode(), hashlib.blake2b(content, digest_size=20).digest()))
        for place in self.places:
            for name, path in _files_of(place):
                found.update(b"%b\0%b\0" % (os.fsencode(name), _hash_of(path)))
        return found.hexdigest()


def of_requirements(directory: Path) -> References:
    """`requirements.txt` with all that it includes. Raises OSError for the first, not for what that names."""
    found = References()
    content = found.add(directory, "requirements.txt")
    _follow(found, directory, Path(), content, {Path("requirements.txt")})
    return found


def _follow(found: References, directory: Path, folder: Path, content: bytes, seen: set[Path]) -> None:
    for line in _lines(content):
        included = _INCLUDE.fullmatch(line)
        if included is not None:
            name = Path(os.path.normpath(folder / included[1].strip()))
            if name not in seen and (directory / name).is_file():
                seen.add(name)
                _follow(found, directory, name.parent, found.add(directory, name.as_posix()), seen)
            continue
        named = _PLACE.fullmatch(line)
        place = _local(named[2] if named is not None else line.partition(" ;")[0])
        if named is not None and named[1]:
            found.is_tied = True
        if place is not None and (directory / place).exists():
            found.places.append(directory / place)


def _lines(content: bytes) -> Iterator[str]:
    for line in _CONTINUED.sub(" ", content.decode("utf-8", "replace")).splitlines():
        text = _COMMENT.sub("", line).strip()
        if text:
            yield text


def _local(text: str) -> str | None:
    """The path in a requirement, if it is one; relative paths are the app's."""
    _, at, url = text.partition("@ ")
    word = (url if at else text).strip().partition(" ")[0].partition("#")[0]
    if word.startswith("file:"):
        rest = unquote(word.removeprefix("file:"))
        return rest.removeprefix("//localhost").removeprefix("//") or None
    if "://" in word or word.startswith("-"):
        return None
    if word.startswith((".", "/")) or _ARCHIVE.fullmatch(word):
        return word.partition("[")[0]
    return None


def of_uv_lock(directory: Path) -> References:
    """`uv.lock` with its project file and local packages."""
    found = References()
    content = found.add(directory, "uv.lock")
    found.add_if_there(directory, "pyproject.toml", "uv.toml")
    try:
        packages = tomllib.loads(content.decode("utf-8", "replace")).get("package", ())
    except tomllib.TOMLDecodeError:
        return found
    for package in packages if isinstance(packages, list) else ():
        source = package.get("source") if isinstance(package, dict) else None
        for kind in ("directory", "editable", "path"):
            place = source.get(kind) if isinstance(source, dict) else None
            if isinstance(place, str) and place not in {".", ""} and (directory / place).exists():
                found.places.append(directory / place)
    return found


def of_package_lock(directory: Path) -> References:
    """`package-lock.json` with `package.json`, `.npmrc` and local packages."""
    found = References()
    content = found.add(directory, "package-lock.json")
    found.add_if_there(directory, "package.json", ".npmrc")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return found
    for place in _node_places(document):
        inside = directory / place
        if inside.exists() and not Path(os.path.normpath(place)).is_absolute():
            found.places.append(inside)
    return found


def _node_places(document: Any) -> Iterator[str]:
    packages = document.get("packages", {}) if isinstance(document, dict) else {}
    for package in packages.values() if isinstance(packages, dict) else ():
        resolved = package.get("resolved") if isinstance(package, dict) else None
        if isinstance(resolved, str) and (package.get("link") is True or resolved.startswith("file:")):
            yield resolved.removeprefix("file:")


def _files_of(place: Path) -> Iterator[tuple[str, Path]]:
    """The files of a local package by name, in order; a file is its own."""
    if not place.is_dir():
        yield place.name, place
        return
    count = 0
    for folder, inner, names in os.walk(place):
        inner[:] = sorted(name for name in inner if name not in _SKIPPED and not name.startswith("."))
        for name in sorted(names):
            count += 1
            if count > MAX_FILES:
                return
            path = Path(folder) / name
            yield path.relative_to(place).as_posix(), path


def _hash_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()
    except OSError:
        return b"unreadable"
