"""A trigger from the command line, and what a linter would remark about it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from relayctl.cli.exits import Code, Ended, complain, harmless
from relayctl.core.cron import Cron, CronError

if TYPE_CHECKING:
    from relayctl.core.model import Schedule
    from relayctl.core.problem import Problem
    from relayctl.render.firing import Caveat

_TOLD_AS_SHIFTS = frozenset({"RLY305", "RLY306"})


def parse_trigger(expression: str, timezone: str) -> Cron:
    """The cron expression; one that cannot be used is a finding, told with its way out."""
    try:
        return Cron.parse(expression, timezone)
    except CronError as error:
        complain(*_refusal(error, expression, timezone))
        raise Ended(Code.FINDINGS) from None


def _refusal(error: CronError, expression: str, timezone: str) -> list[str]:
    lines = [f"error {error.code} {harmless(error.message)}"]
    shown = harmless(timezone if error.code in {"RLY301", "RLY302"} else expression)
    start, end = error.span
    if end > start and "\n" not in shown and len(shown) <= 200:
        lines += [f"  | {shown}", f"  | {' ' * start}{'^' * (end - start)}"]
    if error.help:
        lines.append(f"  = help: {harmless(error.help)}")
    return lines


def caveats_of(trigger: Cron, now: datetime) -> list[Caveat]:
    """What `validate` would remark about a schedule that fires so; shifts of the clock are told elsewhere."""
    from relayctl.core.names import AppName
    from relayctl.templates.load import check_text

    schedule = {"name": "explained", "handler": "a.b", "cron": trigger.expression, "timezone": trigger.timezone}
    template = {"runtime": "python", "events": [{"handler": "a.b", "pattern": {"a": ["b"]}}], "schedules": [schedule]}
    _, problems, _ = check_text(json.dumps(template).encode(), "-", AppName("explained"), None, now)
    return _caveats(problem for problem in problems if problem.place.path.startswith("schedules"))


def caveats_among(problems: Iterable[Problem], schedule: Schedule) -> list[Caveat]:
    """What was remarked about one schedule of a template."""
    name = f'"{schedule.name}"'
    return _caveats(
        problem
        for problem in problems
        if problem.place.path.startswith("schedules") and problem.place.label.endswith(name)
    )


def _caveats(problems: Iterable[Problem]) -> list[Caveat]:
    from relayctl.core.problem import Severity
    from relayctl.render.firing import Caveat

    return [
        Caveat(code=problem.code, message=problem.message, help=problem.help)
        for problem in problems
        if problem.severity is not Severity.INFO and problem.code not in _TOLD_AS_SHIFTS
    ]
