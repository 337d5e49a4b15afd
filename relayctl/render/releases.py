"""Releases for people and for programs: lists, one in full, what an apply did, and why one was refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from relayctl.core.counting import counted
from relayctl.core.forecast import zone_of
from relayctl.core.occurrence import second_text
from relayctl.core.plan import Action, Change, Item, Plan
from relayctl.core.release import Release
from relayctl.render.instants import local_text, span_text, utc_text
from relayctl.render.plan import MARKS, label
from relayctl.render.table import columns

RELEASES_VERSION = 1
_SHORT = 8
_DONE = {
    Action.CREATE: "created",
    Action.CHANGE: "changed",
    Action.REMOVE: "removed",
    Action.RESTORE: "restored",
    Action.REFIRE: "changed",
}
_ORDER = ("created", "changed", "restored", "removed")
_LABEL = 26
_WIDEST = 44
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply did. `lacks` maps each live worker to what keeps it from the release, None where nobody waited;
    `recoded` are apps of which only files changed. `previous` is the release before it, 0 where there was none."""

    release: Release
    plan: Plan
    recoded: Sequence[str]
    previous: int
    lacks: Mapping[str, Sequence[str]] | None
    waited: timedelta
    took: timedelta


def listing(releases: Sequence[Release], kept: frozenset[str], in_force: int) -> str:
    """All releases on record as a table."""
    if not releases:
        return "Nothing was applied yet.\n"
    rows = [("RELEASE", "APPLIED", "BY", "CHANGES", "COMMIT", "BUNDLE", "MESSAGE")]
    rows += [
        (
            f"{each.serial}{' *' if each.serial == in_force else ''}",
            utc_text(_minute(each.made_at)),
            each.draft.by,
            _changes(each) or "-",
            each.draft.commit[:_SHORT] or "-",
            "kept" if each.digest in kept else "gone",
            _cut(_message(each)) or "-",
        )
        for each in releases
    ]
    return columns(rows) + "* is in force. Back to one whose bundle is kept:  relayctl rollback RELEASE\n"


def details(release: Release, *, is_kept: bool, is_in_force: bool) -> str:
    """One release in full."""
    draft = release.draft
    bundle = f"{release.digest[:12]} ({'kept' if is_kept else 'not kept any more'})"
    rows = [
        ("Release", f"{release.serial}{', in force' if is_in_force else ''}"),
        ("Applied", f"{utc_text(release.made_at.replace(microsecond=0))} by {draft.by}"),
        ("Built on", f"release {draft.base}" if draft.base else "nothing: it was the first"),
        ("Message", _message(release) or "-"),
        ("Changes", _changes(release) or "none but in files"),
        ("Commit", draft.commit or "none: in no checkout, or not all of it was committed"),
        ("Bundle", bundle),
        ("Tree", f"{draft.tree[:12]} · {counted(len(draft.revisions), 'app')}, {counted(draft.schedules, 'schedule')}"),
    ]
    lines = [f"{name:<10}{value}" for name, value in rows]
    lines += ["", *columns([("APP", "REVISION"), *sorted(draft.revisions.items())]).splitlines()]
    return "\n".join(lines) + "\n"


def document(release: Release, *, is_kept: bool, is_in_force: bool) -> dict[str, Any]:
    """One release for programs."""
    draft = release.draft
    return {
        "serial": release.serial,
        "made_at": second_text(release.made_at),
        "by": draft.by,
        "message": draft.message,
        "base": draft.base,
        "rolls_back_to": draft.rolls_back_to,
        "digest": draft.digest,
        "tree": draft.tree,
        "commit": draft.commit,
        "plan": draft.plan,
        "schedules": draft.schedules,
        "changes": dict(draft.counts),
        "revisions": dict(draft.revisions),
        "bundle_kept": is_kept,
        "in_force": is_in_force,
    }


def question(plan: Plan, recoded: Sequence[str], namespace: str) -> str:
    """What is asked before it is done."""
    removed = sum(1 for each in plan.changes if each.action is Action.REMOVE and each.item is Item.SCHEDULE)
    others = sum(1 for each in plan.changes if each.action is not Action.KEEP)
    if removed:
        what = f"removes {counted(removed, 'schedule')} from"
    elif others:
        what = f"changes {counted(others, 'item')} in"
    elif recoded:
        what = f"puts new files of {counted(len(recoded), 'app')} in force in"
    else:
        what = "binds every worker of"
    return f"This {what} {namespace}. Type yes to apply: "


def unchanged_text(release: Release | None, schedules: int, on_it: int, workers: int) -> str:
    """That there is nothing to do."""
    which = "what runs" if release is None else f"release {release.serial}"
    sync = "no live worker" if not workers else f"{on_it} of {counted(workers, 'worker')} on it"
    return f"No changes. {counted(schedules, 'schedule')} match{'es' if schedules == 1 else ''} {which}; {sync}.\n"


