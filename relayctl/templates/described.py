"""A tree in the words in which it is compared, without the apps themselves: what `plan` needs of a large one, sooner.

Only errors are looked for; whoever wants warnings loads the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from relayctl.core.description import Description, describe_app
from relayctl.core.firecount import count_firings
from relayctl.core.occurrence import epoch_seconds
from relayctl.core.problem import Problem
from relayctl.core.release import tree_digest
from relayctl.templates.find import AppDirectory, find_apps
from relayctl.templates.load import load_part
from relayctl.templates.rules.engine import Manner
from relayctl.templates.spread import spread


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedApp:
    """One app. `description` is None where it has errors, `limits` are the resource limits that it declares and
    `firings` how often each of its specs fires in the window that was asked for."""

    name: str
    digest: str
    description: Description | None
    problems: tuple[Problem, ...] = ()
    limits: tuple[str, ...] = ()
    firings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTree:
    """A whole tree. `trouble` says why the root could not be read; then the absence of apps means nothing."""

    root: Path
    apps: tuple[DescribedApp, ...] = ()
    problems: tuple[Problem, ...] = ()
    digest: str = ""
    trouble: str | None = None

    def descriptions(self) -> dict[str, Description]:
        """Of the apps that can run."""
        return {each.name: each.description for each in self.apps if each.description is not None}

    def firings(self) -> dict[str, int]:
        """How often each spec fires."""
        return {spec: count for each in self.apps for spec, count in each.firings.items()}


def describe_tree(
    root: Path,
    *,
    now: datetime,
    horizon: timedelta,
    processes: int | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> DescribedTree:
    """Every app under `root`; firings are counted later than `now`, an aware instant, and up to `horizon` after it.

    `processes` and `meanwhile` are those of `spread`.
    """
    tree = find_apps(root)
    if tree.trouble is not None:
        return DescribedTree(root=root, trouble=tree.trouble)
    start = epoch_seconds(now)
    work = partial(_describe_part, start=start, end=start + int(horizon.total_seconds()))
    apps = spread(tree.apps, work, processes, meanwhile)
    problems = [*tree.problems, *(problem for each in apps for problem in each.problems)]
    problems.sort(key=lambda problem: problem.sort_key)
    return DescribedTree(
        root=root,
        apps=tuple(apps),
        problems=tuple(problems),
        digest=tree_digest({each.name: each.digest for each in apps}),
    )


def _describe_part(apps: Sequence[AppDirectory], *, start: int, end: int) -> list[DescribedApp]:
    found = []
    for loaded in load_part(apps, manner=Manner(only_errors=True)):
        description = None if loaded.app is None else describe_app(loaded.app, loaded.digest)
        specs = set() if description is None else {fields["spec"] for fields in description.schedules.values()}
        found.append(
            DescribedApp(
                name=loaded.name,
                digest=loaded.digest,
                description=description,
                problems=loaded.problems,
                limits=() if loaded.app is None else tuple(loaded.app.resources.declared),
                firings={spec: count_firings(spec, start, end) for spec in specs},
            )
        )
    return found
