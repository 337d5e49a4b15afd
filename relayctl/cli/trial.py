"""A run of a handler on this machine, with no worker and no broker; what it needs is installed first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.core.trial import Trial
    from relayctl.host.clock import Clock
    from relayctl.host.state import StateDir
    from relayctl.runners.environments.environment import Environment
    from relayctl.runners.environments.recipe import Recipe
    from relayctl.runners.invocation import Ended
    from relayctl.settings import Settings

MESSAGE = "local"
"""Stands where a worker gives the id of the message."""


def run_trial(
    trial: Trial, directory: Path, settings: Settings, show: Callable[[str, str], None], remark: Callable[[str], None]
) -> Ended:
    """Run it to its end; `show(stream, line)` gets each line of output, made harmless and with secrets masked.

    `remark` hears of what takes time before it. Raises RelayError where its environment cannot be made.
    """
    from relayctl.host.clock import SystemClock
    from relayctl.host.secrets import SecretStore
    from relayctl.host.state import StateDir
    from relayctl.runners.build import Build
    from relayctl.runners.environ import base_environ
    from relayctl.runners.environments.interpreters import Interpreters
    from relayctl.runners.environments.recipe import recipe_of
    from relayctl.runners.once import run_once
    from relayctl.runners.trialrun import run_of_trial

    clock, place, state = SystemClock(), directory.resolve(), StateDir(settings.state_dir)
    recipe = None if settings.no_build else recipe_of(trial.app.runtime or "", place, Interpreters(base_environ()))
    environment = None if recipe is None else _environment(recipe, state, settings, clock, remark)
    return run_once(
        Build.of(trial.app, place, MESSAGE, environment),
        run_of_trial(trial, MESSAGE, clock.now(), settings.max_timeout),
        clock=clock,
        secrets=SecretStore(settings.secrets_dir, state.secrets).resolve,
        on_line=lambda _run, stream, line: show(stream, line),
        base_environ=base_environ(),
    )


def _environment(
    recipe: Recipe, state: StateDir, settings: Settings, clock: Clock, remark: Callable[[str], None]
) -> Environment | None:
    """The one that a worker on this state directory would use, made here where there is none yet."""
    import secrets
    import threading

    from relayctl.errors import RelayError
    from relayctl.runners.environ import builder_environ
    from relayctl.runners.environments.building import BuildFailed, Site, build
    from relayctl.runners.environments.shelf import Shelf

    shelf = Shelf(state.environments, clock)
    found = shelf.hold(recipe.key)
    if found is not None:
        return found
    state.create()
    remark(f"installing what {recipe.file} names")
    site = Site(shelf=shelf, environ=builder_environ(), limit=settings.build_timeout, clock=clock)
    try:
        build(site, recipe, secrets.token_hex(8), threading.Event())
    except BuildFailed as failed:
        raise RelayError(
            "\n".join([f"building {recipe.file} failed: {failed.reason}", *(f"  | {line}" for line in failed.lines)]),
            help=f"mend {recipe.file}, or run with RELAYCTL_NO_BUILD=1 on the packages that relayctl itself has",
        ) from None
    return shelf.hold(recipe.key)
