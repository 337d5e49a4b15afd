"""Family 5 within one app: runs that meet each other. What several apps do together is judged in `herd`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from relayctl.core.duration import format_duration
from relayctl.core.model import Overlap
from relayctl.core.problem import Problem
from relayctl.core.timing import backoff_after
from relayctl.templates.gaps import shortest_gap
from relayctl.templates.meaning import Triggered
from relayctl.templates.rules.engine import Case

_MOST_RETRIES = 1000
"""What the schema allows; a larger number was refused, and is not worth adding up."""


def check(case: Case) -> Iterator[Problem]:
    """RLY501, RLY502, RLY505."""
    first: dict[tuple[object, str], Triggered] = {}
    for triggered in case.meaning.triggered:
        schedule = triggered.schedule
        same = first.setdefault((triggered.trigger, schedule.contract.handler), triggered)
        if same is not triggered and same.schedule.input == schedule.input:
            yield _twice(case, triggered, same)
        is_own = schedule.contract.has_own_timeout or schedule.contract.has_own_retries
        # With the other choices no run begins beside another one.
        if is_own and schedule.overlap is Overlap.ALLOW:
            yield from _overrun(case, triggered)


def _twice(case: Case, triggered: Triggered, same: Triggered) -> Problem:
    path = (*triggered.path, "name")
    _, node = case.document.at(path)
    line = case.document.source.position(case.document.at((*same.path, "name"))[1].start)[0]
    return case.report(
        "RLY505",
        node,
        path,
        f'"{triggered.name}" runs the same handler at the same times as "{same.name}"',
        detail=f"the other one is on line {line}",
        help="remove one of the two, or give them different input",
    )


def _overrun(case: Case, triggered: Triggered) -> Iterator[Problem]:
    contract = triggered.schedule.contract
    gap = shortest_gap(triggered.trigger)
    if gap is None:
        return
    key = "cron" if case.node(triggered, "cron") is not None else "every"
    trigger = case.node(triggered, key)
    line, column = case.document.source.position(trigger.start) if trigger is not None else (0, 0)
    see = (f"see: {line}:{column} {key}",) if trigger is not None else ()
    timeout = case.node(triggered, "timeout")
    if contract.has_own_timeout and contract.timeout > gap and timeout is not None:
        yield case.report(
            "RLY501",
            timeout,
            (*triggered.path, "timeout"),
            f"timeout {format_duration(contract.timeout)} is longer than the shortest gap between runs "
            f"({format_duration(gap)})",
            detail="a slow run can still be busy when the next one starts",
            help=f"timeout <= {format_duration(gap)}, a wider gap, or  overlap: skip",
            notes=see,
        )
        return
    retries = case.node(triggered, "retries")
    if not contract.has_own_retries or retries is None or not 0 < contract.retries <= _MOST_RETRIES:
        return
    waits = sum((backoff_after(attempt, contract.backoff) for attempt in range(1, contract.retries + 1)), timedelta(0))
    whole = contract.timeout * (contract.retries + 1) + waits
    if whole > gap:
        yield case.report(
            "RLY502",
            retries,
            (*triggered.path, "retries"),
            f"{contract.retries + 1} attempts can take {format_duration(whole)}, "
            f"longer than the shortest gap between runs ({format_duration(gap)})",
            detail="the next run can start while this one is still being retried",
            help="fewer retries, a shorter backoff, or  overlap: skip",
            notes=see,
        )
