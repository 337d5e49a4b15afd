"""A plan as values of JSON and back, without loss, for the file it is saved in. It opens no file.

What programs read is another form (`render.plandocument`). A file may have been edited or cut, so all is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any, TypeVar

from relayctl.core.cron import Cron, CronError, Dst, Every, ShiftEffect, ShiftKind
from relayctl.core.fieldchange import FieldChange
from relayctl.core.herd import Herd
from relayctl.core.occurrence import instant_from_text, instant_text
from relayctl.core.plan import Action, Change, Held, Item, Plan
from relayctl.core.running import BrokenApp
from relayctl.errors import UsageError

_Kind = TypeVar("_Kind", bound=Enum)


class Part:
    """One object of a document; what is missing or of another kind is a UsageError that names its place."""

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, Mapping):
            raise wrong(where or "the document", "an object")
        self._value = value
        self._where = where

    def text(self, name: str) -> str:
        """A text."""
        return str(self._of(name, str, "a text"))

    def number(self, name: str) -> int:
        """A whole number from 0 up."""
        value = self.whole(name)
        if value < 0:
            raise wrong(self._at(name), "a whole number from 0 up")
        return value

    def whole(self, name: str) -> int:
        """A whole number of either sign."""
        value = self._of(name, int, "a whole number")
        if isinstance(value, bool):
            raise wrong(self._at(name), "a whole number")
        return int(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        return bool(self._of(name, bool, "true or false"))

    def optional_text(self, name: str) -> str | None:
        """A text or null."""
        return None if self._value.get(name) is None else self.text(name)

    def optional_number(self, name: str) -> int | None:
        """A whole number or null."""
        return None if self._value.get(name) is None else self.number(name)

    def instant(self, name: str) -> datetime:
        """An instant of whole seconds."""
        at = instant_from_text(self.text(name))
        if at is None:
            raise wrong(self._at(name), "an instant such as 2026-09-29T03:00:00Z")
        return at

    def optional_instant(self, name: str) -> datetime | None:
        """An instant or null."""
        return None if self._value.get(name) is None else self.instant(name)

    def kind(self, name: str, kind: type[_Kind]) -> _Kind:
        """One of the words of an enumeration."""
        text = self.text(name)
        for member in kind:
            if member.value == text:
                return member
        raise wrong(self._at(name), "one of " + ", ".join(str(member.value) for member in kind))

    def part(self, name: str) -> Part:
        """An object in it."""
        return Part(self._value.get(name), self._at(name))

    def optional_part(self, name: str) -> Part | None:
        """An object or null."""
        return None if self._value.get(name) is None else self.part(name)

    def parts(self, name: str) -> list[Part]:
        """A list of objects."""
        return [Part(item, f"{self._at(name)}[{place}]") for place, item in enumerate(self._of(name, list, "a list"))]

    def rows(self, name: str, *kinds: type) -> list[Any]:
        """A list of lists whose members are of these kinds."""
        rows = self._of(name, list, "a list")
        for place, row in enumerate(rows):
            if not isinstance(row, list) or tuple(map(type, row)) != kinds:
                raise wrong(f"{self._at(name)}[{place}]", "a list of " + ", ".join(kind.__name__ for kind in kinds))
        return list(rows)

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        found = self._of(name, list, "a list")
        if not all(isinstance(item, str) for item in found):
            raise wrong(self._at(name), "a list of texts")
        return list(found)

    def fields(self, name: str) -> dict[str, str] | None:
        """Texts by name, or null."""
        if self._value.get(name) is None:
            return None
        found = self._of(name, dict, "an object")
        if not all(isinstance(value, str) for value in found.values()):
            raise wrong(self._at(name), "an object of texts")
        return dict(found)

    def _of(self, name: str, kind: type, words: str) -> Any:
        value = self._value.get(name)
        if not isinstance(value, kind):
            raise wrong(self._at(name), words)
        return value

    def _at(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def wrong(where: str, expected: str) -> UsageError:
    """The error for a document that does not hold what it should; what it holds instead is not repeated."""
    return UsageError(f"not a saved plan: {where} is not {expected}")


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The whole plan."""
    return {
        "now": instant_text(plan.now),
        "horizon_s": int(plan.horizon.total_seconds()),
        "changes": [_change_to_json(change) for change in plan.changes],
        "unchanged": [[item.value, app, name] for item, app, name in plan.unchanged],
        "fires": [[app, name, before, after] for (app, name), (before, after) in plan.fires.items()],
        "running": plan.running,
        "held": [
            {
                **{name: getattr(held.broken, name) for name in ("app", "place", "problem", "since")},
                "schedules": held.schedules,
            }
            for held in plan.held
        ],
        "herds": [{"at": instant_text(herd.at), "before": herd.before, "after": herd.after} for herd in plan.herds],
    }


