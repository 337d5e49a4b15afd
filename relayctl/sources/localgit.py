"""Asks git about a checkout on this machine, in its owner's settings. It changes nothing there.

Repositories that are fetched are `gitcommand`'s.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from relayctl.errors import FileFailure, os_reason
from relayctl.settings import own_environ

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 60
# A hook of git runs its commands with these set, and then they name another place than the one that is asked about.
_WITHOUT = frozenset(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"))
_HELP = "install git or mend what it says, or name a directory outside of the checkout with --apps"


class GitRefused(Exception):
    """Git ended with an error; the text is its first line about it."""


def ask_git(at: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git prints about the repository that `at` lies in. GitRefused where it says no; FileFailure where there is
    no git, or none that answers."""
    environ = {name: value for name, value in own_environ().items() if name not in _WITHOUT}
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(at), *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False, env=environ)
    except OSError as error:
        reason = os_reason(error)
        raise FileFailure(f"git cannot be asked about {at}: {reason}", help=_HELP) from None
    except subprocess.TimeoutExpired:
        raise FileFailure(f"git did not answer about {at} within {_TIMEOUT_S} s", help=_HELP) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitRefused(said[0].removeprefix("fatal: ") if said else f"it ended with {done.returncode}")
    return done.stdout
