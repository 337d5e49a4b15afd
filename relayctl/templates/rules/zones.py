"""Family 3 beyond unknown names: old names, reversed signs, the dates of clock changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources

from relayctl.core.counting import counted
from relayctl.core.cron import Cron, ShiftEffect, ShiftKind
from relayctl.core.problem import Problem
from relayctl.templates.document import ScalarNode
from relayctl.templates.fixes.tokens import rewritten
from relayctl.templates.meaning import Triggered
from relayctl.templates.rules.cron import instant_words
from relayctl.templates.rules.engine import Case

_FIXED = re.compile(r"Etc/GMT([+-])([1-9][0-9]?)|(EST|MST|HST)", re.ASCII)
_PLACES = {
    "EST": "America/Panama, or America/New_York with daylight saving",
    "MST": "America/Phoenix, or America/Denver with daylight saving",
    "HST": "Pacific/Honolulu",
}


def check(case: Case) -> Iterator[Problem]:
    """RLY303 to RLY306."""
    for triggered in case.meaning.triggered:
        zone = case.node(triggered, "timezone")
        if isinstance(zone, ScalarNode):
            yield from _name(case, triggered, zone)
        cron = case.node(triggered, "cron")
        if isinstance(triggered.trigger, Cron) and isinstance(cron, ScalarNode) and case.now is not None:
            yield from _shifts(case, triggered, cron, triggered.trigger)


def _name(case: Case, triggered: Triggered, node: ScalarNode) -> Iterator[Problem]:
    path = (*triggered.path, "timezone")
    fixed = _FIXED.fullmatch(node.text)
    if fixed is not None:
        sign, hours, short = fixed.groups()
        if short is None:
            real = "-" if sign == "+" else "+"
            message = f'"{node.text}" is UTC{real}{hours}: the sign in these names is reversed'
            detail = f"{counted(int(hours), 'hour')} {'behind' if real == '-' else 'ahead of'} UTC"
            hint = "name the place instead"
        else:
            message, detail = f'"{short}" is a fixed offset, without daylight saving', "0 clock changes a year"
            hint = f"name the place:  {_PLACES[short]}"
        yield case.report("RLY304", node, path, message, detail=detail, help=hint)
        return
    newer = _renamed().get(node.text)
    if newer is not None:
        yield case.report(
            "RLY303",
            node,
            path,
            f'"{node.text}" is an old name',
            detail=f"now {newer}",
            help=f'write "{newer}"',
            fix=rewritten(case.document.source, node, newer, f"write {newer}", is_safe=True),
        )


@lru_cache(maxsize=1)
def _renamed() -> dict[str, str]:
    """Old name to the one in use: links of the database whose own name is not among the places of today."""
    folder = resources.files("tzdata").joinpath("zoneinfo")
    try:
        rules = folder.joinpath("tzdata.zi").read_text(encoding="utf-8")
        table = folder.joinpath("zone.tab").read_text(encoding="utf-8")
    except OSError:
        return {}
    today = {line.split("\t")[2].strip() for line in table.splitlines() if line and not line.startswith("#")}
    links = (line.split() for line in rules.splitlines() if line.startswith("L "))
    return {old: new for _, new, old in links if old not in today and "/" in new and not new.startswith("Etc/")}


def _shifts(case: Case, triggered: Triggered, node: ScalarNode, cron: Cron) -> Iterator[Problem]:
    assert case.now is not None
    if cron.timezone == "UTC" or not triggered.schedule.enabled or _follows_clock(node.text):
        return
    written = {ShiftKind.GAP: cron.dst.gap, ShiftKind.FOLD: cron.dst.fold}
    told: set[ShiftKind] = set()
    for effect in cron.transitions_affecting(case.now, case.now + case.manner.tz_horizon):
        if effect.kind in told or written[effect.kind] is not None:
            continue
        told.add(effect.kind)
        yield _shift(case, triggered, node, effect)


def _follows_clock(expression: str) -> bool:
    """Whether the hour is a star: such a job loses and repeats nothing that its author would miss."""
    words = expression.split()
    return expression.strip() == "@hourly" or (len(words) > 1 and words[1].startswith("*"))


def _shift(case: Case, triggered: Triggered, node: ScalarNode, effect: ShiftEffect) -> Problem:
    wall = effect.walls[0].replace("T", " ")[11:16]
    more = f" and {len(effect.walls) - 1} more" if len(effect.walls) > 1 else ""
    on = effect.on.isoformat()
    if effect.kind is ShiftKind.GAP:
        message = f"{wall}{more} does not exist on {on}: the clock goes forward over it"
        happens = f"runs at {instant_words(effect.fires_at[0])}" if effect.fires_at else "does not run that day"
        code, key, choices = "RLY305", "gap", "run or skip"
    else:
        message = f"{wall}{more} occurs twice on {on}: the clock goes back"
        count = len(effect.fires_at)
        times = ", ".join(instant_words(at) for at in effect.fires_at[:2])
        happens = f"runs {'once' if count == 1 else f'{count} times'}, at {times}" if count else "does not run then"
        code, key, choices = "RLY306", "fold", "first or both"
    return case.report(
        code,
        node,
        (*triggered.path, "cron"),
        message,
        detail=happens,
        help=f"say what you want with  dst: {{{key}: …}}   ({choices}), or move the time",
    )
