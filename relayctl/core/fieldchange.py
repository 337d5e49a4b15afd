"""Two descriptions of one item, field by field: what differs in meaning, and nothing that is only written otherwise.

Values of the environment never come out of here, only that they were set, changed or removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from relayctl.core.cron import Cron, CronError
from relayctl.core.description import HIDDEN, Fields
from relayctl.core.running import WHEN

RULES = frozenset({"evaluator", "zone data"})
"""Changes that nobody wrote: the same text means other instants to another evaluator or with other zone data."""
MOVING = WHEN | RULES
"""Fields whose change moves firings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field before and after, None where it is not there. Of a secret value both are empty texts or None."""

    name: str
    before: str | None
    after: str | None
    is_secret: bool = False


def field_changes(before: Fields, after: Fields) -> tuple[FieldChange, ...]:
    """What differs between two descriptions of one schedule, rule, service, or app's settings."""
    known = {*before, *WHEN} if _is_registered_only(before) else {*before, *after}
    names = [name for name in dict.fromkeys([*after, *before]) if name in known and name not in HIDDEN]
    found = [change for name in names if (change := _change(name, before, after)) is not None]
    if before.get("hash") != after.get("hash"):
        written = {change.name for change in found}
        if before.get("dst", "") != after.get("dst", ""):
            written.add("dst")
        found += _rules(_spec(before), _spec(after), written)
    return tuple(found)


def _is_registered_only(fields: Fields) -> bool:
    """Whether this is what the registry knows, which says nothing of handler, timeout and the like."""
    return "hash" in fields and "handler" not in fields


def _change(name: str, before: Fields, after: Fields) -> FieldChange | None:
    old, new = before.get(name), after.get(name)
    if old == new or name == "dst":
        return None
    if name == "cron" and old is not None and new is not None and _means_the_same(old, new):
        return None
    if name.startswith("env."):
        return FieldChange(
            name=name, before=None if old is None else "", after=None if new is None else "", is_secret=True
        )
    return FieldChange(name=name, before=old, after=new)


def _means_the_same(old: str, new: str) -> bool:
    try:
        return Cron.parse(old).canonical == Cron.parse(new).canonical
    except CronError:
        return False


def _spec(fields: Fields) -> dict[str, object]:
    document = json.loads(fields.get("spec") or "{}")
    return document if isinstance(document, dict) else {}


def _rules(before: dict[str, object], after: dict[str, object], written: set[str]) -> Iterator[FieldChange]:
    """What moves firings besides the fields that differ as they are written."""
    if not before or not after:
        return
    if before.get("evaluator") != after.get("evaluator"):
        yield FieldChange(name="evaluator", before=str(before.get("evaluator")), after=str(after.get("evaluator")))
    if "every" in before or "every" in after:
        return
    # A cron in another form may bring other habits along; that is news only where it was meant or nothing else is.
    if before.get("dst") != after.get("dst") and ("dst" in written or "cron" not in written):
        yield FieldChange(name="dst", before=_dst(before), after=_dst(after))
    if before.get("zone") != after.get("zone") and "timezone" not in written:
        yield FieldChange(name="zone data", before=str(before.get("zone"))[:8], after=str(after.get("zone"))[:8])


def _dst(spec: dict[str, object]) -> str:
    habits = spec.get("dst")
    return ", ".join(f"{name}: {habit}" for name, habit in sorted(habits.items())) if isinstance(habits, dict) else ""
