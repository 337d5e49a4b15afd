"""The other side of `plan --against`: a directory of apps, or the apps of a commit. It asks no broker."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from relayctl.api import Desired
    from relayctl.templates.described import DescribedTree

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTree:
    """What is compared with, in words, and what has to be said about it."""

    desired: Desired
    words: str
    remarks: tuple[str, ...] = ()


def read_other(apps: Path, against: str, *, now: datetime, horizon: timedelta) -> OtherTree:
    """The tree that `against` names: a directory, else a commit of the repository that `apps` lies in.

    UsageError where it is neither, FileFailure where it cannot be read.
    """
    from relayctl.templates.described import DescribedTree, describe_tree

    if Path(against).is_dir():
        tree = describe_tree(Path(against), now=now, horizon=horizon)
        return _other(tree, f"{against.rstrip('/') or '/'}/", f" at {tree.digest[:8]}")
    from relayctl.sources.committed import apps_of_commit

    with tempfile.TemporaryDirectory(prefix="relayctl-plan-") as home:
        commit = apps_of_commit(apps, against, Path(home))
        # Code is looked at where it lies, so the tree is read before it goes.
        tree = DescribedTree(root=apps)
        if commit.apps is not None:
            tree = describe_tree(commit.apps, now=now, horizon=horizon)
    name = f"{apps}/ of commit {commit.short_id}"
    return _other(tree, name, "" if commit.id.startswith(against) else f" ({against})")


def _other(tree: DescribedTree, name: str, more: str) -> OtherTree:
    from relayctl import api
    from relayctl.core.counting import counted, listed
    from relayctl.errors import FileFailure

    if tree.trouble is not None:
        raise FileFailure(f"{name}: {tree.trouble}")
    desired = api.desired_of(tree)
    remarks = []
    if not tree.apps:
        remarks.append(f"{name} has no app with a template.yaml: all is new")
    if desired.broken:
        named = listed([each.app for each in desired.broken], _MOST_NAMED)
        verb = "has" if len(desired.broken) == 1 else "have"
        remarks.append(f"{named} {verb} errors in {name}, and counts as absent there")
    schedules = counted(sum(len(app.schedules) for app in desired.descriptions.values()), "schedule")
    words = f"{name}{more} · {counted(len(desired.descriptions), 'app')}, {schedules}"
    return OtherTree(desired=desired, words=words, remarks=tuple(remarks))
