"""A plan that was saved, what it rests on, and why it may not be applied any more. Reads no file and asks nobody.

`apply` makes its plan anew from the same tree: a saved plan binds what may be done, it is not carried out itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from relayctl.core.definition import TOMBSTONE
from relayctl.core.occurrence import instant_text
from relayctl.core.plan import Action, Change, Plan
from relayctl.core.planjson import Part, plan_from_json, plan_to_json, wrong
from relayctl.core.running import Running, baseline
from relayctl.errors import NewerFormat

PLAN_FILE_VERSION = 1
KIND = "relayctl plan"
_SHORT = 8
_ID = re.compile(r"[0-9a-f]{8,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a plan rests on: the namespace, the broker's epoch (empty where none runs or it is not marked), the serial
    of the release in force (None without any), the digests of what runs and of the templates, and how many schedules
    run.
    """

    namespace: str
    epoch: str
    release: int | None
    running: str
    template: str
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How a plan was headed when it was made, and what it warned of; empty where there was nothing."""

    desired: str
    running: str
    guard: str = ""
    limits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """A plan of a file. Its `id` is good for one release. `by` is user@host."""

    id: str
    made_at: datetime
    by: str
    basis: Basis
    plan: Plan
    words: Words

    @property
    def short_id(self) -> str:
        """As much of the id as people read."""
        return self.id[:_SHORT]


class Reason(Enum):
    """Why a saved plan may not be applied."""

    NAMESPACE = "another namespace"
    APPLIED = "applied before"
    LOST = "what ran is gone"  # a broker that was emptied or replaced
    MOVED = "something else runs by now"  # another apply, or an edit that workers follow
    EDITED = "the templates were edited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A release, as far as a refusal speaks of it."""

    serial: int
    at: datetime
    by: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason with what is there now. `release` is the one that stands in the way, where one does."""

    reason: Reason
    saved: SavedPlan
    now: Basis
    release: Applied | None = None
    overlap: tuple[str, ...] = ()
    """Of MOVED: what this plan would change and something else changed since, as `app/name` or an app."""


def refusal_of(
    saved: SavedPlan,
    now: Basis,
    *,
    applied: Applied | None = None,
    latest: Applied | None = None,
    fresh: Plan | None = None,
) -> Refusal | None:
    """Why the plan may not be applied to what is there now, or None.

    `applied` is the release that carries this plan's id, `latest` the one in force; `fresh` is the plan that would be
    made now, for the overlap.
    """
    was = saved.basis
    if was.namespace != now.namespace:
        return Refusal(reason=Reason.NAMESPACE, saved=saved, now=now)
    if applied is not None:
        return Refusal(reason=Reason.APPLIED, saved=saved, now=now, release=applied)
    is_other_broker = bool(was.epoch) and was.epoch != now.epoch
    # Where another apply removed everything, its release says so.
    is_emptied = was.schedules > 0 and now.schedules == 0 and now.release in {None, was.release}
    if is_other_broker or is_emptied:
        return Refusal(reason=Reason.LOST, saved=saved, now=now)
    if was.release != now.release or was.running != now.running:
        overlap = () if fresh is None else tuple(overlapping(saved.plan, fresh))
        other = latest if was.release != now.release else None
        return Refusal(reason=Reason.MOVED, saved=saved, now=now, release=other, overlap=overlap)
    if was.template != now.template:
        return Refusal(reason=Reason.EDITED, saved=saved, now=now)
    return None


def overlapping(saved: Plan, fresh: Plan) -> Iterator[str]:
    """What the saved plan would change and the fresh one changes otherwise or not at all."""
    left = {_key(change): _deed(change) for change in fresh.changes}
    for change in saved.changes:
        if change.action is not Action.KEEP and left.get(_key(change)) != _deed(change):
            yield f"{change.app}/{change.name}" if change.name else change.app


def _key(change: Change) -> tuple[str, str, str, str]:
    return change.item.value, change.app, change.name, change.worker


def _deed(change: Change) -> tuple[object, ...]:
    return change.action, change.when, change.handler, frozenset(change.fields)


def running_digest(running: Running) -> str:
    """A digest of what is in force and of what most workers run. Drift of a few, pauses and loads are not in it."""
    heads = {f"{app}/{name}": entry.hash for (app, name), entry in running.registry.items() if entry.hash != TOMBSTONE}
    apps = {
        name: [dict(each.settings), _sorted(each.schedules), _sorted(each.events), _sorted(each.services)]
        for name, each in baseline(running).items()
    }
    text = json.dumps([heads, apps], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _sorted(items: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {name: dict(fields) for name, fields in items.items()}


def to_document(saved: SavedPlan) -> dict[str, Any]:
    """The document of a plan file. It holds no value of the environment and no secret, only names and digests."""
    basis, words = saved.basis, saved.words
    return {
        "kind": KIND,
        "v": PLAN_FILE_VERSION,
        "id": saved.id,
        "made_at": instant_text(saved.made_at),
        "by": saved.by,
        "basis": {name: getattr(basis, name) for name in Basis.__slots__},
        "words": {name: getattr(words, name) for name in Words.__slots__},
        "plan": plan_to_json(saved.plan),
    }


def _id(part: Part) -> str:
    # It goes into the release, where it tells plans apart: an empty one would be that of every release without a plan.
    text = part.text("id")
    if _ID.fullmatch(text) is None:
        raise wrong("id", "8 to 64 characters of 0-9 and a-f")
    return text


def from_document(document: object) -> SavedPlan:
    """The plan of a document. UsageError where it is none, NewerFormat where a newer relayctl wrote it."""
    part = Part(document)
    if part.text("kind") != KIND:
        raise wrong("kind", f'"{KIND}"')
    version = part.number("v")
    if version > PLAN_FILE_VERSION:
        raise NewerFormat(
            f"the plan was saved by a newer relayctl (form {version}, known is {PLAN_FILE_VERSION})",
            help="use that relayctl, or make the plan again here: relayctl plan --out FILE",
        )
    basis, words = part.part("basis"), part.part("words")
    try:
        plan = plan_from_json(part.part("plan"))
    except OverflowError:
        raise wrong("plan", "within the times that a clock can show") from None
    return SavedPlan(
        id=_id(part),
        made_at=part.instant("made_at"),
        by=part.text("by"),
        basis=Basis(
            namespace=basis.text("namespace"),
            epoch=basis.text("epoch"),
            release=basis.optional_number("release"),
            running=basis.text("running"),
            template=basis.text("template"),
            schedules=basis.number("schedules"),
        ),
        plan=plan,
        words=Words(
            desired=words.text("desired"),
            running=words.text("running"),
            guard=words.text("guard"),
            limits=words.text("limits"),
        ),
    )