def applied_text(done: Applied) -> str:
    """What was done, line by line, and how to undo it."""
    shown = [change for change in done.plan.changes if change.action is not Action.KEEP]
    wide = max([_LABEL, *(len(name) for change in shown if len(name := _name(change)) <= _WIDEST)])
    lines = [_line(change, wide) for change in shown]
    lines += [f"  ~ {app:<{wide}} new files" for app in done.recoded]
    lines += ["", *_workers(done)] if lines else _workers(done)
    counts = _by_action(done.plan)
    what = ", ".join(f"{counts[word]:,} {word}" for word in _ORDER if counts.get(word)) or "new files"
    lines.append(f"Applied: {what}. Release {done.release.serial}. {span_text(done.took)}")
    if done.previous:
        lines.append(f"Undo:    relayctl rollback {done.previous}")
    return "\n".join(lines) + "\n"


def applied_document(done: Applied) -> dict[str, Any]:
    """The same for programs. `workers` is null where nobody waited."""
    lacks = done.lacks
    return {
        "v": RELEASES_VERSION,
        "applied": True,
        "release": document(done.release, is_kept=True, is_in_force=True),
        "previous": done.previous,
        "recoded": list(done.recoded),
        "converged": None if lacks is None else bool(lacks) and not any(lacks.values()),
        "workers": None
        if lacks is None
        else [{"worker": worker, "on_release": not why, "lacks": list(why)} for worker, why in sorted(lacks.items())],
    }


def stream_line(kind: str, now: datetime, **fields: object) -> str:
    """One fact of an apply that goes on."""
    line = {"v": RELEASES_VERSION, "type": kind, "time": second_text(now), **fields}
    return json.dumps(line, separators=(",", ":")) + "\n"


def applied_stream(done: Applied, now: datetime) -> str:
    """What ends the stream: who has taken the release, where somebody waited, and a summary."""
    document = applied_document(done)
    taken = (
        ""
        if done.lacks is None
        else stream_line("converged", now, converged=document["converged"], workers=document["workers"])
    )
    counts = _by_action(done.plan)
    return taken + stream_line("apply_summary", now, applied=True, release=done.release.serial, changes=counts)


def not_converged_words(done: Applied, superseded_by: int) -> str:
    """Which workers have not taken it, each with its reason."""
    lacks = done.lacks or {}
    behind = {worker: why for worker, why in sorted(lacks.items()) if why}
    verb = "has" if len(behind) == 1 else "have"
    waited = f"waited {span_text(done.waited)}"
    if superseded_by:
        return (
            f"release {done.release.serial} was replaced by release {superseded_by} before all workers had taken it "
            f"({waited})"
        )
    of_them = f"{len(behind)} of {counted(len(lacks), 'worker')} {verb} not taken it"
    lines = [f"release {done.release.serial} stands, but {of_them} ({waited})"]
    wide = max(len(worker) for worker in behind)
    for worker, why in behind.items():
        more = f" (and {len(why) - 3} more)" if len(why) > 3 else ""
        lines.append(f"  {worker:<{wide}}  {'; '.join(why[:3])}{more}")
    on_it = len(lacks) - len(behind)
    if on_it:
        lines.append(f"  {'others':<{wide}}  {on_it} of {len(lacks)} on release {done.release.serial}")
    return "\n".join(lines)


def overtaken_words(serial: int, release: Release | None) -> str:
    """That another release was published first."""
    first = "another release was published meanwhile; nothing was changed by this one"
    if release is None:
        return f"{first}\n  now     release {serial}"
    why = f': "{release.draft.message}"' if release.draft.message else ""
    return (
        f"{first}\n  now     release {serial}, applied {utc_text(_minute(release.made_at))} by {release.draft.by}{why}"
    )


def _workers(done: Applied) -> list[str]:
    lacks = done.lacks
    if lacks is None:
        return ["Workers   not waited for: relayctl status tells who has taken it"]
    if not lacks:
        return ["Workers   none is alive: the release waits for the first that follows it"]
    on_it = sum(1 for why in lacks.values() if not why)
    return [f"Workers   {on_it} of {len(lacks)} on release {done.release.serial} ({span_text(done.waited)})"]


def _name(change: Change) -> str:
    words = label(change.item, change.name)
    return f"{change.app}/{words}" if change.item is Item.SCHEDULE else f"{change.app}: {words}"


def _line(change: Change, wide: int) -> str:
    row = f"  {MARKS[change.action]} {_name(change):<{wide}} {_DONE[change.action]:<9} {_consequence(change)}"
    return row.rstrip()


def _consequence(change: Change) -> str:
    if change.action is Action.REMOVE:
        if not change.waiting:
            return ""
        return f"{counted(change.waiting, 'waiting occurrence')} closed as obsolete"
    if change.item is not Item.SCHEDULE or change.next_after is None:
        return ""
    first = "first fire" if change.action is Action.CREATE else "next fire"
    return f"{first} {local_text(change.next_after, zone_of(change.trigger))}"


def _by_action(plan: Plan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for change in plan.changes:
        if change.action in _DONE:
            word = _DONE[change.action]
            counts[word] = counts.get(word, 0) + 1
    return counts


def _changes(release: Release) -> str:
    counts: dict[str, int] = {}
    for action, word in _DONE.items():
        counts[word] = counts.get(word, 0) + release.draft.counts.get(action.value, 0)
    return ", ".join(f"{counts[word]:,} {word}" for word in _ORDER if counts.get(word))


def _message(release: Release) -> str:
    if release.draft.rolls_back_to is not None:
        back = f"rollback to {release.draft.rolls_back_to}"
        return f"{back}: {release.draft.message}" if release.draft.message else back
    return release.draft.message


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
