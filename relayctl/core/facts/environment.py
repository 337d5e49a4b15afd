"""Facts of environments: what the dependencies of apps are installed into, and what keeps that from being done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from relayctl.core.facts.fact import Fact, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentBuilding(Fact):
    """An app waits for an environment that is being made from `file`; `serves` is the revision that runs, or empty."""

    event: ClassVar[str] = "environment-building"
    app: str
    file: str
    serves: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentBuilt(Fact):
    """The environment that an app waited for is there."""

    event: ClassVar[str] = "environment-built"
    app: str
    file: str
    took: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFailed(Fact):
    """An environment cannot be made; told once for each reason. `serves` is the revision that goes on, or empty.

    `lines` are the last ones of the installer, without credentials.
    """

    event: ClassVar[str] = "environment-failed"
    level: ClassVar[Level] = Level.ERROR
    app: str
    file: str
    reason: str
    lines: tuple[str, ...]
    serves: str
    retry_in: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRemoved(Fact):
    """An environment that nobody has used for a while was removed."""

    event: ClassVar[str] = "environment-removed"
    level: ClassVar[Level] = Level.DEBUG
    environment: str
    file: str
