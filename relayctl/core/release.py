"""A release: a numbered revision of the apps tree that an operator published, as it is kept and told.

Values only. Who publishes one, and what a worker makes of it, is decided elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

RELEASE_VERSION = 1
KEPT_RELEASES = 100
KEPT_BUNDLES = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What an operator wants to publish: everything of a release but its number and its time.

    `id` is made once per attempt, so that a publication whose reply was lost is known again. `digest` names the bundle,
    `tree` is the digest of the whole tree as workers compute it, `revisions` maps each app to its own. `commit` is the
    git commit where the tree was a clean checkout, `plan` the id of a saved plan, `rolls_back_to` the release whose
    content this is again. `counts` are the changes by kind, as the plan had them.
    """

    id: str
    base: int
    digest: str
    tree: str
    by: str
    revisions: Mapping[str, str]
    message: str = ""
    commit: str = ""
    plan: str = ""
    rolls_back_to: int | None = None
    schedules: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text that is kept beside the number and the time."""
        document: dict[str, Any] = {"v": RELEASE_VERSION}
        document |= {name: getattr(self, name) for name in self.__slots__}
        document["revisions"], document["counts"] = dict(self.revisions), dict(self.counts)
        return json.dumps(document, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A published draft: `serial` counts upwards by one, `made_at` is the broker's time."""

    serial: int
    made_at: datetime
    draft: Draft

    @property
    def digest(self) -> str:
        """The digest of its bundle."""
        return self.draft.digest

    @property
    def revisions(self) -> Mapping[str, str]:
        """App to the revision that it binds the fleet to."""
        return self.draft.revisions

    @property
    def made_ms(self) -> int:
        """When it was published, in milliseconds since 1970."""
        return (self.made_at - _EPOCH) // _MS

    @property
    def record(self) -> str:
        """The text under which the broker keeps it."""
        return f"{self.made_ms}|{self.draft.id}|{self.draft.digest}|{self.draft.to_json()}"

    @classmethod
    def from_record(cls, serial: int, text: str) -> Release | None:
        """Read a kept record; None where a newer relayctl wrote it. ValueError where none did."""
        try:
            made_ms, _, _, draft = text.split("|", 3)
            document = json.loads(draft)
            if document.pop("v", 0) > RELEASE_VERSION:
                return None
            known = {name: document[name] for name in Draft.__slots__ if name in document}
            return cls(serial=serial, made_at=_EPOCH + int(made_ms) * _MS, draft=Draft(**known))
        except (AttributeError, TypeError, OverflowError) as error:
            raise ValueError("no record of a release") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """Who is publishing now: `since` is when the broker gave the lease, `left` how long it has still to run."""

    by: str
    pid: int
    command: str
    since: datetime
    left: timedelta = timedelta(0)


def tree_digest(revisions: Mapping[str, str]) -> str:
    """The digest of a whole tree by those of its apps, as whoever loads it computes it."""
    text = "\n".join(f"{app} {revisions[app]}" for app in sorted(revisions))
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one live worker says of its apps: the revision of each, and the digest of them that its last sign of life
    carried, which may be newer or older than the list.

    `pending` are those whose newest code does not serve yet, `refused` maps those whose code does not load, and
    `broken` those whose template does not, to the reason.
    """

    apps: Mapping[str, str]
    running: str
    is_partial: bool = False
    pending: Sequence[str] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)


def lacking(held: Held | None, revisions: Mapping[str, str]) -> tuple[str, ...]:
    """What keeps a worker from running a release that binds the fleet to these revisions, in words; empty when nothing.

    None is a worker that has not said anything yet. One that is for some apps only owes nothing of the others.
    """
    if held is None:
        return ("it has not said yet what it runs",)
    lacks: list[str] = []
    for app, revision in sorted(revisions.items()):
        has = held.apps.get(app)
        if app in held.broken and has != revision:
            lacks.append(f"app {app}: {held.broken[app]}")
        elif app in held.refused and has == revision:
            lacks.append(f"app {app}: {held.refused[app]}; it admits nothing new of {app}")
        elif has is None and not held.is_partial:
            lacks.append(f"app {app} is not there yet")
        elif has is not None and has != revision:
            lacks.append(f"app {app} is at {has[:8]} and not yet at {revision[:8]}")
        elif app in held.pending:
            lacks.append(f"app {app}: its new code is being loaded")
    lacks += [f"app {app} is still there" for app in sorted(held.apps.keys() - revisions.keys())]
    mine = {app: revision for app, revision in revisions.items() if app in held.apps}
    if not lacks and held.running != tree_digest(mine if held.is_partial else revisions):
        return ("it is about to say what it runs",)
    return tuple(lacks)
