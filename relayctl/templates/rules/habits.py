"""Remarks of family 5: habits that cost something only one day, told where somebody asks for remarks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from relayctl.core.counting import counted
from relayctl.core.cron import Cron, Every
from relayctl.core.crongrammar import DESCRIPTORS, read_expression
from relayctl.core.duration import format_duration
from relayctl.core.model import DEFAULT_TIMEOUT
from relayctl.core.problem import Fix, Problem
from relayctl.templates.document import MappingNode, PathPart, ScalarNode, SequenceNode
from relayctl.templates.fixes.tokens import rewritten
from relayctl.templates.gaps import shortest_gap
from relayctl.templates.meaning import Triggered
from relayctl.templates.rules.engine import Case
from relayctl.templates.rules.herd import number_of

_FREQUENT = timedelta(minutes=10)
"""Who fires at least so often loses a handful of firings in every outage worth the name."""
_OUTAGE = timedelta(hours=1)


def check(case: Case) -> Iterator[Problem]:
    """RLY504, RLY506, RLY508. Who gives no clock is a worker, and wants no remarks."""
    if case.now is None:
        return
    yield from _no_timeout(case)
    for triggered in case.meaning.triggered:
        if not triggered.schedule.enabled:
            continue
        if isinstance(triggered.trigger, Cron):
            yield from _minute_zero(case, triggered, triggered.trigger)
        yield from _latest_only(case, triggered)


def _no_timeout(case: Case) -> Iterator[Problem]:
    """One remark for the template: where one timeout is left to the default, the others mostly are too."""
    items = list(_with_handlers(case))
    bare = [(path, node) for path, item, node in items if "timeout" not in item.entries]
    if not bare:
        return
    path, node = bare[0]
    default = format_duration(DEFAULT_TIMEOUT)
    yield case.report(
        "RLY506",
        node,
        path,
        f"{len(bare)} of {counted(len(items), 'handler')} here {'says' if len(bare) == 1 else 'say'} no timeout",
        detail=f"the default of {default} stops a run" + ("" if len(bare) == 1 else "; this one is the first"),
        help=f"write the time that a good run never needs:  timeout: {default}",
    )


def _with_handlers(case: Case) -> Iterator[tuple[tuple[PathPart, ...], MappingNode, ScalarNode]]:
    for key in ("events", "schedules"):
        listed = case.document.root.get(key)
        for at, item in enumerate(listed.items if isinstance(listed, SequenceNode) else []):
            handler = item.get("handler") if isinstance(item, MappingNode) else None
            if isinstance(item, MappingNode) and isinstance(handler, ScalarNode):
                yield (key, at, "handler"), item, handler


def _minute_zero(case: Case, triggered: Triggered, cron: Cron) -> Iterator[Problem]:
    node, app = case.node(triggered, "cron"), case.meaning.app
    minute, *rest = _words(cron)
    if minute not in {"0", "00"} or triggered.schedule.jitter or app is None or not isinstance(node, ScalarNode):
        return
    offered = 1 + number_of(f"{app.name}/{triggered.name}") % 59
    meant = " ".join([str(offered), *rest])
    yield case.report(
        "RLY504",
        node,
        (*triggered.path, "cron"),
        "it fires at minute 0, as most schedules anywhere do",
        detail="what it asks of others is busiest then",
        help=f'minute {offered}, which follows from its name, is as good:  cron: "{meant}"',
        fix=_another_minute(case, node, meant),
    )


def _another_minute(case: Case, node: ScalarNode, meant: str) -> Fix | None:
    return rewritten(case.document.source, node, meant, f'write "{meant}"', is_safe=False)


def _latest_only(case: Case, triggered: Triggered) -> Iterator[Problem]:
    key = "cron" if isinstance(triggered.trigger, Cron) else "every"
    node = case.node(triggered, key)
    if node is None or case.node(triggered, "catch_up") is not None or not _may_be_frequent(triggered.trigger):
        return
    gap = shortest_gap(triggered.trigger)
    if gap is None or gap > _FREQUENT:
        return
    lost = _OUTAGE // gap - 1
    of_all = f"{lost:,} of {counted(lost + 1, 'firing')} {'is' if lost == 1 else 'are'}"
    yield case.report(
        "RLY508",
        node,
        (*triggered.path, key),
        f"after an hour without workers, {of_all} closed as missed",
        detail="by design the latest one alone is made up for",
        help="say that this is meant with  catch_up: latest   or ask for every one with  catch_up: all",
    )


def _may_be_frequent(trigger: Cron | Every) -> bool:
    """A look at the minutes alone, which spares most schedules the search for their shortest gap."""
    if isinstance(trigger, Every):
        return trigger.seconds <= _FREQUENT.total_seconds()
    if _words(trigger)[0].isdigit():
        return False
    return read_expression(trigger.expression)[0].mask.bit_count() >= _OUTAGE // _FREQUENT


def _words(cron: Cron) -> list[str]:
    """The five fields as they are written, or as a descriptor means them."""
    text = cron.expression.strip(" \t")
    return DESCRIPTORS.get(text, text).split()
