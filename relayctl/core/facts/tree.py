"""Facts of the tree: apps that load, break, go; definitions that are superseded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relayctl.core.facts.fact import Fact, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class AppLoaded(Fact):
    """An app is live in a new revision; the counts are schedules."""

    event: ClassVar[str] = "app-loaded"
    app: str
    revision: str
    added: int
    changed: int
    removed: int
    was_broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppBroken(Fact):
    """An app's template has errors; `place` is file:line, `others` the apps that are not affected."""

    event: ClassVar[str] = "app-broken"
    level: ClassVar[Level] = Level.ERROR
    app: str
    place: str
    code: str
    problem: str
    problems: int
    others: int
    has_last_good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRefused(Fact):
    """An app's new code cannot be loaded; the build before it goes on serving."""

    event: ClassVar[str] = "build-refused"
    level: ClassVar[Level] = Level.ERROR
    app: str
    revision: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundElsewhere(Fact):
    """A release binds the fleet to another revision of an app than this worker has: it leaves that app to its peers."""

    event: ClassVar[str] = "bound-elsewhere"
    level: ClassVar[Level] = Level.WARNING
    app: str
    revision: str
    pinned: str
    release: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportsUnshared(Fact):
    """An app of `isolation: fresh` imports its handlers for every run, since forks cannot share what importing does."""

    event: ClassVar[str] = "imports-unshared"
    level: ClassVar[Level] = Level.WARNING
    app: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRemoved(Fact):
    """An app left the tree and its schedules ended."""

    event: ClassVar[str] = "app-removed"
    app: str
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLost(Fact):
    """The apps directory vanished or cannot be read; the apps that run (`running` of them) go on as they were."""

    event: ClassVar[str] = "source-lost"
    level: ClassVar[Level] = Level.ERROR
    source: str
    reason: str
    running: int
    is_last_good: bool = False
    """Whether they are what this worker kept when the directory could still be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAwaited(Fact):
    """Nothing was ever published to this namespace; the worker waits for a first release."""

    event: ClassVar[str] = "release-awaited"
    level: ClassVar[Level] = Level.INFO
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastGoodUnusable(Fact):
    """What is kept for a start beside a broken template cannot be read, used or written; `app` is empty for all."""

    event: ClassVar[str] = "last-good-unusable"
    level: ClassVar[Level] = Level.WARNING
    app: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsHandedOver(Fact):
    """External events that an app may want which cannot be read here are handed over to peers that have it.

    `unread` is empty where the whole directory cannot be read.
    """

    event: ClassVar[str] = "events-handed-over"
    level: ClassVar[Level] = Level.WARNING
    unread: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBack(Fact):
    """The apps directory can be read again."""

    event: ClassVar[str] = "source-back"
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionTaken(Fact):
    """A commit or release is in force here instead of `was`, which is empty for the first one."""

    event: ClassVar[str] = "revision-taken"
    source: str
    revision: str
    was: str
    apps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionHeld(Fact):
    """A commit does not validate, so nothing of it is taken; `in_force` (empty: none) stays. Told once for each."""

    event: ClassVar[str] = "revision-held"
    level: ClassVar[Level] = Level.ERROR
    source: str
    revision: str
    problem: str
    problems: int
    in_force: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRefused(Fact):
    """Somebody demanded a fetch without the right signature; told once, and again after a right one."""

    event: ClassVar[str] = "hook-refused"
    level: ClassVar[Level] = Level.WARNING
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalHeld(Fact):
    """A pass wants to remove too much at once and waits for consent."""

    event: ClassVar[str] = "removal-held"
    level: ClassVar[Level] = Level.WARNING
    revision: str
    removed: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleUnreadable(Fact):
    """The broker's record of this schedule was not written by relayctl; the others go on."""

    event: ClassVar[str] = "schedule-unreadable"
    level: ClassVar[Level] = Level.ERROR
    app: str
    schedule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBehind(Fact):
    """This checkout's definition is superseded; the fleet's one is run."""

    event: ClassVar[str] = "schedule-behind"
    level: ClassVar[Level] = Level.WARNING
    app: str
    schedule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMoved(Fact):
    """A schedule goes on under a new name, with its past, its pause and all that it owes."""

    event: ClassVar[str] = "schedule-moved"
    app: str
    schedule: str
    moved_from: str
