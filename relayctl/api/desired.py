"""A tree as it is to be compared: its valid apps described, its broken ones named. No code in it is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from relayctl.core.description import Description, describe_app
from relayctl.core.running import BrokenApp
from relayctl.errors import NoTemplates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from relayctl.core.model import App
    from relayctl.core.problem import Problem
    from relayctl.templates.described import DescribedTree
    from relayctl.templates.load import LoadedTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """A tree to compare: the valid apps as they are described, and the broken ones, of which what runs stays.

    `firings` are counts by spec that whoever read the tree has made already.
    """

    descriptions: Mapping[str, Description]
    broken: Sequence[BrokenApp] = ()
    firings: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_apps(cls, apps: Iterable[App]) -> Desired:
        """Just these apps."""
        return cls(descriptions={app.name: describe_app(app, "") for app in apps})


def read_desired(apps: Path, now: datetime) -> Desired:
    """Read a directory of apps; no code in it is run. NoTemplates where it cannot be read or holds no app."""
    return desired_of(read_tree(apps, now))


def read_tree(apps: Path, now: datetime) -> LoadedTree:
    """The same with all that was read. Raises as `read_desired`."""
    from relayctl.templates.load import load_tree

    tree = load_tree(apps, now=now)
    if tree.trouble is not None:
        raise NoTemplates(f"{apps}: {tree.trouble}")
    if not tree.apps and not tree.problems:
        raise NoTemplates(f"{apps}: no app in it has a template.yaml")
    return tree


def desired_of(tree: LoadedTree | DescribedTree) -> Desired:
    """A tree that was read; a directory in it that cannot be an app is as broken as an app with a bad template."""
    from relayctl.templates.load import LoadedTree

    firings: Mapping[str, int] = {}
    descriptions: dict[str, Description]
    if isinstance(tree, LoadedTree):
        descriptions = {each.name: describe_app(each.app, each.digest) for each in tree.apps if each.app is not None}
    else:
        descriptions, firings = tree.descriptions(), tree.firings()
    broken: dict[str, BrokenApp] = {}
    for problem in tree.problems:
        name = _app_of(problem, tree.root)
        if problem.is_error and name and name not in descriptions:
            place = f"{problem.place.file}:{problem.place.line}"
            broken.setdefault(name, BrokenApp(app=name, place=place, problem=f"{problem.code} {problem.message}"))
    return Desired(descriptions=descriptions, broken=tuple(broken.values()), firings=firings)


def _app_of(problem: Problem, root: Path) -> str:
    place = PurePath(problem.place.file)
    return place.relative_to(root).parts[0] if place != root and place.is_relative_to(root) else ""
