"""RLY503 over all apps of a tree: many schedules in one minute, with minutes that are free. Judged on one typical day.

It reckons in wall minutes of UTC on the day after `now`, and offers each schedule a minute that follows from its name.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from relayctl.core.cron import Cron
from relayctl.core.crongrammar import read_expression
from relayctl.core.model import App, Schedule
from relayctl.core.problem import Place, Problem, Severity

HERD = 20
"""From so many schedules in one minute on it is said."""
_DAY = timedelta(days=1)
_MOST_FIRINGS = 24
"""A schedule that fires more often than hourly belongs to no one minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    app: str
    schedule: Schedule


def herds(apps: Iterable[App], now: datetime) -> list[Problem]:
    """One warning for each crowded minute of the day that follows `now`."""
    minutes: dict[datetime, list[_Member]] = defaultdict(list)
    load: Counter[int] = Counter()
    for app in apps:
        for schedule in app.schedules:
            for at in _firings(schedule, now):
                minutes[at].append(_Member(app=app.name, schedule=schedule))
                load[at.minute] += 1
    crowded = {at: members for at, members in minutes.items() if len(members) >= HERD}
    told: set[frozenset[str]] = set()
    problems = []
    for at in sorted(crowded, key=lambda each: (-len(crowded[each]), each)):
        names = frozenset(f"{member.app}/{member.schedule.name}" for member in crowded[at])
        # The same crowd at every hour is one cause.
        if not any(names <= other for other in told):
            told.add(names)
            problems.append(_problem(at, crowded[at], load))
    return problems


def _firings(schedule: Schedule, now: datetime) -> list[datetime]:
    if not schedule.enabled or not isinstance(schedule.trigger, Cron) or schedule.jitter:
        return []
    minute, hour, *_ = read_expression(schedule.trigger.expression)
    if minute.mask.bit_count() * hour.mask.bit_count() > _MOST_FIRINGS:
        return []
    return list(schedule.trigger.between(now, now + _DAY))


def _problem(at: datetime, members: list[_Member], load: Counter[int]) -> Problem:
    last = max(members, key=lambda member: (member.app, member.schedule.name))
    place = last.schedule.place or Place(file=last.app)
    quiet = sorted(range(60), key=lambda minute: (load[minute], minute))[:30]
    offered = quiet[_number(f"{last.app}/{last.schedule.name}") % len(quiet)]
    free = ", ".join(f":{minute:02}" for minute in sorted(quiet[:5]))
    return Problem(
        code="RLY503",
        severity=Severity.WARNING,
        place=place,
        message=f"{len(members)} schedules fire in the minute {at:%H:%M} UTC",
        detail=f"in {len({member.app for member in members})} apps, this one the last by name",
        help=f"spread them: minute {offered} suits this one (quiet minutes are {free}), or set  jitter:",
    )


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big")
