"""Has the environments of apps built beside everything else, and says to the reconciler which apps may go live.

A build runs in a thread of its own, for the kernel ends processes with the thread that started them.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.facts import (
    Emit,
    EnvironmentBuilding,
    EnvironmentBuilt,
    EnvironmentFailed,
    EnvironmentRemoved,
    LoopFailed,
)
from relayctl.core.occurrence import second_text
from relayctl.core.unbuilt import UnbuiltApp
from relayctl.errors import FileFailure, os_reason
from relayctl.runners.environ import MARK
from relayctl.runners.environments.building import BuildFailed, Site, build
from relayctl.runners.environments.interpreters import Interpreters
from relayctl.runners.environments.recipe import Recipe, kind_of, recipe_of
from relayctl.runners.environments.shelf import Shelf
from relayctl.runners.environments.step import Cancelled
from relayctl.runners.guard import Guard
from relayctl.worker.supplier import AsTheyAre

if TYPE_CHECKING:
    from pathlib import Path

    from relayctl.host.clock import Clock
    from relayctl.runners.environments.environment import Environment
    from relayctl.worker.options import Building, Options
    from relayctl.worker.parts import Parts
    from relayctl.worker.snapshot import LiveApp
    from relayctl.worker.supplier import Supplier

MOST_BUILDING = 3
"""Builds at one time: one that hangs must not keep all others waiting, and too many would take the machine."""
RETRY_S = (5.0, 15.0, 60.0, 300.0)
_HOUSEKEEPING_S = 60.0
_AGAIN_S = 0.5


@dataclass(slots=True, kw_only=True)
class _Job:
    """One environment that is wanted. Its thread writes `outcome` and then `is_over`, the loop all else."""

    recipe: Recipe
    since: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    began_at: float = 0.0
    is_over: bool = False
    outcome: Environment | BuildFailed | None = None
    failure: BuildFailed | None = None
    attempts: int = 0
    retry_at: float = 0.0

    def pause_s(self) -> float:
        """How long to wait after the last failure."""
        return RETRY_S[min(self.attempts, len(RETRY_S)) - 1]


class Environments:
    """`provide`, `revive` and `in_force` are for the reconciler's thread, `run` is the loop, the rest is for any."""

    def __init__(
        self,
        building: Building,
        *,
        base_environ: Mapping[str, str],
        hint: Callable[[Collection[str]], None],
        in_use: Callable[[], Collection[Path] | None],
        clock: Clock,
        emit: Emit,
    ) -> None:
        """`hint` makes the reconciler look at apps again; `in_use` says which directories processes run from."""
        self._shelf = Shelf(building.root, clock)
        self._site = Site(shelf=self._shelf, environ=building.environ, limit=building.limit, clock=clock)
        self._interpreters = Interpreters(base_environ)
        self._hint = hint
        self._in_use = in_use
        self._clock = clock
        self._emit = emit
        self._token = secrets.token_hex(8)
        self._guard = Guard(f"{MARK}={self._token}.", base_environ)
        self._builds = 0
        self._recipes: dict[str, tuple[tuple[str, str, Path], Recipe | None]] = {}
        self._unreadable: dict[str, UnbuiltApp] = {}
        self._live: Mapping[str, LiveApp] = {}
        # What follows is shared with the loop: the lock is for these, and for the holds of the shelf.
        self._lock = threading.Lock()
        self._asked: dict[str, Recipe] = {}
        self._jobs: dict[str, _Job] = {}
        self._idle: frozenset[str] = frozenset()
        self._is_swept = False
        self._house_at = 0.0
        self._wake = threading.Event()

    # What the reconciler asks

    def provide(self, wanted: Mapping[str, LiveApp]) -> tuple[dict[str, LiveApp], frozenset[str]]:
        """Those that can go live, each with its environment, and the names of those that have to wait."""
        ready: dict[str, LiveApp] = {}
        asked: dict[str, Recipe] = {}
        unreadable: dict[str, UnbuiltApp] = {}
        for name, item in wanted.items():
            try:
                recipe = self._recipe_of(name, item)
                found = None if recipe is None else self._held(recipe.key)
            except (OSError, FileFailure) as error:
                unreadable[name] = self._not_read(item, error)
                continue
            if recipe is None or found is not None:
                ready[name] = replace(item, environment=found)
            else:
                asked[name] = recipe
        for name in self._recipes.keys() - wanted.keys():
            del self._recipes[name]
        self._unreadable = unreadable
        self._ask(asked)
        return ready, frozenset(asked.keys() | unreadable.keys())

    def revive(self, found: Mapping[str, LiveApp]) -> dict[str, LiveApp]:
        """Apps that run as they were last good, each with the environment that it had then.

        One whose environment is gone is left out until what its files ask for now is there.
        """
        revived: dict[str, LiveApp] = {}
        asked: dict[str, Recipe] = {}
        for name, item in found.items():
            try:
                environment, recipe = self._last_of(name, item)
            except (OSError, FileFailure):
                # Its files cannot be read, so no child of it could start; its schedules are known all the same.
                environment, recipe = None, None
            if recipe is None:
                revived[name] = replace(item, environment=environment)
            else:
                asked[name] = recipe
        with self._lock:
            known = dict(self._asked)
        self._ask(asked | known)
        return revived

    def _ask(self, asked: dict[str, Recipe]) -> None:
        with self._lock:
            is_news = self._asked != asked
            self._asked = asked
        if is_news:
            self.wake()

    def in_force(self, live: Mapping[str, LiveApp], changed: Collection[str]) -> None:
        """These apps run now; of the `changed` ones what they run with is remembered for the next start."""
        self._live = live
        for name in changed:
            # A disk that is full keeps no app from running.
            with suppress(OSError):
                if name in live:
                    environment = live[name].environment
                    self._shelf.remember(name, "" if environment is None else environment.key)
                else:
                    self._shelf.forget(name)
        self.wake()

    def _recipe_of(self, name: str, item: LiveApp) -> Recipe | None:
        runtime = item.app.runtime or ""
        version = (item.revision, runtime, item.directory)
        known = self._recipes.get(name)
        if known is None or known[0] != version:
            self._recipes[name] = known = (version, recipe_of(runtime, item.directory, self._interpreters))
        return known[1]

    def _held(self, key: str) -> Environment | None:
        with self._lock:
            return self._shelf.hold(key)

    def _last_of(self, name: str, item: LiveApp) -> tuple[Environment | None, Recipe | None]:
        """With what an app ran last; else what has to be made before it can run."""
        key = self._shelf.remembered(name)
        found = self._held(key) if key else None
        if found is not None or key == "":
            return found, None
        recipe = recipe_of(item.app.runtime or "", item.directory, self._interpreters)
        found = None if recipe is None else self._held(recipe.key)
        return found, None if found is not None else recipe

    def _not_read(self, item: LiveApp, error: OSError | FileFailure) -> UnbuiltApp:
        words = error.message if isinstance(error, FileFailure) else os_reason(error)
        name, kind = item.app.name, kind_of(item.app.runtime or "", item.directory)
        known = self._unreadable.get(name)
        if known is not None and known.reason == words:
            return known
        found = UnbuiltApp(
            app=name,
            file="its dependencies" if kind is None else kind.value,
            reason=words,
            since=self._now_text(),
            serves=self._serving(name),
        )
        self._tell_failed(found, None)
        return found

    # What others ask

    @property
    def unbuilt(self) -> tuple[UnbuiltApp, ...]:
        """The apps that wait, by name."""
        with self._lock:
            waiting = [self._standing(app, recipe) for app, recipe in self._asked.items()]
        return tuple(sorted((*waiting, *self._unreadable.values()), key=lambda each: each.app))

    def retry(self) -> None:
        """Somebody may have mended something: try at once what failed."""
        with self._lock:
            for job in self._jobs.values():
                job.retry_at = 0.0
        self.wake()

    def wake(self) -> None:
        """Make the loop come round now."""
        self._wake.set()

    def _serving(self, app: str) -> str:
        live = self._live.get(app)
        return "" if live is None else live.revision[:12]

    def _standing(self, app: str, recipe: Recipe) -> UnbuiltApp:
        job = self._jobs.get(recipe.key)
        failure = None if job is None else job.failure
        return UnbuiltApp(
            app=app,
            file=recipe.file,
            reason="" if failure is None else failure.reason,
            lines=() if failure is None else failure.lines,
            since="" if job is None else job.since,
            serves=self._serving(app),
        )

    # The loop

    def run(self, stop: threading.Event) -> None:
        """Build what is asked for until `stop` is set, then end what still builds."""
        try:
            while not stop.is_set():
                self._wake.clear()
                wait_s = _HOUSEKEEPING_S
                try:
                    wait_s = self.step()
                except Exception as error:  # noqa: BLE001  one bad environment must not end building
                    self._emit(LoopFailed(loop="environments", reason=f"{type(error).__name__}: {error}"))
                self._clock.wait(self._wake, wait_s)
        finally:
            self.close()

    def step(self) -> float:
        """Take what has ended, begin what is due; the seconds until something else is."""
        now = self._clock.monotonic()
        with self._lock:
            ended = [job for job in self._jobs.values() if job.is_over]
            for job in ended:
                job.thread, job.is_over = None, False
        for job in ended:
            self._take(job, now)
        with self._lock:
            self._match_jobs()
            starting = self._startable(now)
            waits = [job.retry_at - now for job in self._jobs.values() if job.thread is None and job not in starting]
        for job in starting:
            self._start(job, now)
        if now >= self._house_at:
            self._house_at = now + _HOUSEKEEPING_S
            self._keep_house()
        return max(_AGAIN_S, min((_HOUSEKEEPING_S, *(wait for wait in waits if wait > 0))))

    def _match_jobs(self) -> None:
        """A job for each environment that is asked for, and no other."""
        wanted: dict[str, Recipe] = {}
        for _, recipe in sorted(self._asked.items()):
            wanted.setdefault(recipe.key, recipe)
        for key, job in list(self._jobs.items()):
            if key not in wanted:
                job.cancelled.set()
                if job.thread is None:
                    del self._jobs[key]
        for key, recipe in wanted.items():
            known = self._jobs.get(key)
            if known is None:
                self._jobs[key] = _Job(recipe=recipe, since=self._now_text())
            elif known.thread is None:
                known.recipe = recipe

    def _startable(self, now: float) -> list[_Job]:
        room = MOST_BUILDING - sum(1 for job in self._jobs.values() if job.thread is not None)
        due = [job for job in self._jobs.values() if job.thread is None and job.retry_at <= now]
        return due[: max(0, room)]

    def _start(self, job: _Job, now: float) -> None:
        self._guard.ensure()
        self._builds += 1
        job.began_at, job.outcome = now, None
        job.cancelled = threading.Event()
        token = f"{self._token}.{self._builds}"
        if job.failure is None:
            for app in self._apps_of(job):
                self._emit(EnvironmentBuilding(app=app, file=job.recipe.file, serves=self._serving(app)))
        job.thread = threading.Thread(target=self._work, args=(job, token, job.cancelled), name="build")
        job.thread.start()

    def _work(self, job: _Job, token: str, cancelled: threading.Event) -> None:
        try:
            job.outcome = build(self._site, job.recipe, token, cancelled)
        except BuildFailed as failure:
            job.outcome = failure
        except Cancelled:
            job.outcome = None
        except Exception as error:  # noqa: BLE001  whatever it is, the app waits and somebody must hear why
            job.outcome = BuildFailed(f"{type(error).__name__}: {error}")
        finally:
            job.is_over = True
            self.wake()

    def _take(self, job: _Job, now: float) -> None:
        """What became of a build; one that was cancelled is begun again where somebody still asks for it."""
        outcome, apps = job.outcome, self._apps_of(job)
        if isinstance(outcome, BuildFailed):
            is_news = job.failure is None or job.failure.reason != outcome.reason
            job.failure = outcome
            job.attempts += 1
            job.retry_at = now + job.pause_s()
            for app in apps if is_news else ():
                self._tell_failed(self._standing(app, job.recipe), timedelta(seconds=job.pause_s()))
        elif outcome is None:
            job.retry_at = now + _AGAIN_S
        else:
            with self._lock:
                del self._jobs[job.recipe.key]
                self._asked = {app: recipe for app, recipe in self._asked.items() if recipe.key != job.recipe.key}
            self._is_swept = False
            for app in apps:
                took = timedelta(seconds=now - job.began_at)
                self._emit(EnvironmentBuilt(app=app, file=job.recipe.file, took=took))
            self._hint(apps)

    def _apps_of(self, job: _Job) -> list[str]:
        with self._lock:
            return sorted(app for app, recipe in self._asked.items() if recipe.key == job.recipe.key)

    def _tell_failed(self, app: UnbuiltApp, retry_in: timedelta | None) -> None:
        self._emit(
            EnvironmentFailed(
                app=app.app,
                file=app.file,
                reason=app.reason,
                lines=app.lines,
                serves=app.serves,
                retry_in=retry_in,
            )
        )

    def _now_text(self) -> str:
        return second_text(self._clock.now())

    # Clearing up

    def _keep_house(self) -> None:
        in_use = self._in_use()
        if in_use is None:
            return
        used = {directory.name for directory in in_use}
        used |= {item.environment.key for item in self._live.values() if item.environment is not None}
        with self._lock:
            # One that was idle the last time too: what has just been found for an app is not live yet.
            idle = frozenset(self._shelf.held) - used
            for key in idle & self._idle:
                self._shelf.release(key)
                self._is_swept = False
        self._idle = idle
        if not self._is_swept:
            self._is_swept = True
            for each in self._shelf.sweep():
                self._emit(EnvironmentRemoved(environment=each.key, file=each.file))

    def close(self) -> None:
        """End what still builds, and wait for that."""
        running = [(job, job.thread) for job in self._jobs.values() if job.thread is not None]
        for job, _ in running:
            job.cancelled.set()
        for _, thread in running:
            thread.join()
        with self._lock:
            for key in self._shelf.held:
                self._shelf.release(key)
        self._guard.close()


def supplied(
    parts: Parts, in_use: Callable[[], Collection[Path] | None], options: Options, clock: Clock, emit: Emit
) -> Supplier:
    """What a worker asks for environments, as its options say."""
    if options.building is None:
        return AsTheyAre()
    return Environments(
        options.building,
        base_environ=options.base_environ,
        hint=lambda apps: parts.reconciler.hint(apps),  # noqa: PLW0108 - it is made later
        in_use=in_use,
        clock=clock,
        emit=emit,
    )
