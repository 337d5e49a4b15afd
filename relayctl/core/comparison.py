"""One item as it is described on two sides: whether that is a change, in which fields, and when it fires."""

from __future__ import annotations

from relayctl.core.cron import Cron, Every
from relayctl.core.definition import Firing
from relayctl.core.description import Description, Fields
from relayctl.core.fieldchange import RULES, FieldChange, field_changes
from relayctl.core.plan import Action

NOTHING = Description(revision="", settings={}, schedules={}, events={}, services={})
"""The description of an app that is not there."""


def compared(before: Fields | None, after: Fields | None) -> tuple[Action | None, tuple[FieldChange, ...]]:
    """What leads from one to the other, and the fields that differ; no action where both mean the same."""
    if before is None or after is None:
        return (Action.CREATE if before is None else Action.REMOVE), ()
    if before == after:
        return None, ()
    fields = field_changes(before, after)
    if fields:
        return (Action.REFIRE if all(field.name in RULES for field in fields) else Action.CHANGE), fields
    return (None if before.get("hash") == after.get("hash") else Action.REFIRE), ()


def is_same(one: Fields | None, other: Fields | None) -> bool:
    """Whether both mean the same; two that are not there do."""
    if one is None or other is None:
        return one is other
    return one == other or compared(one, other)[0] is None


def trigger_of(fields: Fields | None) -> Cron | Every | None:
    """When a described schedule fires; None for what is none."""
    return None if fields is None or "spec" not in fields else Firing.from_spec(fields["spec"]).trigger


def trigger_text(fields: Fields) -> str:
    """The trigger of a described schedule as it is written."""
    if "every" in fields:
        return f"every {fields['every']}"
    return f"{fields.get('cron', '')}   {fields.get('timezone', '')}".strip()
