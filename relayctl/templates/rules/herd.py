"""RLY503 over all apps of a tree: many schedules in one minute, with minutes that are free. Judged on one typical day.

It reckons in wall minutes of UTC on the day after `now`, and offers each schedule a minute that follows from its name.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from relayctl.core.counting import counted
from relayctl.core.cron import Cron
from relayctl.core.crongrammar import read_expression
from relayctl.core.herd import HERD
from relayctl.core.model import App, Schedule
from relayctl.core.problem import Place, Problem, Severity

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_MOST_FIRINGS = 24
"""A schedule that fires more often than hourly belongs to no one minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """When one schedule fires on the day that is looked at: what crowds are made of, small enough for large trees."""

    app: str
    schedule: str
    place: Place | None
    minutes: bytes
    """Minutes from the beginning of the day on, two bytes each."""


def members_of(app: App, now: datetime) -> tuple[Member, ...]:
    """The schedules of an app that belong to single minutes of the day that follows `now`."""
    found = []
    for schedule in app.schedules:
        minutes = array("H", ((at - now) // _MINUTE for at in _firings(schedule, now))).tobytes()
        if minutes:
            found.append(Member(app=app.name, schedule=schedule.name, place=schedule.place, minutes=minutes))
    return tuple(found)


def herds(members: Iterable[Member], now: datetime) -> list[Problem]:
    """One warning for each crowded minute of the day that follows `now`."""
    minutes: dict[int, list[Member]] = defaultdict(list)
    load: Counter[int] = Counter()
    for member in members:
        for minute in array("H", member.minutes):
            minutes[minute].append(member)
            load[_instant(now, minute).minute] += 1
    crowded = {minute: found for minute, found in minutes.items() if len(found) >= HERD}
    told: set[frozenset[str]] = set()
    problems = []
    for minute in sorted(crowded, key=lambda each: (-len(crowded[each]), each)):
        names = frozenset(f"{member.app}/{member.schedule}" for member in crowded[minute])
        # The same crowd at every hour is one cause.
        if not any(names <= other for other in told):
            told.add(names)
            problems.append(_problem(_instant(now, minute), crowded[minute], load))
    return problems


def _instant(now: datetime, minute: int) -> datetime:
    """Some instant of a minute counted from `now`'s; firings stand at whole ones."""
    return now + (minute + 1) * _MINUTE if now.second or now.microsecond else now + minute * _MINUTE


def _firings(schedule: Schedule, now: datetime) -> list[datetime]:
    if not schedule.enabled or not isinstance(schedule.trigger, Cron) or schedule.jitter:
        return []
    minute, hour, *_ = read_expression(schedule.trigger.expression)
    if minute.mask.bit_count() * hour.mask.bit_count() > _MOST_FIRINGS:
        return []
    return list(schedule.trigger.between(now, now + _DAY))


def _problem(at: datetime, members: list[Member], load: Counter[int]) -> Problem:
    last = max(members, key=lambda member: (member.app, member.schedule))
    place = last.place or Place(file=last.app)
    quiet = sorted(range(60), key=lambda minute: (load[minute], minute))[:30]
    offered = quiet[number_of(f"{last.app}/{last.schedule}") % len(quiet)]
    free = ", ".join(f":{minute:02}" for minute in sorted(quiet[:5]))
    return Problem(
        code="RLY503",
        severity=Severity.WARNING,
        place=place,
        message=f"{len(members)} schedules fire in the minute {at:%H:%M} UTC",
        detail=f"in {counted(len({member.app for member in members}), 'app')}, this one the last by name",
        help=f"spread them: minute {offered} suits this one (quiet minutes are {free}), or set  jitter:",
    )


def number_of(name: str) -> int:
    """A number that follows from a name, the same on every machine and day."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big")
