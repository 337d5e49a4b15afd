"""What a release ships, read as one snapshot: what is packed is what is loaded, and so what is planned and checked.

It reads and packs. What is made of it, and whether an empty tree is meant, is decided elsewhere.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.errors import NoTemplates, Refused
from relayctl.sources.bundle import Bundle, pack, unpack
from relayctl.sources.directory import DirectorySource
from relayctl.sources.worktree import clean_commit, ignored_paths
from relayctl.templates.described import DescribedTree, describe_tree
from relayctl.templates.find import app_digest, find_apps

if TYPE_CHECKING:
    from relayctl.core.problem import Problem
    from relayctl.host.clock import Clock

HORIZON = timedelta(hours=24)
"""Over which firings are counted."""
_QUIET_WITHIN_S = 5.0
_QUIET_POLL_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """An apps tree as it would be published. `live_digest` is that of the directory it was read from, which may hold
    files besides; `tree` was loaded from what is in the bundle, and is named as the directory is."""

    bundle: Bundle
    tree: DescribedTree
    live_digest: str
    commit: str = ""
    rolls_back_to: int | None = None

    @property
    def revisions(self) -> dict[str, str]:
        """App to revision."""
        return {each.name: each.digest for each in self.tree.apps}

    @property
    def schedules(self) -> int:
        """How many schedules its apps have."""
        return sum(len(each.schedules) for each in self.tree.descriptions().values())


@contextmanager
def content_of(root: Path, clock: Clock, *, max_bytes: int) -> Iterator[Content]:
    """The tree under `root` as one snapshot: what is packed is what is loaded and planned.

    NoTemplates where it cannot be read, FileFailure for what cannot travel, Refused where it is too large or does not
    hold still. Without apps it is empty; whether that is meant is for `check_removals`.
    """
    source, until = DirectorySource(root, clock), clock.monotonic() + _QUIET_WITHIN_S
    while True:
        before = source.look()
        if before.trouble is not None:
            raise NoTemplates(
                f"{root}: {before.trouble}", help="name the apps directory with --apps, or make one: relayctl init"
            )
        bundle = pack(root, max_bytes=max_bytes, ignored=ignored_paths(root))
        commit, after = clean_commit(root), source.look()
        if before.revision == after.revision and not (before.is_busy or after.is_busy):
            break
        if clock.monotonic() > until:
            raise Refused(
                f"{root} changes while it is read; nothing was changed in the fleet",
                help="let the checkout or the build in it end, then run this again",
            )
        clock.wait(threading.Event(), _QUIET_POLL_S)
    with content_in(bundle, root, clock, max_bytes=max_bytes) as content:
        yield replace(content, live_digest=before.revision, commit=commit)


@contextmanager
def content_in(bundle: Bundle, shown: Path, clock: Clock, *, max_bytes: int) -> Iterator[Content]:
    """What a bundle holds, with its problems placed beneath `shown`, where people know the files."""
    with tempfile.TemporaryDirectory(prefix="relayctl-") as folder:
        root = Path(folder) / "apps"
        unpack(bundle.data, bundle.digest, root, max_bytes=max_bytes)
        tree = describe_tree(root, now=clock.now(), horizon=HORIZON)
        problems = tuple(_placed(problem, root, shown) for problem in tree.problems)
        yield Content(bundle=bundle, tree=replace(tree, root=shown, problems=problems), live_digest=tree.digest)


def shipped_revisions(root: Path, *, max_bytes: int) -> dict[str, str]:
    """App to the revision that a release of this tree would bind the fleet to. Raises as `content_of`."""
    bundle = pack(root, max_bytes=max_bytes, ignored=ignored_paths(root))
    with tempfile.TemporaryDirectory(prefix="relayctl-") as folder:
        apps = Path(folder) / "apps"
        unpack(bundle.data, bundle.digest, apps, max_bytes=max_bytes)
        return {app.name: app_digest(app.real) for app in find_apps(apps).apps}


def _placed(problem: Problem, root: Path, shown: Path) -> Problem:
    path = Path(problem.place.file)
    if not path.is_relative_to(root):
        return problem
    return replace(problem, place=replace(problem.place, file=(shown / path.relative_to(root)).as_posix()))
