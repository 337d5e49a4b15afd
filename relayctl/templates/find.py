"""The apps of a tree and the digests of their files. It opens files to hash them and understands none of them.

A root that cannot be read and a root without apps are different answers: the first says nothing about what was removed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from relayctl.core.names import AppName, is_name, legal_form, why_not_a_name
from relayctl.core.problem import Place, Problem, Severity
from relayctl.errors import os_reason

TEMPLATE = "template.yaml"
_IGNORED_DIRECTORIES = frozenset(
    {"node_modules", "__pycache__", "venv", "__pypackages__", "site-packages", "dist-packages", "lost+found"}
)
_IGNORED_FILE = re.compile(
    r".*~|#.*#|\.#.*|.*\.(?:py[cod]|swp|swo|swx|tmp|bak|orig|rej)|4913|\.DS_Store|.*___jb_(?:tmp|old)___|\..*\.sw[a-z]",
    re.ASCII | re.DOTALL,
)
_HIDDEN_BUT_OURS = frozenset({".python-version", ".npmrc", ".node-version", ".nvmrc"})
MAX_FILES = 50_000
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AppDirectory:
    """One app's directory: `path` as it lies in the tree, `real` with links resolved."""

    name: AppName
    path: Path
    real: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The apps under a root, by name. `trouble` is set when the root could not be read, and then says why."""

    root: Path
    apps: tuple[AppDirectory, ...] = ()
    problems: tuple[Problem, ...] = ()
    trouble: str | None = None

    @property
    def is_readable(self) -> bool:
        """Whether the absence of an app means anything."""
        return self.trouble is None


def is_ignored_directory(name: str) -> bool:
    """Hidden, dependency and tool directories are no part of an app."""
    return name.startswith(".") or name in _IGNORED_DIRECTORIES or name.endswith((".egg-info", ".dist-info"))


def is_ignored_file(name: str) -> bool:
    """Editor leftovers and compiled caches are no part of an app, and neither are hidden files but a few."""
    if _IGNORED_FILE.fullmatch(name) is not None:
        return True
    return name.startswith(".") and name not in _HIDDEN_BUT_OURS


def find_apps(root: Path) -> Tree:
    """Every directory under `root` with a template, in order of name, and what is wrong with the others."""
    try:
        real_root = root.resolve(strict=True)
        with os.scandir(real_root) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except NotADirectoryError:
        return Tree(root=root, trouble="it is not a directory")
    except FileNotFoundError:
        return Tree(root=root, trouble="it does not exist")
    except (OSError, RuntimeError) as error:
        return Tree(root=root, trouble=f"it cannot be read ({os_reason(error)})")
    apps: list[AppDirectory] = []
    problems: list[Problem] = []
    for entry in entries:
        if is_ignored_directory(entry.name) or not _is_directory(entry):
            continue
        found = _app(root, real_root, entry)
        if isinstance(found, AppDirectory):
            apps.append(found)
        elif found is not None:
            problems.append(found)
    return Tree(root=root, apps=tuple(apps), problems=tuple(problems))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() or (entry.is_symlink() and not entry.is_file())
    except OSError:
        return True


def _app(root: Path, real_root: Path, entry: os.DirEntry[str]) -> AppDirectory | Problem | None:
    path = root / entry.name
    real = real_root / entry.name
    shown = path.as_posix()
    if entry.is_symlink():
        real = Path(os.path.realpath(real))
        if not real.is_relative_to(real_root) or real == real_root:
            return _problem(
                "RLY707",
                shown,
                "this app is a link that leaves the apps directory",
                help="copy the app into the tree, or link within it",
            )
        if not real.is_dir():
            return _problem("RLY707", shown, "this app is a link that leads nowhere", help="restore or remove it")
    found = _template_in(path, real)
    if isinstance(found, Problem) or found is False:
        return found if isinstance(found, Problem) else _stray(path, real)
    why = why_not_a_name(entry.name)
    if why is not None or not is_name(entry.name):
        legal = legal_form(entry.name)
        return _problem(
            "RLY702",
            f"{shown}/{TEMPLATE}",
            f"the directory name cannot be an app's name: {why}",
            help=f'rename the directory to "{legal}"' if legal else "rename it: a-z, 0-9, '.', '_' and '-'",
        )
    return AppDirectory(name=AppName(entry.name), path=path, real=real)


def _template_in(path: Path, real: Path) -> Problem | bool:
    """Whether the directory has a template; a wrongly named one is a problem, since it would be skipped unseen."""
    if os.path.lexists(real / TEMPLATE):
        return True
    try:
        names = sorted(entry.name for entry in real.iterdir())
    except OSError as error:
        return _problem(
            "RLY001",
            path.as_posix(),
            f"the directory cannot be read ({os_reason(error)})",
            help="check its permissions",
        )
    for name in names:
        if name.lower() in ("template.yml", "template.yaml"):
            return wrong_file_name(path / name)
    return False


def wrong_file_name(file: Path) -> Problem:
    """The problem of a template under another name."""
    return _problem(
        "RLY014",
        file.as_posix(),
        f'"{file.name}" is not read; a template is called {TEMPLATE}',
        help=f"rename it to {TEMPLATE}",
    )


def _stray(path: Path, real: Path) -> Problem | None:
    if next(iter(app_files(real)), None) is None:
        return None
    return _problem(
        "RLY706",
        path.as_posix(),
        f"the directory has files but no {TEMPLATE}, so it is no app",
        help="add a template, or move it out of the apps directory",
        severity=Severity.INFO,
    )


def _problem(code: str, file: str, message: str, *, help: str, severity: Severity = Severity.ERROR) -> Problem:  # noqa: A002
    return Problem(code=code, severity=severity, place=Place(file=file), message=message, help=help)


def app_files(directory: Path) -> Iterator[Path]:
    """The files that make up an app, relative to it, in order. Links to directories are not entered."""
    for path, _ in _walk(directory):
        yield path


def _walk(directory: Path) -> Iterator[tuple[Path, os.DirEntry[str]]]:
    stack: list[tuple[str, Path]] = [(str(directory), Path())]
    while stack:
        folder, relative = stack.pop()
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError:
            continue
        inner: list[tuple[str, Path]] = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not is_ignored_directory(entry.name):
                    inner.append((entry.path, relative / entry.name))
            elif not is_ignored_file(entry.name):
                yield relative / entry.name, entry
        stack.extend(reversed(inner))


_Stamp = tuple[int, int, int, int, int]


@dataclass(slots=True)
class FileHashes:
    """Content hashes kept by what `stat` says, so that an unchanged tree costs one stat per file.

    A hash is trusted from its second sighting on: two edits within one tick of the file system's clock look alike to
    `stat`, and the reader of the first must not keep it for ever.
    """

    _known: dict[str, tuple[_Stamp, bytes, bool]] = field(default_factory=dict)

    def of(self, path: str, status: os.stat_result) -> bytes:
        """The hash of a regular file whose status was just read."""
        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
        known = self._known.get(path)
        if known is not None and known[0] == stamp and known[2]:
            return known[1]
        digest = _hash_file(path)
        is_settled = known is not None and known[0] == stamp and known[1] == digest
        self._known[path] = (stamp, digest, is_settled)
        return digest

    def forget(self, directory: Path) -> None:
        """Drop what is known of an app that is gone."""
        prefix = f"{directory}/"
        for path in [path for path in self._known if path.startswith(prefix)]:
            del self._known[path]

    def __len__(self) -> int:
        return len(self._known)


def _hash_file(path: str) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    with Path(path).open("rb", buffering=0) as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.digest()


def app_digest(
    directory: Path,
    hashes: FileHashes | None = None,
    *,
    leaving_out: Collection[str] = (),
    template: bytes | None = None,
) -> str:
    """The digest of an app's files: relative path, whether it is executable, content. Names in `leaving_out`, relative
    to the app, do not count. With `template` it is what it would be if that were the template's content."""
    hashes = hashes if hashes is not None else FileHashes()
    digest = hashlib.blake2b(digest_size=20)
    for count, (relative, entry) in enumerate(_walk(directory)):
        if leaving_out and relative.as_posix() in leaving_out:
            continue
        if count >= MAX_FILES:
            digest.update(b"\0too many files")
            break
        if template is not None and relative.as_posix() == TEMPLATE:
            digest.update(_template_line(entry, template))
            template = None
            continue
        digest.update(_entry_line(relative, entry, hashes))
    if template is not None:
        digest.update(b"\0instead of a template\0%b\0" % digest_of(template).encode())
    return digest.hexdigest()


def _template_line(entry: os.DirEntry[str], content: bytes) -> bytes:
    try:
        is_executable = bool(entry.stat().st_mode & stat.S_IXUSR)
    except OSError:
        is_executable = False
    hashed = hashlib.blake2b(content, digest_size=20).digest()
    return b"%b\0%b\0%b\0" % (os.fsencode(TEMPLATE), b"x" if is_executable else b"-", hashed)


def _entry_line(relative: Path, entry: os.DirEntry[str], hashes: FileHashes) -> bytes:
    name = os.fsencode(relative.as_posix())
    try:
        status = entry.stat()
        if not stat.S_ISREG(status.st_mode):
            return b"%b\0other\0" % name
        mode = b"x" if status.st_mode & stat.S_IXUSR else b"-"
        return b"%b\0%b\0%b\0" % (name, mode, hashes.of(entry.path, status))
    except OSError:
        return b"%b\0unreadable\0" % name


def digest_of(data: bytes) -> str:
    """The digest of one file's content, as `template_digest` has it."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()
