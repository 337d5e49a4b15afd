"""The fleet for a command that asks it: where to look by the settings in force, and a loaded tree as what is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.api import Desired, Place
    from relayctl.core.problem import Problem
    from relayctl.core.running import BrokenApp
    from relayctl.settings import Settings
    from relayctl.templates.load import LoadedTree


def place_of(settings: Settings) -> Place:
    """The broker and namespace that the settings mean."""
    from relayctl.api import Place

    return Place(redis_url=settings.redis_url, state_dir=settings.state_dir, namespace=settings.namespace)


def desired_of(tree: LoadedTree) -> Desired:
    """The tree as it is compared; a directory that cannot be an app is as broken as an app with a bad template."""
    from relayctl.api import Desired

    valid = {loaded.name for loaded in tree.apps if loaded.app is not None}
    broken: dict[str, BrokenApp] = {}
    for problem in tree.problems:
        name = _app_of(problem, tree.root)
        if problem.is_error and name and name not in valid:
            broken.setdefault(name, _broken(name, problem))
    return Desired(
        apps=[(loaded.app, loaded.digest) for loaded in tree.apps if loaded.app is not None],
        broken=tuple(broken.values()),
    )


def _app_of(problem: Problem, root: Path) -> str:
    place = Path(problem.place.file)
    return place.relative_to(root).parts[0] if place != root and place.is_relative_to(root) else ""


def _broken(app: str, problem: Problem) -> BrokenApp:
    from relayctl.core.running import BrokenApp

    place = f"{problem.place.file}:{problem.place.line}"
    return BrokenApp(app=app, place=place, problem=f"{problem.code} {problem.message}")
