"""What every source of desired state has in common: what is seen of the apps, how the source stands, how it is asked.

Types only. What is done about what a source shows is the reconciler's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from relayctl.core.occurrence import second_text
from relayctl.core.problem import Problem

if TYPE_CHECKING:
    import threading

    from relayctl.templates.load import Loaded

SHOWN_DIGITS = 12
"""So much of a revision tells it apart, for people."""

InUse = Callable[[], Collection[Path] | None]
"""The directories of apps that run here, or None where that cannot be said now."""
Hint = Callable[[frozenset[str] | None], None]
"""Called with the apps that were touched, or None where it may be anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One app as it lies there: its directory with links resolved, and the digest of its files.

    `place` names where it lies for as long as it is the same app, where each revision has a directory of its own.
    """

    directory: Path
    digest: str
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The tree at one moment. With `trouble` it could not be read, and the absence of an app means nothing.

    `is_busy` says that a checkout is going on in it, `is_settled` that it was put there whole, so that nothing more of
    the same change is to come, `is_agreed` that somebody agreed to all that it removes. `stale` says why there may be
    newer apps than these. `revision` names what it holds. With `is_awaited` the trouble is that nothing
    was ever put there.
    """

    apps: Mapping[str, Sighting] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    revision: str = ""
    trouble: str | None = None
    stale: str | None = None
    is_busy: bool = False
    is_settled: bool = False
    is_agreed: bool = False
    is_awaited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is wrong, and since when."""

    reason: str
    since: datetime

    @property
    def words(self) -> str:
        """Both, for people."""
        return f"{self.reason}, since {second_text(self.since)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStanding:
    """How a source stands: what it gives since when, why it cannot be asked, which newer revision is not taken.

    `busy` says who has been asking for a while, and since when; `awaits` what is waited for, where nothing was ever
    there.
    """

    label: str
    revision: str = ""
    since: datetime | None = None
    trouble: Trouble | None = None
    held: Trouble | None = None
    busy: str = ""
    awaits: str = ""

    @property
    def since_text(self) -> str:
        """Since when it gives that, in RFC 3339; empty while it gives nothing."""
        return "" if self.since is None else second_text(self.since)

    @property
    def words(self) -> str:
        """What it is and gives, for people."""
        at = f" at {self.revision}" if self.revision else ""
        return f"{self.label}{at}{f' since {self.since_text}' if self.since else ''}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What somebody should know of it, for people."""
        words = tuple(trouble.words for trouble in (self.trouble, self.held) if trouble is not None)
        return (self.awaits, *words) if self.awaits else words


class Source(Protocol):
    """Where apps come from. `look` and `load` belong to one thread, the rest may be called from any."""

    @property
    def label(self) -> str:
        """What it is called in messages."""

    @property
    def mode(self) -> str:
        """How a namespace that lives from it gets its desired state: pull or push."""

    @property
    def root(self) -> Path:
        """The directory of the apps that it gives now; another one after each change where that is put there whole."""

    @property
    def is_partial(self) -> bool:
        """Whether apps are left out on purpose, so that their absence here says nothing about the fleet."""

    @property
    def only(self) -> frozenset[str] | None:
        """The apps that this worker is for; None for all that there are."""

    @property
    def standing(self) -> SourceStanding:
        """How it stands."""

    def is_wanted(self, name: str) -> bool:
        """Whether this worker is for that app, as far as its name says."""

    def look(self, touched: Collection[str] | None = None) -> View:
        """What is there. With `touched`, only those apps (and unknown ones) need be looked at again."""

    def load(self, name: str) -> Loaded:
        """Read and check one app."""

    def demand(self) -> None:
        """Ask where it comes from whether there is something new, as soon as possible; returns at once."""

    def settle(self, in_use: InUse) -> None:
        """What was put there for earlier revisions may be let go, but for what is in use; often called, and cheap."""


class Watch(Protocol):
    """What gives hints about a source. `run` is the body of a thread of its own."""

    def run(self, stop: threading.Event) -> None:
        """Go on until `stop` is set; whoever sets it also calls `wake`."""

    def wake(self) -> None:
        """Come out of a wait."""
