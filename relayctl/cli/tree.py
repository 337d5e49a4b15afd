"""Apps for a command that reads them: loads a tree, says what is broken, and finds a target by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.cli.nearest import closest
from relayctl.core.counting import listed
from relayctl.errors import FileFailure, NoTemplates, UnknownTarget, UsageError, os_reason

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.core.load import Named
    from relayctl.core.model import App
    from relayctl.core.problem import Problem
    from relayctl.templates.described import DescribedTree
    from relayctl.templates.load import Loaded, LoadedTree

_MOST_LISTED = 10


def load(desk: Desk, now: datetime) -> LoadedTree:
    """The tree of the apps directory in force; no directory and no apps are errors of their own."""
    from relayctl.templates.load import load_tree

    tree = load_tree(desk.settings.apps, now=now)
    _refuse_nothing(tree)
    return tree


def described(
    desk: Desk, now: datetime, horizon: timedelta, meanwhile: Callable[[], object] | None = None
) -> DescribedTree:
    """The same tree as it is compared: without warnings, and with the firings of the time ahead counted.

    `meanwhile` may be called while other processes read.
    """
    from relayctl.templates.described import describe_tree

    tree = describe_tree(desk.settings.apps, now=now, horizon=horizon, meanwhile=meanwhile)
    _refuse_nothing(tree)
    return tree


def _refuse_nothing(tree: LoadedTree | DescribedTree) -> None:
    if tree.trouble is not None:
        raise NoTemplates(
            f"{tree.root}: {tree.trouble}", help="name the apps directory with --apps, or make one: relayctl init"
        )
    if not tree.apps and not tree.problems:
        raise NoTemplates(f"{tree.root}: no app in it has a template.yaml", help="relayctl init makes a first one")


def load_one(desk: Desk, name: str, now: datetime) -> Loaded:
    """One app by name, without looking at the others."""
    from relayctl.core.names import is_name
    from relayctl.templates.load import load_app

    root = desk.settings.apps
    directory = root / name
    if is_name(name) and (directory / "template.yaml").is_file():
        return load_app(directory, root=root, now=now, with_digest=False)
    raise unknown("app", name, app_names(root))


def named_triggers(desk: Desk, target: str | None, now: datetime) -> tuple[list[Named], tuple[Problem, ...]]:
    """The enabled schedules of the tree, of one app, or one of them; with what is wrong with the apps looked at."""
    from relayctl.core.load import Named

    app, schedule = split_target(target) if target else ("", "")
    apps = [load_one(desk, app, now)] if app else list(load(desk, now).apps)
    problems = tuple(problem for each in apps for problem in each.problems)
    found = [
        Named(name=f"{each.name}/{item.name}", trigger=item.trigger)
        for each in apps
        if each.app is not None
        for item in each.app.schedules
        if item.enabled and schedule in {"", item.name}
    ]
    if schedule and not found and not any(problem.is_error for problem in problems):
        known = [f"{each.name}/{item.name}" for each in apps if each.app for item in each.app.schedules if item.enabled]
        raise unknown("enabled schedule", target or "", known)
    return found, problems


def app_names(root: Path) -> list[str]:
    """The directories with a template, for a suggestion."""
    try:
        return sorted(path.parent.name for path in root.glob("*/template.yaml"))
    except OSError as error:
        raise FileFailure(f"{root}: cannot be read: {os_reason(error)}") from None


def split_target(target: str) -> tuple[str, str]:
    """`APP/NAME`, cut at the first slash since a program's path has more."""
    app, slash, name = target.partition("/")
    if not app or (slash and not name):
        raise UsageError(f'not a target: "{target}"', help="write APP or APP/NAME")
    return app, name


def split_schedule(target: str) -> tuple[str, str]:
    """`APP/SCHEDULE`, both of them."""
    app, name = split_target(target)
    if not name:
        raise UsageError(f'not a schedule: "{target}"', help="write APP/SCHEDULE")
    return app, name


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownTarget:
    """The error for a name that nothing has, with the nearest one or all there are."""
    names = list(known)
    close = closest(name, names, cutoff=0.5)
    if close:
        hint = f'did you mean "{close}"?'
    elif names:
        hint = f"there {'is' if len(names) == 1 else 'are'}: {listed(names, _MOST_LISTED)}"
    else:
        hint = f"there is no {kind} here"
    return UnknownTarget(f'no {kind} "{name}"', help=hint)


def say_broken(desk: Desk, problems: Sequence[Problem]) -> bool:
    """Name the errors on stderr, one line each; True when there was one. Also when quiet: they decide the exit code."""
    from relayctl.render.problems import concise

    errors = [problem for problem in problems if problem.is_error]
    if errors:
        desk.complain(*concise(errors).splitlines(), "  help: relayctl validate")
    return bool(errors)


def place_of(app: App, name: str) -> str:
    """`file:line` of a schedule."""
    schedule = app.schedule(name)
    place = schedule.place if schedule else None
    return f"{place.file}:{place.line}" if place else ""
