"""What git says of a directory that may be a checkout: what it ignores there, and the commit if all is committed.

It asks git itself and changes nothing. Repositories that are fetched are another module's.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from relayctl.errors import FileFailure

_TIMEOUT_S = 60
# A hook of git runs its commands with these set, and then they name another place than the one that is asked about.
_WITHOUT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
_HELP = "install git or mend what it says, or name a directory outside of the checkout with --apps"


def ignored_paths(root: Path) -> frozenset[str]:
    """The files and directories under `root` that git ignores, as absolute real paths; none outside of a checkout.

    FileFailure where there is a checkout and git cannot say: what it ignores may be a secret, so nobody guesses.
    """
    real = Path(os.path.realpath(root))
    # Where the directory itself is ignored, what is in it was put there on purpose.
    if not _is_checkout(real) or _git(real, "check-ignore", "--quiet", ".", may_fail=True) is not None:
        return frozenset()
    listed = _git(real, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", ".")
    names = (os.fsdecode(name) for name in (listed or b"").split(b"\0") if name)
    return frozenset(os.path.normpath(real / name) for name in names)


def clean_commit(root: Path) -> str:
    """The commit that `root` is a checkout of; empty where it is none, or where something in it is not committed."""
    real = Path(os.path.realpath(root))
    if not _is_checkout(real):
        return ""
    commit = _git(real, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", may_fail=True)
    if commit is None:
        return ""
    changed = _git(real, "status", "--porcelain", "-z", "--untracked-files=normal", "--", ".", may_fail=True)
    is_tracked = _git(real, "ls-files", "-z", "--", ".", may_fail=True)
    return "" if changed != b"" or not is_tracked else commit.decode().strip()


def _is_checkout(real: Path) -> bool:
    return any((folder / ".git").exists() for folder in (real, *real.parents))


def _git(at: Path, *arguments: str, may_fail: bool = False) -> bytes | None:
    """What git prints; None where it fails and that is an answer."""
    unset = [word for name in _WITHOUT for word in ("-u", name)]
    command = ["env", *unset, "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(at), *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except OSError as error:
        raise FileFailure(f"git cannot be asked about {at}: {(error.strerror or '').lower()}", help=_HELP) from None
    except subprocess.TimeoutExpired:
        raise FileFailure(f"git did not answer about {at} within {_TIMEOUT_S} s", help=_HELP) from None
    if done.returncode == 0:
        return done.stdout
    if may_fail and done.returncode != 127:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    reason = said[0].removeprefix("fatal: ") if said else f"it ended with {done.returncode}"
    raise FileFailure(f"git cannot say what it ignores in {at}: {reason}", help=_HELP)
