"""When a schedule fires, through the core's grammar; its errors get their place in the file."""

from __future__ import annotations

from relayctl.core.cron import Cron, Every
from relayctl.core.cronerror import CronError
from relayctl.core.duration import DurationError
from relayctl.core.problem import Fix
from relayctl.core.zones import zone_named
from relayctl.templates.document import ScalarNode
from relayctl.templates.fields import Fields
from relayctl.templates.fixes.entries import beside
from relayctl.templates.fixes.tokens import rewritten
from relayctl.templates.rules.registry import BY_CODE, FixKind

_ZONE_CODES = ("RLY301", "RLY302")
_SAFE = frozenset({"RLY204", "RLY213"})


def trigger_of(item: Fields) -> Cron | Every | None:
    """When a schedule fires; None when that cannot be read, and then a problem says why."""
    zone = _zone(item)
    if item.has("cron"):
        return _cron(item, zone)
    every = item.scalar("every")
    if every is None:
        return None
    try:
        return Every.parse(str(every.value))
    except DurationError as error:
        fix = None
        if error.suggestion is not None:
            text = error.suggestion
            fix = rewritten(item.document.source, every, text, f"write {text}", is_safe=True)
        item.add(error.code, every, error.message, help=error.help or "", path=(*item.path, "every"), fix=fix)
        return None


def _cron(item: Fields, zone: str | None) -> Cron | None:
    node = item.scalar("cron")
    if node is None:
        return None
    try:
        cron = Cron.parse(str(node.value), zone or "UTC", _habit(item))
    except CronError as error:
        if error.code not in _ZONE_CODES:
            item.add(
                error.code,
                node,
                error.message,
                help=_way_out(error),
                path=(*item.path, "cron"),
                span=error.span,
                fix=_fix(item, node, error),
            )
        return None
    return cron if zone is not None else None


def _way_out(error: CronError) -> str:
    """The core's help, with the portable form spelled as template keys where it does not say so already."""
    said = error.help or ""
    if error.suggestion is None:
        return said
    written = "  ".join(
        f'{key}: "{value}"' if key == "cron" else f"{key}: {value}" for key, value in error.suggestion.items()
    )
    if all(value in said for value in error.suggestion.values()):
        return said
    return f"{said}; write  {written}" if said else f"write  {written}"


def _fix(item: Fields, node: ScalarNode, error: CronError) -> Fix | None:
    """The portable form as an edit, for the rules that have one."""
    meant = error.suggestion
    key = item.node.entries["cron"][0]
    if meant is None or BY_CODE[error.code].fix is FixKind.NONE or key.text != "cron":
        return None
    source, is_safe = item.document.source, error.code in _SAFE
    if set(meant) == {"every"}:
        value = rewritten(source, node, meant["every"], "", is_safe=False)
        if value is None or item.has("timezone") or item.has("every"):
            return None
        renamed = source.replace(key.start, key.end, "every", "", is_safe=False)
        return Fix(description=f"write every: {meant['every']}", edits=renamed.edits + value.edits, is_safe=False)
    fix = rewritten(source, node, meant["cron"], f'write "{meant["cron"]}"', is_safe=is_safe)
    zone = meant.get("timezone")
    if fix is None or zone is None or item.text("timezone") == zone:
        return fix
    written = item.scalar("timezone")
    if written is not None:
        # The two contradict each other, so which of them counts is a guess.
        other = rewritten(source, written, zone, "", is_safe=False)
        edits, is_safe = (other.edits if other is not None else ()), False
    else:
        added = None if item.has("timezone") else beside(source, item.node, key, node, f"timezone: {zone}")
        edits = (added,) if added is not None else ()
    return Fix(description=f"write timezone: {zone}", edits=fix.edits + edits, is_safe=is_safe) if edits else None


def _zone(item: Fields) -> str | None:
    """The zone's name, UTC by default, or None when it is written and wrong."""
    node = item.scalar("timezone")
    if node is None:
        return None if item.has("timezone") else "UTC"
    try:
        zone_named(str(node.value))
    except CronError as error:
        fix = None
        if error.suggestion is not None and "timezone" in error.suggestion:
            name = error.suggestion["timezone"]
            fix = rewritten(item.document.source, node, name, f"write {name}", is_safe=False)
        name_node = item.scalar("name")
        shown = f' for "{str(name_node.value)[:63]}"' if name_node is not None else ""
        item.add(
            error.code,
            node,
            error.message,
            help=error.help or "",
            path=(*item.path, "timezone"),
            fix=fix,
            notes=(f"cron, DST and load checks{shown} are skipped until this is fixed",),
        )
        return None
    return str(node.value)


def _habit(item: Fields) -> dict[str, object] | None:
    written = item.mapping("dst")
    if written is None:
        return None
    allowed = {"gap": ("skip", "run"), "fold": ("first", "both")}
    found: dict[str, object] = {}
    for key, values in allowed.items():
        text = written.text(key)
        if text in values:
            found[key] = text
    return found or None
