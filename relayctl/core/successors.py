"""Says in a plan which creation takes over from which removal: as a move, or by what looks like a new name.

It moves nothing: which moves there are, `core.renames` knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relayctl.core.cron import Every
from relayctl.core.plan import Action, Change, Item
from relayctl.core.renames import Renames
from relayctl.core.running import Name, Running


def with_moves(changes: Sequence[Change], renames: Renames, running: Running) -> list[Change]:
    """Both halves of a move say so, and the pause goes with it; so does what was meant as one and is none."""
    found: dict[Name, Change] = {(each.app, each.name): each for each in changes if each.item is Item.SCHEDULE}
    taken: set[Name] = set()
    for name, change in sorted(found.items(), key=lambda each: each[0]):
        if change.action is not Action.CREATE:
            continue
        old = renames.old_name(*name)
        if old is None or old in taken:
            said = renames.said(*name) if old is not None or renames.is_unfounded(*name) else ""
            found[name] = replace(change, not_moved_from=said)
            continue
        taken.add(old)
        entry = running.registry[old]
        found[name] = replace(change, moved_from="/".join(old), paused_at=entry.paused_at, pause_note=entry.pause_note)
        if old in found:
            found[old] = replace(found[old], moved_to="/".join(name), paused_at=None, pause_note="")
    for name, change in found.items():
        if change.action is Action.REMOVE and not change.moved_to:
            found[name] = replace(change, not_moved_from=renames.late_heir(name))
    return [found[each.app, each.name] if each.item is Item.SCHEDULE else each for each in changes]


def with_likely_names(changes: Sequence[Change]) -> list[Change]:
    """Removals that look like one half of a rename say so: identity is the name, so the history starts anew."""
    created: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        if change.action is Action.CREATE and change.item is Item.SCHEDULE and change.trigger is not None:
            created.setdefault(_likeness(change), []).append(change)
    return [
        replace(change, renamed_to=_new_name(change, created.get(_likeness(change), [])))
        if change.action is Action.REMOVE and change.item is Item.SCHEDULE and not change.moved_to
        else change
        for change in changes
    ]


def _new_name(gone: Change, alike: Sequence[Change]) -> str:
    """The first of its own app, else, as `app/name`, the only one of another app."""
    own = [change.name for change in alike if change.app == gone.app]
    if own:
        return own[0]
    return f"{alike[0].app}/{alike[0].name}" if len(alike) == 1 else ""


def _likeness(change: Change) -> tuple[str, str]:
    trigger = change.trigger
    if trigger is None:
        return (change.handler, "")
    when = trigger.canonical if isinstance(trigger, Every) else f"{trigger.canonical} {trigger.timezone}"
    return (change.handler, when)