def plan_from_json(part: Part) -> Plan:
    """The plan in a document; UsageError where it is not one."""
    return Plan(
        now=part.instant("now"),
        horizon=timedelta(seconds=part.number("horizon_s")),
        changes=tuple(_change_from_json(each) for each in part.parts("changes")),
        unchanged=tuple((_item(kind), app, name) for kind, app, name in part.rows("unchanged", str, str, str)),
        fires={(app, name): (old, new) for app, name, old, new in part.rows("fires", str, str, int, int)},
        running=part.number("running"),
        held=tuple(
            Held(
                broken=BrokenApp(
                    app=each.text("app"),
                    place=each.text("place"),
                    problem=each.text("problem"),
                    since=each.text("since"),
                ),
                schedules=each.number("schedules"),
            )
            for each in part.parts("held")
        ),
        herds=tuple(
            Herd(at=each.instant("at"), before=each.number("before"), after=each.number("after"))
            for each in part.parts("herds")
        ),
    )


def _item(word: str) -> Item:
    try:
        return Item(word)
    except ValueError:
        raise wrong("plan.unchanged", "a list of app, schedule, event and service items") from None


_TEXTS = ("app", "name", "when", "handler", "worker", "pause_note", "renamed_to")
_MOVES = ("moved_from", "moved_to", "not_moved_from")
_NUMBERS = ("waiting", "in_flight", "restarts")
_INSTANTS = ("next_before", "next_after", "paused_at")


def _change_to_json(change: Change) -> dict[str, Any]:
    return {
        "action": change.action.value,
        "item": change.item.value,
        **{name: getattr(change, name) for name in (*_TEXTS, *_MOVES, *_NUMBERS)},
        **{name: _instant(getattr(change, name)) for name in _INSTANTS},
        "is_enabled": change.is_enabled,
        "fields": [
            {"name": each.name, "before": each.before, "after": each.after, "is_secret": each.is_secret}
            for each in change.fields
        ],
        "trigger": _trigger_to_json(change.trigger),
        "effects": [_effect_to_json(effect) for effect in change.effects],
        "capped_to_ms": None if change.capped_to is None else round(change.capped_to.total_seconds() * 1000),
        "service": None if change.service is None else dict(change.service),
    }


def _change_from_json(part: Part) -> Change:
    capped = part.optional_number("capped_to_ms")
    texts: dict[str, Any] = {name: part.text(name) for name in (*_TEXTS, *_MOVES)}
    numbers: dict[str, Any] = {name: part.number(name) for name in _NUMBERS}
    instants: dict[str, Any] = {name: part.optional_instant(name) for name in _INSTANTS}
    return Change(
        action=part.kind("action", Action),
        item=part.kind("item", Item),
        **texts,
        **numbers,
        **instants,
        is_enabled=part.flag("is_enabled"),
        fields=tuple(
            FieldChange(
                name=each.text("name"),
                before=each.optional_text("before"),
                after=each.optional_text("after"),
                is_secret=each.flag("is_secret"),
            )
            for each in part.parts("fields")
        ),
        trigger=_trigger_from_json(part.optional_part("trigger")),
        effects=tuple(_effect_from_json(each) for each in part.parts("effects")),
        capped_to=None if capped is None else timedelta(milliseconds=capped),
        service=part.fields("service"),
    )


def _trigger_to_json(trigger: Cron | Every | None) -> dict[str, Any] | None:
    if trigger is None:
        return None
    if isinstance(trigger, Every):
        return {"every_s": trigger.seconds}
    habits = {"gap": trigger.dst.gap, "fold": trigger.dst.fold}
    return {
        "cron": trigger.expression,
        "timezone": trigger.timezone,
        "dst": {name: habit.value for name, habit in habits.items() if habit is not None},
    }


def _trigger_from_json(part: Part | None) -> Cron | Every | None:
    if part is None:
        return None
    seconds = part.optional_number("every_s")
    if seconds is not None:
        return Every(seconds=max(seconds, 1))
    try:
        return Cron.parse(part.text("cron"), part.text("timezone"), Dst.from_mapping(part.fields("dst") or {}))
    except CronError:
        # It was saved where other zones are known; what hangs on it here is only the zone that times are shown in.
        return None


def _effect_to_json(effect: ShiftEffect) -> dict[str, Any]:
    return {
        "kind": effect.kind.value,
        "shift_at": instant_text(effect.shift_at),
        "shift_s": int(effect.shift.total_seconds()),
        "on": effect.on.isoformat(),
        "walls": list(effect.walls),
        "fires_at": [instant_text(at) for at in effect.fires_at],
        "silent_at": [instant_text(at) for at in effect.silent_at],
    }


def _effect_from_json(part: Part) -> ShiftEffect:
    try:
        on = date.fromisoformat(part.text("on"))
    except ValueError:
        raise wrong("a shift of the clock", "on a date") from None
    return ShiftEffect(
        kind=part.kind("kind", ShiftKind),
        shift_at=part.instant("shift_at"),
        shift=timedelta(seconds=part.whole("shift_s")),
        on=on,
        walls=tuple(part.texts("walls")),
        fires_at=_instants(part, "fires_at"),
        silent_at=_instants(part, "silent_at"),
    )


def _instants(part: Part, name: str) -> tuple[datetime, ...]:
    found = tuple(instant_from_text(text) for text in part.texts(name))
    if None in found:
        raise wrong(name, "a list of instants")
    return tuple(at for at in found if at is not None)


def _instant(at: datetime | None) -> str | None:
    return None if at is None else instant_text(at)
