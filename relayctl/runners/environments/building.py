"""Makes one environment on a shelf, or says why it cannot be made. It blocks; who waits for it is others' business."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relayctl.core.duration import format_duration
from relayctl.errors import FileFailure, os_reason
from relayctl.runners.environments.credentials import Blackout
from relayctl.runners.environments.diagnosis import last_of, reason_of
from relayctl.runners.environments.installers import NoInstaller, commands_for
from relayctl.runners.environments.recipe import references_of
from relayctl.runners.environments.step import Bounds, Cancelled, TooLong, run_step

if TYPE_CHECKING:
    from datetime import timedelta

    from relayctl.host.clock import Clock
    from relayctl.runners.environments.environment import Environment
    from relayctl.runners.environments.recipe import Recipe
    from relayctl.runners.environments.shelf import Shelf

_ASK_FOR_LOCK_S = 0.1
_LONGEST = 300


class BuildFailed(Exception):
    """An environment cannot be made. `reason` is one line, `lines` the end of what the installer printed, masked."""

    def __init__(self, reason: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lines = lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What all builds of a process have in common. `environ` is the builder's own, which no handler sees."""

    shelf: Shelf
    environ: Mapping[str, str]
    limit: timedelta
    clock: Clock


def build(site: Site, recipe: Recipe, token: str, cancelled: threading.Event) -> Environment:
    """Make it, or find that somebody else here has. Raises BuildFailed, or Cancelled once `cancelled` is set."""
    clock = site.clock
    bounds = Bounds(
        monotonic=clock.monotonic,
        until=clock.monotonic() + site.limit.total_seconds(),
        is_cancelled=cancelled.is_set,
    )
    try:
        lock = site.shelf.lock(recipe.key)
        while not lock.try_acquire():
            bounds.check()
            clock.wait(cancelled, _ASK_FOR_LOCK_S)
        try:
            return site.shelf.find(recipe.key) or _fill(site, recipe, token, bounds)
        finally:
            lock.remove()
    except TooLong:
        raise BuildFailed(f"it took longer than {format_duration(site.limit)} (--build-timeout)") from None
    except NoInstaller as missing:
        raise BuildFailed(str(missing)) from None
    except FileFailure as error:
        raise BuildFailed(error.message) from None
    except OSError as error:
        raise BuildFailed(_of_disk(error)) from None


def _fill(site: Site, recipe: Recipe, token: str, bounds: Bounds) -> Environment:
    place = site.shelf.prepare(recipe.key)
    is_whole = False
    try:
        environ = {**site.environ, "VIRTUAL_ENV": str(place), "UV_PROJECT_ENVIRONMENT": str(place)}
        blackout = Blackout(environ, (content for _, content in references_of(recipe).files))
        for command in commands_for(recipe, place, environ):
            done = run_step(command.argv, command.directory, environ, token, bounds)
            if done.failure:
                lines = [blackout.line(line) for line in done.output.splitlines()]
                raise BuildFailed(reason_of(lines, done.failure), last_of(lines))
        if references_of(recipe).digest() != recipe.contents:
            # Somebody wrote to the files meanwhile: nobody knows which of both was installed.
            raise Cancelled
        site.shelf.finish(recipe)
        is_whole = True
    finally:
        if not is_whole:
            site.shelf.discard(recipe.key)
    found = site.shelf.find(recipe.key)
    if found is None:
        raise BuildFailed("the installer left no interpreter behind")
    return found


def _of_disk(error: OSError) -> str:
    place = f" ({error.filename})" if error.filename else ""
    return f"{os_reason(error)}{place}"[:_LONGEST]
