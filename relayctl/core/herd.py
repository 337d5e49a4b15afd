"""Minutes that a plan crowds: many schedules would fire in one of them, and more than do now. Looks a day ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from relayctl.core.occurrence import epoch_seconds, from_epoch

if TYPE_CHECKING:
    from relayctl.core.description import Description, Fields
    from relayctl.core.running import Name

HERD = 20
"""From so many schedules in one minute on it is worth a line."""
_DAY_S = 86_400
_MINUTE_S = 60
_MOST_FIRINGS = 24
"""What fires more often than hourly belongs to no one minute."""
_MOST_LOOKED_AT = 100_000
"""Beyond this many firings nobody waits for the answer; `validate` tells of crowds in the tree by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """A minute with so many schedules before and after."""

    at: datetime
    before: int
    after: int


def new_herds(
    before: Mapping[str, Description],
    after: Mapping[str, Description],
    moved: Iterable[Name],
    now: datetime,
    *,
    is_silent: Callable[[str, str], bool],
) -> tuple[Herd, ...]:
    """The crowded minutes that these schedules would add to, the fullest first. Spread ones (jitter) count nowhere,
    nor do those that are silent, which is to say paused.
    """
    start = epoch_seconds(now)
    touched = {minute for app, name in moved for minute in _minutes_of(after, app, name, start)}
    if not touched:
        return ()
    old, new = (_counted(apps, touched, start, is_silent) for apps in (before, after))
    if old is None or new is None:
        return ()
    found = [
        Herd(at=from_epoch(minute * _MINUTE_S), before=old[minute], after=count)
        for minute, count in new.items()
        if count >= HERD and count > old[minute]
    ]
    return tuple(sorted(found, key=lambda herd: (-herd.after, herd.at)))


def _minutes_of(apps: Mapping[str, Description], app: str, name: str, start: int) -> tuple[int, ...]:
    fields = apps[app].schedules.get(name) if app in apps else None
    return () if fields is None or not _is_punctual(fields) else _minutes(fields["spec"], start)


def _counted(
    apps: Mapping[str, Description], touched: set[int], start: int, is_silent: Callable[[str, str], bool]
) -> Counter[int] | None:
    counts: Counter[int] = Counter()
    looked_at = 0
    for app, description in apps.items():
        for name, fields in description.schedules.items():
            if _is_punctual(fields) and not is_silent(app, name):
                minutes = _minutes(fields["spec"], start)
                counts.update(minute for minute in minutes if minute in touched)
                looked_at += len(minutes)
        if looked_at > _MOST_LOOKED_AT:
            return None
    return counts


def _is_punctual(fields: Fields) -> bool:
    return fields.get("jitter", "0s") == "0s"


@lru_cache(maxsize=16_384)
def _minutes(spec: str, start: int) -> tuple[int, ...]:
    """The minutes since 1970 in which it fires within a day; none where that is too often to be of one minute."""
    # A lint asks for the number alone, and need not load what a definition is.
    from relayctl.core.definition import Firing

    trigger = Firing.from_spec(spec).trigger
    if trigger is None:
        return ()
    found: list[int] = []
    at = trigger.next_after_s(start)
    while at is not None and at <= start + _DAY_S:
        found.append(at // _MINUTE_S)
        if len(found) > _MOST_FIRINGS:
            return ()
        at = trigger.next_after_s(at)
    return tuple(found)
