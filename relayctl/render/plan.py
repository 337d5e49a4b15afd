"""A plan for people and for programs. Values of the environment and of secrets never appear, only their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from typing import Any

from relayctl.core.cron import Cron, ShiftKind
from relayctl.core.diff import Action, Change, FieldChange, Item, Plan
from relayctl.core.forecast import zone_of
from relayctl.core.occurrence import instant_text
from relayctl.render.firing import effect_text, trigger_line
from relayctl.render.instants import gap_text, local_text, span_short

PLAN_VERSION = 1
_MARKS = {
    Action.CREATE: "+",
    Action.CHANGE: "~",
    Action.REMOVE: "-",
    Action.RESTORE: "!",
    Action.REFIRE: "≈",
    Action.KEEP: "=",
}
_WORDS = {
    Action.CREATE: "create",
    Action.CHANGE: "change",
    Action.REMOVE: "remove",
    Action.RESTORE: "drift, will be restored",
    Action.REFIRE: "same definition, different firings",
}
_LABEL = 18
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a plan is shown with: where the desired state comes from, what runs, in words; and how long it took."""

    desired: str
    running: str
    took: timedelta | None = None
    show_unchanged: bool = False
    concise: bool = False
    guard: str = ""


def text(plan: Plan, setting: Setting) -> str:
    """The plan as a person reads it."""
    lines = [f"Desired   {setting.desired}", f"Running   {setting.running}", ""]
    lines += [f"held      {app}: its template is broken; what runs of it stays" for app in plan.held]
    if plan.held:
        lines.append("")
    if not plan.changes:
        return "\n".join([*lines, *_nothing(plan, setting)]) + "\n"
    for app, changes in groupby(plan.changes, key=lambda change: change.app):
        lines.append(f"  {app}")
        for change in changes:
            lines += _change(change, plan.now, setting)
    lines += ["", _summary(plan), *_consequences(plan)]
    if setting.guard:
        lines += [f"warning: {setting.guard}"]
    return "\n".join(lines) + "\n"


def _nothing(plan: Plan, setting: Setting) -> list[str]:
    took = "" if setting.took is None else f" ({setting.took.total_seconds():.1f} s)"
    return [f"No changes. {_count(plan.unchanged, 'schedule')} as desired.{took}"]


def _change(change: Change, now: datetime, setting: Setting) -> list[str]:
    head = f"  {_MARKS[change.action]} {_name(change)}"
    if change.action is Action.KEEP:
        return [f"{head:<{_LABEL + 6}} paused since {_instant(change.paused_at, UTC)}, stays paused"]
    words = _WORDS[change.action] + (f" on {change.worker}" if change.worker else "")
    row = f"{head:<{_LABEL + 6}} {words}"
    if change.action in {Action.CREATE, Action.REMOVE} and change.trigger is not None:
        row += f"   {trigger_line(change.trigger)}"
    if change.action is Action.CREATE and change.handler and change.item is Item.SCHEDULE:
        row += f"   → {change.handler}"
    return [row] if setting.concise else [row, *_details(change, now)]


def _name(change: Change) -> str:
    prefix = {Item.APP: "app settings", Item.EVENT: "event ", Item.SERVICE: "service "}.get(change.item, "")
    return f"{prefix}{change.name}".strip()


def _details(change: Change, now: datetime) -> list[str]:
    lines = [_row(field.name, _field(field)) for field in change.fields]
    if change.item is Item.SCHEDULE:
        lines += _next_lines(change, now)
        lines += [_row(_note(effect.kind), effect_text(effect, _zone(change))) for effect in change.effects[:2]]
    if change.waiting and change.action is Action.REMOVE:
        lines.append(_row("waiting", f"{_count(change.waiting, 'occurrence')} will be closed as obsolete"))
    if change.paused_at is not None and change.action is not Action.CREATE:
        lines.append(_row("paused", f"since {_instant(change.paused_at, UTC)}"))
    if change.renamed_to:
        lines.append(
            _row(
                "note RLY705",
                f"looks like a rename to {change.renamed_to}: its history starts anew under the new name",
            )
        )
    return lines


