"""The apps of a commit, written out beside the checkout for a comparison. It moves no reference, index or work tree.

Blobs are read as they are, so that neither filters nor export rules of the repository have a say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from relayctl.errors import FileFailure, UsageError
from relayctl.sources.localgit import GitRefused, ask_git

_MOST_BYTES = 512 << 20
_SHORT = 8
_LINK, _PROGRAM, _MODULE = "120000", "100755", "160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit by the name it was asked for, and where its apps are now; None where it has no such directory."""

    name: str
    id: str
    apps: Path | None

    @property
    def short_id(self) -> str:
        """As much of the id as people read."""
        return self.id[:_SHORT]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blob:
    mode: str
    id: str
    size: int
    path: PurePosixPath


def apps_of_commit(apps: Path, name: str, into: Path) -> Commit:
    """Write what the directory `apps` holds in that commit to `into`, which is empty.

    UsageError where `name` is no commit of the repository that `apps` lies in, or it lies in none; FileFailure where
    git or the disk fails.
    """
    if name.startswith("-"):
        raise _no_commit(name)
    try:
        prefix = ask_git(apps, "rev-parse", "--show-prefix").decode(errors="replace").strip()
    except GitRefused as error:
        raise UsageError(
            f'"{name}" is no directory, and no commit: {apps} is in no git repository ({error})',
            help="name a directory of apps, or run this in a checkout",
        ) from None
    try:
        found = ask_git(apps, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except GitRefused:
        raise (_no_commit(name) if _has_commits(apps) else _none_yet(name, apps)) from None
    commit = found.decode().strip()
    try:
        blobs = list(_blobs(apps, f"{commit}:{prefix.rstrip('/')}"))
    except GitRefused:
        return Commit(name=name, id=commit, apps=None)
    total = sum(blob.size for blob in blobs)
    if total > _MOST_BYTES:
        raise UsageError(f"the apps of {name} are {total >> 20} MiB, more than {_MOST_BYTES >> 20}: not compared")
    try:
        _write(apps, blobs, into)
    except (OSError, GitRefused) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFailure(f"the apps of {name} cannot be written out: {reason.lower()}") from None
    return Commit(name=name, id=commit, apps=into)


def _no_commit(name: str) -> UsageError:
    return UsageError(f'"{name}" is neither a directory nor a commit here', help="git log shows the commits")


def _none_yet(name: str, apps: Path) -> UsageError:
    return UsageError(
        f'"{name}" is no directory, and no commit: the repository that {apps} lies in has none yet',
        help="commit the apps first, or name a directory of apps",
    )


def _has_commits(at: Path) -> bool:
    try:
        return bool(ask_git(at, "rev-list", "--all", "--max-count=1"))
    except GitRefused:
        # What git cannot list now it may have.
        return True


def _blobs(at: Path, tree: str) -> Iterator[_Blob]:
    for line in ask_git(at, "ls-tree", "--full-tree", "-r", "-l", "-z", tree).split(b"\0"):
        if not line:
            continue
        facts, _, path = line.partition(b"\t")
        mode, _, oid, size = facts.decode().split()
        where = PurePosixPath(path.decode(errors="surrogateescape"))
        # Git refuses such names itself; nothing is ever written outside.
        if mode != _MODULE and not where.is_absolute() and ".." not in where.parts:
            yield _Blob(mode=mode, id=oid, size=int(size), path=where)


def _write(at: Path, blobs: list[_Blob], into: Path) -> None:
    data = ask_git(at, "cat-file", "--batch", stdin="".join(f"{blob.id}\n" for blob in blobs).encode())
    begin = 0
    links: list[tuple[Path, str]] = []
    for blob in blobs:
        begin = data.index(b"\n", begin) + 1
        content = data[begin : begin + blob.size]
        begin += blob.size + 1
        file = into / blob.path
        if blob.mode == _LINK:
            links.append((file, content.decode(errors="surrogateescape")))
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        if blob.mode == _PROGRAM:
            file.chmod(0o755)
    # Links come last and the deepest first, so that nothing is written through one.
    for file, leads_to in sorted(links, key=lambda link: -len(link[0].parts)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(leads_to)
