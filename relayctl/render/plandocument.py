"""A plan for programs: one JSON document, or a stream of lines. `schemas/plan.schema.json` describes both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from relayctl.core.fieldchange import FieldChange
from relayctl.core.occurrence import second_text
from relayctl.core.plan import Action, Change, Held, Item, Plan

if TYPE_CHECKING:
    from datetime import datetime

    from relayctl.render.plan import Setting

PLAN_VERSION = 1


def document(plan: Plan, setting: Setting) -> dict[str, Any]:
    """The whole plan."""
    return {
        "v": PLAN_VERSION,
        "now": _instant(plan.now),
        "desired": setting.desired,
        "running": setting.running,
        "against": setting.is_against,
        "saved": _saved(setting),
        "changes": [_change(change, plan) for change in plan.changes],
        "summary": _summary(plan),
        "firings": {
            "horizon_s": int(plan.horizon.total_seconds()),
            "before": plan.fires_before,
            "after": plan.fires_after,
        },
        "herds": [{"at": _instant(herd.at), "before": herd.before, "after": herd.after} for herd in plan.herds],
        "held": [_held(held) for held in plan.held],
        "guard": setting.guard or None,
        "limits": setting.limits or None,
        "remarks": list(setting.remarks),
        **({"recoded": list(setting.recoded)} if setting.recoded else {}),
    }


def stream(plan: Plan, setting: Setting) -> str:
    """A line per fact: `version`, `held`, `drift` or `planned_change`, `herd`, `guard`, `limits`, `remark`, and last
    `plan_summary`.
    """
    now = _instant(plan.now)
    sides = {"desired": setting.desired, "running": setting.running, "against": setting.is_against}
    lines: list[dict[str, Any]] = [{"type": "version", **sides, "saved": _saved(setting)}]
    lines += [{"type": "held", **_held(held)} for held in plan.held]
    lines += [
        {"type": "drift" if change.action is Action.RESTORE else "planned_change", **_change(change, plan)}
        for change in plan.changes
    ]
    lines += [
        {"type": "herd", "at": _instant(herd.at), "before": herd.before, "after": herd.after} for herd in plan.herds
    ]
    if setting.guard:
        lines.append({"type": "guard", "message": setting.guard})
    if setting.limits:
        lines.append({"type": "limits", "message": setting.limits})
    lines += [{"type": "remark", "message": words} for words in setting.remarks]
    lines.append({"type": "plan_summary", **_summary(plan), "before": plan.fires_before, "after": plan.fires_after})
    return "".join(json.dumps({"v": PLAN_VERSION, "time": now, **line}, separators=(",", ":")) + "\n" for line in lines)


def _summary(plan: Plan) -> dict[str, int]:
    return {
        **{action.value: plan.count(action) for action in Action if action is not Action.KEEP},
        "unchanged": plan.unchanged_schedules,
        "unchanged_paused": plan.count(Action.KEEP),
    }


def _held(held: Held) -> dict[str, Any]:
    broken = held.broken
    return {"app": broken.app, "place": broken.place, "problem": broken.problem, "schedules": held.schedules}


def _saved(setting: Setting) -> dict[str, Any] | None:
    saved = setting.saved
    return None if saved is None else {"id": saved.id, "made_at": _instant(saved.made_at), "by": saved.by}


def _change(change: Change, plan: Plan) -> dict[str, Any]:
    fires = plan.fires.get((change.app, change.name)) if change.item is Item.SCHEDULE else None
    return {
        "action": change.action.value,
        "item": change.item.value,
        "app": change.app,
        "name": change.name,
        "when": change.when or None,
        "handler": change.handler or None,
        "fields": [_field(field) for field in change.fields],
        "next_before": _instant(change.next_before),
        "next_after": _instant(change.next_after),
        "firings_before": None if fires is None else fires[0],
        "firings_after": None if fires is None else fires[1],
        "dst": [
            {
                "kind": effect.kind.value,
                "date": effect.on.isoformat(),
                "fires_at": [_instant(at) for at in effect.fires_at],
            }
            for effect in change.effects
        ],
        "waiting": change.waiting,
        "in_flight": change.in_flight,
        "worker": change.worker or None,
        "paused_at": _instant(change.paused_at),
        "renamed_to": change.renamed_to or None,
        "moved_from": change.moved_from or None,
        "moved_to": change.moved_to or None,
        "capped_to_s": None if change.capped_to is None else change.capped_to.total_seconds(),
    }


def _field(field: FieldChange) -> dict[str, Any]:
    if field.is_secret:
        return {"name": field.name, "secret": True, "changed": True}
    return {"name": field.name, "before": field.before, "after": field.after}


def _instant(at: datetime | None) -> str | None:
    return None if at is None else second_text(at)
