"""What is told of a worker's tree: apps that load, break and go, a source that is lost and back; each thing once.

It decides nothing: the reconciler says what it found and what it made of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from relayctl.core.facts import AppBroken, AppLoaded, AppRemoved, ReleaseAwaited, SourceBack, SourceLost
from relayctl.core.occurrence import second_text
from relayctl.core.running import BrokenApp

if TYPE_CHECKING:
    from relayctl.core.facts import Emit
    from relayctl.core.model import Schedule
    from relayctl.core.problem import Problem
    from relayctl.host.clock import Clock
    from relayctl.templates.load import Loaded
    from relayctl.worker.agenda import Name
    from relayctl.worker.snapshot import LiveApp


class TreeNews:
    """Used by the reconciler's thread. `is_lost` says whether the source gave nothing at the last look."""

    def __init__(self, label: str, clock: Clock, emit: Emit) -> None:
        """`label` is what the source is called."""
        self._label = label
        self._clock = clock
        self._emit = emit
        self._versions: dict[str, str] = {}
        self._broken: dict[str, BrokenApp] = {}
        self.is_lost = False
        self._is_awaited = False

    def lost(self, reason: str, *, running: int, is_last_good: bool) -> None:
        """The source cannot be read."""
        if not self.is_lost:
            self.is_lost = True
            self._emit(SourceLost(source=self._label, reason=reason, running=running, is_last_good=is_last_good))

    def awaited(self) -> None:
        """Nothing was ever put there, so that there is nothing to lose; told once."""
        if not self.is_lost:
            self.is_lost = self._is_awaited = True
            self._emit(ReleaseAwaited(source=self._label))

    def back(self) -> None:
        """The source can be read."""
        if self.is_lost:
            was_awaited, self._is_awaited, self.is_lost = self._is_awaited, False, False
            if was_awaited:
                return
            self._emit(SourceBack(source=self._label))

    def broken(
        self,
        misfits: Mapping[str, Problem],
        broken: Mapping[str, tuple[str, Loaded]],
        *,
        others: int,
        in_force: Collection[str],
    ) -> None:
        """These directories and templates cannot be used; told once for each version of them."""
        for name, problem in misfits.items():
            self._tell(name, problem.code + problem.message, [problem], others, name in in_force)
        for name, (version, loaded) in broken.items():
            errors = [problem for problem in loaded.problems if problem.is_error]
            self._tell(name, version, errors, others, name in in_force)

    def _tell(self, name: str, version: str, errors: Sequence[Problem], others: int, has_last_good: bool) -> None:
        if self._versions.get(name) == version:
            return
        self._versions[name] = version
        first = errors[0]
        self._remember(name, first)
        self._emit(
            AppBroken(
                app=name,
                place=f"{first.place.file}:{first.place.line}",
                code=first.code,
                problem=first.message,
                problems=len(errors),
                others=others,
                has_last_good=has_last_good,
            )
        )

    def _remember(self, name: str, first: Problem) -> None:
        # A second mistake in the same file does not make the first younger.
        known = self._broken.get(name)
        self._broken[name] = BrokenApp(
            app=name,
            place=f"{first.place.file}:{first.place.line}",
            problem=f"{first.code} {first.message}",
            since=second_text(self._clock.now()) if known is None else known.since,
        )

    def changed(
        self,
        live: Mapping[str, LiveApp],
        following: Mapping[str, LiveApp],
        deployed: Collection[str],
        mended: Collection[str],
    ) -> None:
        """`following` is in force where `live` was; `mended` are the apps that can be read now, whatever they were."""
        recovered = [name for name in self._versions if name in mended]
        for name in sorted({*deployed, *recovered}):
            old = schedules_of({name: live[name]}) if name in live else {}
            new = schedules_of({name: following[name]})
            self._emit(
                AppLoaded(
                    app=name,
                    revision=following[name].revision[:12],
                    added=len(new.keys() - old.keys()),
                    changed=sum(1 for key in new.keys() & old.keys() if new[key] != old[key]),
                    removed=len(old.keys() - new.keys()),
                    was_broken=name in recovered,
                )
            )
        for name in recovered:
            del self._versions[name]
        for name in sorted(live.keys() - following.keys()):
            self._versions.pop(name, None)
            self._emit(AppRemoved(app=name, schedules=len(live[name].app.schedules)))

    def forget_all_but(self, unclear: Collection[str]) -> None:
        """What has vanished without ever having been live is news when it comes back."""
        self._versions = {name: told for name, told in self._versions.items() if name in unclear}

    def records(self, unclear: Collection[str]) -> tuple[BrokenApp, ...]:
        """What was told of the apps that are still broken, by name."""
        self._broken = {name: told for name, told in self._broken.items() if name in unclear}
        return tuple(self._broken[name] for name in sorted(self._broken))


def schedules_of(live: Mapping[str, LiveApp]) -> dict[Name, Schedule]:
    """The schedules of these apps, by app and name."""
    return {(name, schedule.name): schedule for name, item in live.items() for schedule in item.app.schedules}
