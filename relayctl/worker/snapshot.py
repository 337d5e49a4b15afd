"""What a worker has live at one moment: apps with revision and directory. Replaced whole, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.lifecycle import Slot
from relayctl.core.model import App, EventRule, Schedule
from relayctl.runners.environments.environment import Environment

if TYPE_CHECKING:
    from relayctl.worker.agenda import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveApp:
    """One app as it is live here. `revision` is the digest of its files, `template` that of its template alone."""

    app: App
    revision: str
    template: str
    directory: Path
    place: str = ""
    """What its directory counts as: a service is not replaced because the same code lies elsewhere within one place."""
    environment: Environment | None = None
    """What its dependencies are installed in; None where it runs on what the worker itself runs on."""

    def resolve(self, slot: Slot) -> Schedule | EventRule | None:
        """The schedule or event rule that a slot means today, or None where the template no longer has it."""
        if slot.schedule is not None:
            return self.app.schedule(slot.schedule)
        return next((rule for rule in self.app.events if rule.contract.handler == slot.text), None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All live apps. `seq` tells two snapshots apart."""

    live: Mapping[str, LiveApp] = field(default_factory=dict)
    seq: int = 0

    @property
    def apps(self) -> Mapping[str, App]:
        """The apps themselves."""
        return {name: item.app for name, item in self.live.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a pass changes: the apps to deploy, the apps to take out, the schedules that end."""

    deployed: Mapping[str, LiveApp]
    removed: frozenset[str]
    ended: frozenset[Name]
