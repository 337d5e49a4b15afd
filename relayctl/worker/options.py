"""What a worker is told from outside, once; it reads no setting itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.output import OutputLimits
from relayctl.runners.cgroups import NOTHING, Delegation

if TYPE_CHECKING:
    from relayctl.host.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """Where environments lie, how long a build may take, and the variables that installers get and handlers do not."""

    root: Path
    limit: timedelta
    environ: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a worker is told from outside."""

    drain: timedelta
    resync: timedelta | None
    cap: timedelta
    horizon: timedelta
    max_event_bytes: int
    max_children: int
    base_environ: Mapping[str, str]
    outbox: Path
    min_replica_acks: int = 0
    runs_services: bool = True
    outputs: OutputLimits = field(default_factory=OutputLimits)
    last_good: Path | None = None
    """Where the last good templates are kept; without it a start beside a broken one does not know that app."""
    delegation: Delegation = NOTHING
    """The control groups that this worker may make for its children."""
    building: Building | None = None
    """How environments of apps are built; without it every app runs on what the worker itself runs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTime:
    """What goes with a clock that a test holds: the broker's time is held too, and that of the children is not."""

    instant: Callable[[], int]
    """What the broker's scripts are handed as the time, in milliseconds since 1970."""
    runs: Clock
    """What children and their timeouts go by: they are real processes, and live in real time."""
