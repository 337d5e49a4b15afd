"""A plan for people, as text. Values of the environment never appear, only names. Markdown has its own module."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from textwrap import wrap

from relayctl.core.counting import counted
from relayctl.core.cron import ShiftKind
from relayctl.core.description import Fields
from relayctl.core.duration import format_duration
from relayctl.core.fieldchange import RULES, FieldChange
from relayctl.core.forecast import zone_of
from relayctl.core.plan import Action, Change, Held, Item, Plan
from relayctl.core.planfile import SavedPlan
from relayctl.render.firing import effect_text
from relayctl.render.instants import gap_text, local_text, span_short, utc_text
from relayctl.render.releasewords import recoded_line

MARKS = {
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
    Action.KEEP: "stays paused",
}
_LABEL = 18
_INDENT = 6
_LONGEST_NAME = 32
_LONGEST_VALUE = 200
_MOST_EFFECTS = 2
_LONGEST_COMMAND = 60
_MOST_HERDS = 3
_CONTRACT = {"handler", "timeout", "retries", "backoff", "input", "overlap", "pattern"}
"""Fields that a run keeps as they were when it began."""
_WITHOUT_RESTART = {"replicas", "check"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a plan is shown with: where the desired state comes from, what runs, in words; and how long it took."""

    desired: str
    running: str
    took: timedelta | None = None
    width: int = 100
    shows_unchanged: bool = False
    is_concise: bool = False
    guard: str = ""
    limits: str = ""
    """Which declared limits are kept by nothing where it runs."""
    remarks: tuple[str, ...] = ()
    """What else the reader should know."""
    is_against: bool = False
    """Whether `running` names another tree, and not a fleet."""
    saved: SavedPlan | None = None
    """The file that it comes from."""
    hint: str = ""
    """What to do next with it."""
    recoded: tuple[str, ...] = ()
    """Apps of which a release would ship new files that no template speaks of."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that it warns of."""
        return tuple(words for words in (self.guard, self.limits, *self.remarks) if words)


def heads(setting: Setting) -> list[tuple[str, str]]:
    """The two sides, and the file that the plan comes from, each with its label."""
    found = [("Desired", setting.desired), ("Against" if setting.is_against else "Running", setting.running)]
    if setting.saved is not None:
        saved = setting.saved
        made = f"plan {saved.short_id}, made {utc_text(saved.made_at)} by {saved.by}"
        found.append(("Saved", f"{made}; all of it is as it was then"))
    return found


def text(plan: Plan, setting: Setting) -> str:
    """The plan as a person reads it."""
    lines = [line for side, words in heads(setting) for line in _wrapped(f"{side:<10}", words, setting.width)]
    lines.append("")
    for held in plan.held:
        lines += _wrapped("held      ", held_text(held), setting.width)
    if plan.held:
        lines.append("")
    rows = sorted([*_changes(plan, setting), *_untouched(plan, setting)], key=lambda row: row[0])
    for app, group in groupby(rows, key=lambda row: row[0][0]):
        lines.append(f"  {app}")
        for _, block in group:
            lines += block
    if rows:
        lines.append("")
    for line in (closing(plan, setting), *consequences(plan), recoded_line(setting.recoded)):
        lines += _wrapped("", line, setting.width) if line else []
    for warning in setting.warnings:
        lines += _wrapped("warning: ", warning, setting.width)
    if setting.hint and (plan.has_changes or setting.recoded):
        lines += ["", *_wrapped("", setting.hint, setting.width)]
    return "\n".join(lines) + "\n"


def held_text(held: Held) -> str:
    """Which app is broken, where, and what goes on."""
    broken = held.broken
    stays = f"its {counted(held.schedules, 'running schedule')} stay as they are"
    if held.schedules == 1:
        stays = "its running schedule stays as it is"
    return f"{broken.app}: {broken.place} {broken.problem}; {stays if held.schedules else 'nothing of it runs'}"


_Row = tuple[tuple[str, int, str, str], list[str]]


