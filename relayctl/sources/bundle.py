"""A bundle: the apps tree as one archive named by its content, that a release ships and a worker unpacks.

Only regular files travel; links are followed inside the tree and refused out of it. It knows no broker and no git.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from relayctl.errors import BundleDamaged, FileFailure, NewerFormat, Refused, os_reason
from relayctl.templates.find import MAX_FILES, is_ignored_directory, is_ignored_file

BUNDLE_VERSION = 1
MARK = ".relayctl-bundle"
"""The first member: the version of the archive. No file of an app has such a name, since hidden ones do not count."""
_RAW_PER_PACKED = 32
"""An archive may unpack to so many times the bound on its packed size: a small one must not fill a disk."""
_MOST_NAMED = 5
_DEEPEST = 64
_LEVEL = 6
_PIECE = 1 << 20
_SMALLER = (
    "keep data and dependencies out of the apps directory, have git ignore them, or raise RELAYCTL_MAX_BUNDLE_BYTES"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A packed tree. `digest` names the content (SHA-256 of what `data` unpacks to), `files` counts its files."""

    digest: str
    data: bytes
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One file that travels: where it goes, where it lies, what its size is and whether it is executable."""

    name: str
    path: str
    size: int
    is_executable: bool


def pack(root: Path, *, max_bytes: int, ignored: Collection[str] = ()) -> Bundle:
    """The tree under `root`: equal files make equal bundles, whatever their times and owners.

    `ignored` are absolute real paths to leave out with all below them. Caches, dependency folders and hidden files
    stay behind in any case. Raises FileFailure for what cannot be read and for links that leave the tree, Refused
    where the result would be larger than `max_bytes`.
    """
    real = _real(root)
    # Links may lead to one directory on more ways than can be walked.
    walked = list(islice(_walk(real, real, "", frozenset(ignored), (str(real),)), MAX_FILES + 1))
    if len(walked) > MAX_FILES:
        raise Refused(f"{root} holds more than {MAX_FILES:,} files", help=_SMALLER)
    found = sorted((file for file in walked if file is not None), key=lambda file: os.fsencode(file.name))
    if sum(file.size for file in found) > max_bytes * _RAW_PER_PACKED:
        raise _too_large(root, found, max_bytes)
    raw = _archive(found)
    data = zlib.compress(raw, _LEVEL, wbits=31)
    if len(data) > max_bytes:
        raise _too_large(root, found, max_bytes)
    return Bundle(digest=hashlib.sha256(raw).hexdigest(), data=data, files=len(found))


def unpack(data: bytes, digest: str, into: Path, *, max_bytes: int) -> None:
    """Make the directory `into` hold exactly what the bundle does; it appears whole or not at all.

    A directory that is there already stays as it is. Raises BundleDamaged where the content is not what `digest`
    names or would leave the directory, Refused where it is too large, NewerFormat, FileFailure where the disk refuses.
    """
    if into.is_dir():
        return
    if len(data) > max_bytes:
        raise Refused(
            f"the bundle {digest[:12]} has {_size(len(data))}, and at most {_size(max_bytes)} are taken here",
            help="raise RELAYCTL_MAX_BUNDLE_BYTES",
        )
    raw = _unzipped(data, max_bytes)
    if hashlib.sha256(raw).hexdigest() != digest:
        raise BundleDamaged(f"the bundle's content is not what its digest {digest[:12]} names")
    draft = None
    try:
        into.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{into.name[:12]}.", dir=into.parent))
        for name, content, is_executable in _members(raw):
            _write(draft / name, content, is_executable=is_executable)
        _moved(draft, into)
    except OSError as error:
        raise FileFailure(f"{into}: cannot be written: {os_reason(error)}") from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def is_intact(data: bytes, digest: str) -> bool:
    """Whether a bundle, however large, unpacks to what `digest` names."""
    unzip, found, left = zlib.decompressobj(wbits=31), hashlib.sha256(), data
    try:
        while not unzip.eof:
            piece = unzip.decompress(left, _PIECE)
            left = unzip.unconsumed_tail
            if not piece and not left:
                return False
            found.update(piece)
    except zlib.error:
        return False
    return found.hexdigest() == digest


def _real(root: Path) -> Path:
    try:
        return root.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = os_reason(error)
        raise FileFailure(f"{root}: cannot be read: {reason}") from None


def _walk(
    root: Path, folder: Path, prefix: str, ignored: frozenset[str], above: tuple[str, ...]
) -> Iterator[_Found | None]:
    """The files below `folder`, which goes by `prefix` in the bundle, and None for each directory in it.

    `above` are the real directories on the way.
    """
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError as error:
        raise FileFailure(f"{folder}: cannot be read: {os_reason(error)}") from None
    for entry in entries:
        real = Path(os.path.realpath(entry.path)) if entry.is_symlink() else Path(entry.path)
        is_directory = real.is_dir()
        is_left_out = is_ignored_directory(entry.name) if is_directory else is_ignored_file(entry.name)
        if is_left_out or str(real) in ignored or entry.path in ignored:
            continue
        if entry.is_symlink():
            _check_link(root, entry.path, real)
        if not is_directory:
            found = _found(real, prefix + entry.name)
            if found is not None:
                yield found
        elif str(real) in above or len(above) > _DEEPEST:
            raise FileFailure(f"{entry.path}: is a link to a directory above it", help="remove the link")
        else:
            yield None
            yield from _walk(root, real, f"{prefix}{entry.name}/", ignored, (*above, str(real)))


def _check_link(root: Path, path: str, real: Path) -> None:
    if not real.is_relative_to(root):
        raise FileFailure(
            f"{path}: is a link that leaves the apps directory", help="copy what it leads to, or link within the tree"
        )
    if not real.exists():
        raise FileFailure(f"{path}: is a link that leads nowhere", help="restore what it leads to, or remove it")


def _found(real: Path, name: str) -> _Found | None:
    try:
        status = real.stat()
    except OSError as error:
        raise FileFailure(f"{real}: cannot be read: {os_reason(error)}") from None
    if not stat.S_ISREG(status.st_mode):
        # A socket or a pipe is nobody's source.
        return None
    is_executable = bool(status.st_mode & stat.S_IXUSR)
    return _Found(name=name, path=str(real), size=status.st_size, is_executable=is_executable)


def _archive(found: list[_Found]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        _add(tar, MARK, b"%d\n" % BUNDLE_VERSION, 0o644)
        for file in found:
            try:
                content = Path(file.path).read_bytes()
            except OSError as error:
                reason = os_reason(error)
                raise FileFailure(f"{file.path}: cannot be read: {reason}") from None
            _add(tar, file.name, content, 0o755 if file.is_executable else 0o644)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    # Owner and time are left at zero: they are no content.
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


def _too_large(root: Path, found: list[_Found], max_bytes: int) -> Refused:
    largest = sorted(found, key=lambda file: (-file.size, file.name))[:_MOST_NAMED]
    named = ", ".join(f"{file.name} ({_size(file.size)})" for file in largest)
    return Refused(f"{root} packs to more than {_size(max_bytes)}; its largest files are {named}", help=_SMALLER)


def _size(count: int) -> str:
    return f"{count / 1024 / 1024:.1f} MiB" if count >= 100 * 1024 else f"{count / 1024:.1f} KiB"


def _unzipped(data: bytes, max_bytes: int) -> bytes:
    most = max_bytes * _RAW_PER_PACKED + MAX_FILES * 2048
    try:
        unzip = zlib.decompressobj(wbits=31)
        raw = unzip.decompress(data, most)
    except zlib.error:
        raise BundleDamaged("the bundle cannot be unpacked: it is not what was packed") from None
    if not unzip.eof:
        more = "larger than this machine takes" if unzip.unconsumed_tail else "cut short"
        raise BundleDamaged(f"the bundle cannot be unpacked: it is {more}")
    return raw


def _members(raw: bytes) -> Iterator[tuple[str, bytes, bool]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:", errors="surrogateescape") as tar:
            members = iter(tar)
            _check_version(tar, next(members, None))
            for member in members:
                _check(member)
                opened = tar.extractfile(member)
                yield member.name, b"" if opened is None else opened.read(), bool(member.mode & stat.S_IXUSR)
    except (tarfile.TarError, ValueError):
        # A header whose numbers are none comes out of the library as ValueError.
        raise BundleDamaged("the bundle is no archive") from None


def _check_version(tar: tarfile.TarFile, first: tarfile.TarInfo | None) -> None:
    opened = None if first is None or first.name != MARK else tar.extractfile(first)
    text = b"" if opened is None else opened.read(16).strip()
    if not text.isdigit():
        raise BundleDamaged("the bundle does not say which version it has")
    if int(text) > BUNDLE_VERSION:
        raise NewerFormat(
            f"the bundle has version {int(text)}, and this relayctl knows {BUNDLE_VERSION}", help="upgrade relayctl"
        )


def _check(member: tarfile.TarInfo) -> None:
    path = PurePosixPath(member.name)
    is_inside = path.parts and not path.is_absolute() and ".." not in path.parts and "\0" not in member.name
    # A sparse member is a few bytes here and as large as it says once it is read.
    if not (member.isreg() and not member.issparse() and is_inside):
        raise BundleDamaged(f"the bundle holds what no bundle may: {member.name[:80]!a}")


def _write(path: Path, content: bytes, *, is_executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Never through something that is there already: a name that comes twice is an error.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if is_executable else 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        os.fchmod(handle, 0o755 if is_executable else 0o644)


def _moved(draft: Path, into: Path) -> None:
    draft.chmod(0o755)
    try:
        draft.rename(into)
    except OSError:
        # Another worker on this state directory was first.
        if not into.is_dir():
            raise
