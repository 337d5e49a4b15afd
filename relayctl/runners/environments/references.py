"""Which files the dependencies of an app are written in: the lock file, what it includes, local packages it names.

It reads and hashes; what it does not understand it leaves to the installer, which will say so.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

MAX_FILES = 20_000
MOST_BYTES = 64 << 20
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
        """Read a file that has to be there; raises OSError, also where it is larger than any such file."""
        with (directory / name).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
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
    name = Path("requirements.txt")
    seen, left = {name}, [(name, content)]
    while left:
        name, content = left.pop()
        for included in _included(found, directory, name.parent, content):
            if included not in seen and (directory / included).is_file():
                seen.add(included)
                left.append((included, found.add(directory, included.as_posix())))
    return found


def _included(found: References, directory: Path, folder: Path, content: bytes) -> Iterator[Path]:
    """The files that this one includes; the local packages that it names are noted."""
    for line in _lines(content):
        included = _INCLUDE.fullmatch(line)
        if included is not None:
            yield Path(os.path.normpath(folder / included[1].strip()))
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
    except (ValueError, RecursionError):  # also for a number that is too long
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
        # Of a pipe or a device nobody would see the end.
        if not stat.S_ISREG(path.stat().st_mode):
            return b"no file"
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()
    except OSError:
        return b"unreadable"
