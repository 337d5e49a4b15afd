"""What the pool knows of one app, and the words for what went wrong with it. Values only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from relayctl.runners.build import Build
from relayctl.runners.childproc import Child
from relayctl.runners.invocation import Run
from relayctl.runners.limits import excess_of
from relayctl.runners.output import NO_SECRETS, Masker
from relayctl.runners.runner import Runner

MOST_EXCUSES = 8


class Settled(NamedTuple):
    """What became of a deployed build: it serves, or it was refused and the one before it goes on."""

    app: str
    revision: str
    is_serving: bool
    reason: str


@dataclass(slots=True, kw_only=True)
class DeployedApp:
    """`idle` is in order of rest: the one that worked last is at the end."""

    build: Build
    runner: Runner
    next: tuple[Build, Runner] | None = None
    probe: Child | None = None
    idle: list[Child] = field(default_factory=list)
    starting: int = 0
    running: int = 0
    waiting: deque[Run] = field(default_factory=deque)
    failures: int = 0
    excuses: int = 0
    retry_at: float = 0.0
    trouble: str = ""
    refusal: str = ""
    unshared: str = ""
    is_preloading: bool = True
    secrets: dict[str, str] = field(default_factory=dict)
    masker: Masker = NO_SECRETS

    def is_excused(self, child: Child) -> bool:
        """Whether a child that was never ready may be tried again at once: its zygote had done well, but was ended.

        Not more often than a few times in a row, or a zygote that ends itself would be started for ever.
        """
        self.excuses += child.process.lost_its_parent()
        return child.process.lost_its_parent() and self.excuses <= MOST_EXCUSES

    @property
    def is_grown(self) -> bool:
        """Whether all children that its concurrency allows are there, and stay for the next run."""
        have = len(self.idle) + self.starting + self.running
        return not self.runner.is_single_use and have >= self.build.concurrency

    def wanted(self, n: int) -> tuple[int, int]:
        """How many more children `n` runs need, and how many of them only once others have ended.

        Those that serve one run are made while the ones before them run.
        """
        have, most = len(self.idle) + self.starting, self.build.concurrency
        now = min(n, most - self.running) - have
        if not self.runner.is_single_use:
            return now, 0
        ahead = min(n, most) - have
        return ahead, ahead - max(0, now)


def places_of(apps: Iterable[DeployedApp], children: Iterable[Child]) -> set[Path]:
    """The directories from which something runs or is about to."""
    builds = [build for each in apps for build in (each.build, each.next and each.next[0]) if build]
    return {place for build in (*builds, *(child.build for child in children)) for place in build.places}


def why_not_ready(failed: list[Any]) -> str:
    """Handlers that could not be imported, with reasons."""
    return "; ".join(f"{handler}: {reason}" for handler, reason in failed[:3])


def in_words(error: Exception) -> str:
    """An error as people read it."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def ended_early(child: Child) -> str:
    """Why a child that ended before it was ready may have done so."""
    said = child.last_words + child.process.last_words()
    excess = excess_of(child.process.group, child.build.resources)
    if excess:
        return f"a child ended before it was ready: {excess}"
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return f"a child ended before it was ready{': ' + lines[-1].strip()[:300] if lines else ''}"
