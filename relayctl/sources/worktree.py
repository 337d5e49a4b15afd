"""What git says of a directory that may be a checkout: what it ignores there, and the commit if all is committed.

It asks git itself and changes nothing. Repositories that are fetched are another module's.
"""

from __future__ import annotations

import os
from pathlib import Path

from relayctl.errors import FileFailure
from relayctl.sources.localgit import GitRefused, ask_git

_HELP = "mend what it says, or name a directory outside of the checkout with --apps"


def ignored_paths(root: Path) -> frozenset[str]:
    """The files and directories under `root` that git ignores, as absolute real paths; none outside of a checkout.

    FileFailure where there is a checkout and git cannot say: what it ignores may be a secret, so nobody guesses.
    """
    real = Path(os.path.realpath(root))
    # Where the directory itself is ignored, what is in it was put there on purpose.
    if not _is_checkout(real) or _answer(real, "check-ignore", "--quiet", ".") is not None:
        return frozenset()
    try:
        listed = ask_git(
            real, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", "."
        )
    except GitRefused as said:
        raise FileFailure(f"git cannot say what it ignores in {real}: {said}", help=_HELP) from None
    names = (os.fsdecode(name) for name in listed.split(b"\0") if name)
    return frozenset(os.path.normpath(real / name) for name in names)


def clean_commit(root: Path) -> str:
    """The commit that `root` is a checkout of; empty where it is none, or where something in it is not committed."""
    real = Path(os.path.realpath(root))
    if not _is_checkout(real):
        return ""
    commit = _answer(real, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if commit is None:
        return ""
    changed = _answer(real, "status", "--porcelain", "-z", "--untracked-files=normal", "--", ".")
    is_tracked = _answer(real, "ls-files", "-z", "--", ".")
    return "" if changed != b"" or not is_tracked else commit.decode().strip()


def _is_checkout(real: Path) -> bool:
    return any((folder / ".git").exists() for folder in (real, *real.parents))


def _answer(at: Path, *arguments: str) -> bytes | None:
    """What git prints; None where it says no, and that is an answer."""
    try:
        return ask_git(at, *arguments)
    except GitRefused:
        return None