def _changes(plan: Plan, setting: Setting) -> Iterator[_Row]:
    wide = _name_width(plan, setting)
    for change in plan.changes:
        key = (change.app, list(Item).index(change.item), change.name, change.worker)
        yield key, _change(change, plan, setting, wide)


def _untouched(plan: Plan, setting: Setting) -> Iterator[_Row]:
    if not setting.shows_unchanged:
        return
    wide = _name_width(plan, setting)
    shown = {(change.item, change.app, change.name) for change in plan.changes}
    for item, app, name in plan.unchanged:
        if (item, app, name) not in shown:
            yield (app, list(Item).index(item), name, ""), [f"    {label(item, name):<{wide}} unchanged"]


def _name_width(plan: Plan, setting: Setting) -> int:
    names = [label(change.item, change.name) for change in plan.changes]
    if setting.shows_unchanged:
        names += [label(item, name) for item, _, name in plan.unchanged]
    # A few long names stick out rather than push everything else to the right.
    return max([_LABEL + 2, *(len(name) for name in names if len(name) <= _LONGEST_NAME)])


def _change(change: Change, plan: Plan, setting: Setting, wide: int) -> list[str]:
    row = f"  {MARKS[change.action]} {label(change.item, change.name):<{wide}} {verb(change)}"
    beside = in_brief(change) if setting.is_concise else extra(change)
    is_long = len("   ".join([row, *beside])) > setting.width
    rows = [row if is_long else "   ".join([row, *beside])]
    if is_long or not setting.is_concise:
        below = [("", each) for each in beside] if is_long else []
        below += [] if setting.is_concise else details(change, plan)
        rows += [line for name, value in below for line in _detail(name, value, setting.width)]
    return rows


def label(item: Item, name: str) -> str:
    """What a line calls the item."""
    prefix = {Item.APP: "app settings", Item.EVENT: "event ", Item.SERVICE: "service "}.get(item, "")
    return f"{prefix}{name}".strip()


def verb(change: Change) -> str:
    """What happens to it, and where."""
    return _WORDS[change.action] + (f" on {change.worker}" if change.worker else "")


def extra(change: Change) -> list[str]:
    """What stands behind the verb where there is room."""
    if change.action is Action.KEEP:
        return [f"since {_instant(change.paused_at, UTC)}{_note_of_pause(change)}"]
    if change.service is not None and change.action is Action.CREATE:
        return [_service_words(change.service)]
    if change.item is not Item.SCHEDULE or change.action not in {Action.CREATE, Action.REMOVE}:
        return []
    handler = [f"→ {change.handler}"] if change.action is Action.CREATE and change.handler else []
    return [change.when, *handler]


def in_brief(change: Change) -> list[str]:
    """What stands there where no details follow: at least which fields differ."""
    return extra(change) or ([", ".join(field.name for field in change.fields)] if change.fields else [])


def _service_words(service: Fields) -> str:
    """What runs, how often on each worker, and where."""
    command = service.get("command")
    runs = " ".join(" ".join(json.loads(command)).split()) if command else service.get("entrypoint", "")
    replicas, port = int(service.get("replicas", "1")), service.get("port")
    times = "" if replicas == 1 else f", {replicas} replicas on each worker"
    ports = "" if not port else f", port {port}" if replicas == 1 else f", ports {port} to {int(port) + replicas - 1}"
    return f"→ {runs if len(runs) <= _LONGEST_COMMAND else runs[: _LONGEST_COMMAND - 1] + '…'}{times}{ports}"


def _service_lines(change: Change, service: Fields) -> list[tuple[str, str]]:
    """What the change means for the processes that run."""
    if change.action is Action.REMOVE:
        return [
            ("processes", f"{counted(int(service.get('replicas', '1')), 'replica')} on each worker will be stopped")
        ]
    if change.action is not Action.CHANGE:
        return []
    if {field.name for field in change.fields} <= _WITHOUT_RESTART:
        return [("processes", "those that stay are not restarted")]
    return [("processes", "replaced one by one, each when the one before it is up")]


def _detail(label: str, value: str, width: int) -> list[str]:
    return _wrapped(f"{'':<{_INDENT}}{label:<{_LABEL}} ", value, width)