def _next_lines(change: Change, now: datetime) -> list[str]:
    zone = _zone(change)
    match change.action:
        case Action.CREATE:
            return [_row("first fire", _in(change.next_after, zone, now))]
        case Action.REMOVE:
            return [_row("would next fire", _in(change.next_before, zone, now))]
        case Action.CHANGE | Action.REFIRE:
            if change.next_before == change.next_after:
                return [_row("next fire", f"{_in(change.next_after, zone, now)}, as before")]
            return [_row("next fire", f"{_instant(change.next_before, zone)}  →  {_in(change.next_after, zone, now)}")]
        case Action.RESTORE | Action.KEEP:
            return []


def _field(field: FieldChange) -> str:
    if field.is_secret:
        return "(secret) changed"
    return f"{_value(field.before)}  →  {_value(field.after)}"


def _value(value: str | None) -> str:
    if not value:
        return "(not set)"
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"


def _row(label: str, value: str) -> str:
    return f"      {label:<{_LABEL}} {value}"


def _note(kind: ShiftKind) -> str:
    return "note RLY305" if kind is ShiftKind.GAP else "note RLY306"


def _zone(change: Change) -> tzinfo:
    return zone_of(change.trigger) if isinstance(change.trigger, Cron) else UTC


def _instant(at: datetime | None, zone: tzinfo) -> str:
    return "never" if at is None else local_text(at, zone)


def _in(at: datetime | None, zone: tzinfo, now: datetime) -> str:
    return "never" if at is None else f"{local_text(at, zone)} (in {span_short(_whole(at - now))})"


def _whole(span: timedelta) -> timedelta:
    return timedelta(seconds=round(span.total_seconds()))


def _summary(plan: Plan) -> str:
    words = {Action.CREATE: "to create", Action.CHANGE: "to change", Action.REMOVE: "to remove"}
    words |= {Action.RESTORE: "to restore", Action.REFIRE: "with different firings"}
    parts = [f"{plan.count(action)} {word}" for action, word in words.items() if plan.count(action)]
    paused = f" ({plan.unchanged_paused} paused)" if plan.unchanged_paused else ""
    return f"{', '.join(parts) or 'No changes'}. {plan.unchanged} unchanged{paused}."


def _consequences(plan: Plan) -> list[str]:
    if not plan.has_changes:
        return []
    before, after = f"{plan.fires_before:,}", f"{plan.fires_after:,}"
    rate = f"{before} → {after}" if before != after else f"{after}, as before"
    return [f"Firings in the next {gap_text(plan.horizon)}: {rate}.  Nothing fires early because of this change."]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def document(plan: Plan, setting: Setting) -> dict[str, Any]:
    """The plan for programs; `schemas/plan.schema.json` describes it."""
    return {
        "v": PLAN_VERSION,
        "now": instant_text(plan.now.replace(microsecond=0)),
        "desired": setting.desired,
        "running": setting.running,
        "changes": [_change_document(change) for change in plan.changes],
        "summary": {
            **{action.value: plan.count(action) for action in Action if action is not Action.KEEP},
            "unchanged": plan.unchanged,
            "unchanged_paused": plan.unchanged_paused,
        },
        "firings": {
            "horizon_s": int(plan.horizon.total_seconds()),
            "before": plan.fires_before,
            "after": plan.fires_after,
        },
        "held": list(plan.held),
        "guard": setting.guard or None,
    }


def _change_document(change: Change) -> dict[str, Any]:
    return {
        "action": change.action.value,
        "item": change.item.value,
        "app": change.app,
        "name": change.name,
        "fields": [_field_document(field) for field in change.fields],
        "next_before": _instant_document(change.next_before),
        "next_after": _instant_document(change.next_after),
        "dst": [{"kind": effect.kind.value, "date": effect.on.isoformat()} for effect in change.effects],
        "waiting": change.waiting,
        "worker": change.worker or None,
        "paused_at": _instant_document(change.paused_at),
        "renamed_to": change.renamed_to or None,
    }


def _field_document(field: FieldChange) -> dict[str, Any]:
    if field.is_secret:
        return {"name": field.name, "secret": True, "changed": True}
    return {"name": field.name, "before": field.before, "after": field.after}


def _instant_document(at: datetime | None) -> str | None:
    return None if at is None else instant_text(at.replace(microsecond=0))


def filtered(changes: Sequence[Change], targets: Sequence[str]) -> tuple[Change, ...]:
    """Only the changes of these apps or schedules (`app` or `app/schedule`)."""
    if not targets:
        return tuple(changes)
    wanted = [target.partition("/") for target in targets]
    return tuple(
        change for change in changes if any(change.app == app and name in {"", change.name} for app, _, name in wanted)
    )