def _wrapped(head: str, value: str, width: int) -> list[str]:
    """The value behind its label, its further lines below the first; what is old and what is new break apart first."""
    room = max(width - len(head), 20)
    if len(value) <= room:
        return [f"{head}{value}".rstrip()]
    old, arrow, new = value.rpartition("  →  ")
    pieces = [old, f"→  {new}"] if arrow else [value]
    parts = [part for piece in pieces for part in wrap(piece, room, break_on_hyphens=False)]
    return [f"{head if place == 0 else ' ' * len(head)}{part}".rstrip() for place, part in enumerate(parts)]


def details(change: Change, plan: Plan) -> list[tuple[str, str]]:
    """What stands below the line of a change, each with its label."""
    lines = [(field.name, _field(field, change.worker)) for field in change.fields]
    if change.item is Item.SCHEDULE:
        lines += _next_lines(change, plan.now)
        lines += _rate_lines(change, plan)
        lines += [
            (_note(effect.kind), effect_text(effect, zone_of(change.trigger)))
            for effect in change.effects[:_MOST_EFFECTS]
        ]
    if change.restarts:
        count = counted(change.restarts, "service")
        lines.append(("services", f"{count} {'is' if change.restarts == 1 else 'are'} replaced, replica by replica"))
    if change.service is not None:
        lines += _service_lines(change, change.service)
    lines += _pending_lines(change)
    if change.paused_at is not None and change.action not in {Action.KEEP, Action.RESTORE}:
        stays = "" if change.action is Action.REMOVE else "; stays paused until relayctl resume"
        lines.append(("paused", f"since {utc_text(change.paused_at)}{_note_of_pause(change)}{stays}"))
    if change.capped_to is not None:
        lines.append(
            ("note RLY108", f"workers grant at most {format_duration(change.capped_to)}: the timeout is capped")
        )
    if change.moved_from:
        lines.append(("moved from", f"{change.moved_from}, with its history, its pause and what it owes"))
    if change.moved_to:
        lines.append(("moves to", change.moved_to))
    if change.not_moved_from:
        lines.append(("note", _not_moved(change, plan)))
    if change.renamed_to:
        anew = f"looks like a rename to {change.renamed_to}: under another name it starts anew"
        lines.append(("note RLY705", f"{anew}, unless that says  moved_from: {change.app}/{change.name}"))
    return lines


def _not_moved(change: Change, plan: Plan) -> str:
    """Why what was meant as a move is none."""
    other = change.not_moved_from
    if change.action is Action.REMOVE:
        return f"not moved to {other}, which runs already: what this one was and owes ends with it"
    if (Item.SCHEDULE, *other.split("/")) in plan.unchanged:
        return f"nothing to move from: {other} stays in the tree, so both run"
    taken = next((each.moved_to for each in plan.changes if each.moved_to and f"{each.app}/{each.name}" == other), "")
    return f"nothing to move from: {other} {f'moves to {taken}' if taken else 'does not run'}"


def _rate_lines(change: Change, plan: Plan) -> list[tuple[str, str]]:
    """How much more or less often a schedule fires that stays."""
    before, after = plan.fires.get((change.app, change.name), (0, 0))
    if change.action not in {Action.CHANGE, Action.REFIRE} or before == after:
        return []
    return [("firings", f"{before:,}  →  {after:,} in the next {gap_text(plan.horizon)}")]


def _pending_lines(change: Change) -> list[tuple[str, str]]:
    """What becomes of firings that were published, and of runs that have begun."""
    lines = []
    is_contract = change.action is Action.CHANGE and any(field.name in _CONTRACT for field in change.fields)
    is_off = change.action is Action.CHANGE and not change.is_enabled
    waits = counted(change.waiting, "occurrence")
    if change.waiting and change.moved_to:
        lines.append(("waiting", f"{waits} will run under the new name"))
    elif change.waiting and change.action is Action.REMOVE:
        lines.append(("waiting", f"{waits} will be closed as obsolete"))
    elif change.waiting and is_contract:
        lines.append(("waiting", f"{waits} will run by the new definition"))
    elif change.waiting and is_off:
        lines.append(("waiting", f"{waits} published before will still run"))
    if change.in_flight and (is_contract or is_off or change.action is Action.REMOVE):
        goes = "goes" if change.in_flight == 1 else "go"
        lines.append(("in flight", f"{counted(change.in_flight, 'run')} {goes} on by the definition of its start"))
    return lines


def _note_of_pause(change: Change) -> str:
    return f" {change.pause_note}" if change.pause_note else ""


def _next_lines(change: Change, now: datetime) -> list[tuple[str, str]]:
    zone = zone_of(change.trigger)
    after = _in(change.next_after, zone, now)
    match change.action:
        case Action.CREATE:
            return [("first fire", after if change.is_enabled else "never: it is disabled in the template")]
        case Action.REMOVE:
            return [("would next fire", _in(change.next_before, zone, now))]
        case Action.REFIRE:
            return [("next fire", f"{after}, by the rules here")]
        case Action.CHANGE:
            if change.next_before == change.next_after:
                return [("next fire", f"{after}, as before" if change.next_after else "never, as before")]
            return [("next fire", f"{_instant(change.next_before, zone)}  →  {after}")]
        case Action.RESTORE | Action.KEEP:
            return []


def _field(field: FieldChange, worker: str) -> str:
    where = f" on {worker}" if worker else ""
    if field.is_secret:
        verb = "is new" if field.before is None else "is gone" if field.after is None else "changed"
        return f"(value not shown) {verb}{where}"
    if field.name in RULES:
        return f"{field.before} there{where}  →  {field.after} here"
    return f"{_value(field.before)}{where}  →  {_value(field.after)}"


def _value(value: str | None) -> str:
    if not value:
        return "(not set)"
    return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"


def _note(kind: ShiftKind) -> str:
    return "note RLY305" if kind is ShiftKind.GAP else "note RLY306"


def _instant(at: datetime | None, zone: tzinfo) -> str:
    return "never" if at is None else local_text(at, zone)


def _in(at: datetime | None, zone: tzinfo, now: datetime) -> str:
    if at is None:
        return "never"
    return f"{local_text(at, zone)} (in {span_short(timedelta(seconds=round((at - now).total_seconds())))})"


def closing(plan: Plan, setting: Setting) -> str:
    """The counts, or that there is nothing to do."""
    if plan.changes:
        return summary(plan)
    took = "" if setting.took is None else f" ({setting.took.total_seconds():.1f} s)"
    # Of an app that cannot be read nobody knows whether it would change anything.
    found = f"{counted(len(plan.held), 'app')} held, no other changes" if plan.held else "No changes"
    return f"{found}. {counted(plan.unchanged_schedules, 'schedule')} as desired.{took}"


def summary(plan: Plan) -> str:
    """`1 to create, 2 to change. 37 unchanged (1 paused).`"""
    words = {Action.CREATE: "to create", Action.CHANGE: "to change", Action.REMOVE: "to remove"}
    words |= {Action.RESTORE: "to restore", Action.REFIRE: "with different firings"}
    parts = [f"{plan.count(action)} {word}" for action, word in words.items() if plan.count(action)]
    paused = f" ({plan.count(Action.KEEP)} paused)" if plan.count(Action.KEEP) else ""
    return f"{', '.join(parts) or 'No changes'}. {counted(plan.unchanged_schedules, 'schedule')} unchanged{paused}."


def consequences(plan: Plan) -> list[str]:
    """What it means for all schedules together."""
    if not plan.has_changes:
        return []
    before, after = f"{plan.fires_before:,}", f"{plan.fires_after:,}"
    rate = f"{before} → {after}" if before != after else f"{after}, as before"
    return [
        f"Firings in the next {gap_text(plan.horizon)}: {rate}.  Nothing fires early because of this change.",
        *(
            f"RLY503: {herd.after} schedules fire in the minute {utc_text(herd.at)}, {herd.before} before; "
            "jitter: spreads them."
            for herd in plan.herds[:_MOST_HERDS]
        ),
    ]
