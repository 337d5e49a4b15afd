"""A document of the right shape to an App: defaults, durations, triggers, and the rules between keys.

It works on what is sound and passes over the rest, so that one run reports everything. It reads no other file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from relayctl.core.cron import Cron, Every
from relayctl.core.model import (
    DEFAULT_BACKOFF,
    DEFAULT_CONCURRENCY,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT,
    App,
    CatchUp,
    Contract,
    EventRule,
    Isolation,
    Overlap,
    Resources,
    Schedule,
)
from relayctl.core.names import AppName, ScheduleName, is_name
from relayctl.core.pattern import Pattern, PatternError
from relayctl.core.problem import Problem
from relayctl.templates.document import Document, PathPart, ScalarNode, SequenceNode, path_text
from relayctl.templates.environment import env_of, resources_of, secrets_of
from relayctl.templates.fields import Fields
from relayctl.templates.gaps import shortest_gap
from relayctl.templates.naming import check_name
from relayctl.templates.services import service_of
from relayctl.templates.triggers import trigger_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggered:
    """A schedule as far as it could be read: its path in the file and the trigger."""

    path: tuple[PathPart, ...]
    name: str
    trigger: Cron | Every
    schedule: Schedule


@dataclass(slots=True, kw_only=True)
class Meaning:
    """What a document means. `app` is None when something is wrong; `triggered` holds what rules can still look at."""

    app: App | None = None
    problems: list[Problem] = field(default_factory=list)
    triggered: list[Triggered] = field(default_factory=list)


def app_from(document: Document, name: AppName) -> Meaning:
    """The app of a document, or the problems that keep it from being one."""
    meaning = Meaning()
    top = Fields(document=document, path=(), node=document.root, problems=meaning.problems)
    events = [rule for item in top.mappings("events") if (rule := _event(item)) is not None]
    schedules = []
    for item in top.mappings("schedules"):
        schedule = _schedule(item, name)
        if schedule is not None:
            schedules.append(schedule)
            meaning.triggered.append(
                Triggered(path=item.path, name=schedule.name, trigger=schedule.trigger, schedule=schedule)
            )
    services = [service for item in top.mappings("services") if (service := service_of(item)) is not None]
    _unique(top, "schedules", "name", "RLY701", lambda value: f'schedule name "{value}" is taken')
    _check_moves(top, name)
    _unique(top, "services", "name", "RLY701", lambda value: f'service name "{value}" is taken')
    _unique(top, "events", "handler", "RLY104", lambda value: f'handler "{value}" serves another event rule already')
    _runtime_needed(top)
    env, secrets = env_of(top), secrets_of(top)
    resources = resources_of(top.mapping("resources")) or Resources()
    concurrency = top.integer("concurrency", DEFAULT_CONCURRENCY)
    if meaning.problems:
        return meaning
    meaning.app = App(
        name=name,
        runtime=top.text("runtime"),
        concurrency=concurrency,
        isolation=top.choice("isolation", Isolation, Isolation.WARM),
        resources=resources,
        env=env,
        secrets=secrets,
        events=tuple(events),
        schedules=tuple(schedules),
        services=tuple(services),
    )
    return meaning


def _contract(item: Fields) -> Contract | None:
    handler = item.text("handler")
    if not handler:
        return None
    return Contract(
        handler=handler,
        timeout=item.duration("timeout", DEFAULT_TIMEOUT),
        retries=item.integer("retries", DEFAULT_RETRIES),
        backoff=_backoff(item),
        has_own_timeout=item.has("timeout"),
        has_own_retries=item.has("retries"),
    )


def _backoff(item: Fields) -> tuple[timedelta, ...]:
    written = item.node.get("backoff")
    if not isinstance(written, SequenceNode):
        return DEFAULT_BACKOFF
    waits = []
    for at, node in enumerate(written.items):
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            wait = item.duration_of(node, "backoff", (*item.path, "backoff", at))
            if wait is not None:
                waits.append(wait)
    return tuple(waits) or DEFAULT_BACKOFF


def _event(item: Fields) -> EventRule | None:
    contract = _contract(item)
    pattern = _pattern(item)
    if contract is None or pattern is None:
        return None
    return EventRule(pattern=pattern, contract=contract, place=item.place("handler"))


def _pattern(item: Fields) -> Pattern | None:
    written = item.plain("pattern")
    if not isinstance(written, dict):
        return None
    try:
        return Pattern.from_json(written)
    except PatternError as error:
        path = (*item.path, "pattern", *error.path)
        key, node = item.document.at(path)
        is_short = isinstance(node, ScalarNode) and node.end > node.start
        target = node if is_short or key is None else key
        item.add("RLY104", target, error.message, help=error.help or "", path=path)
        return None


def _schedule(item: Fields, app: AppName) -> Schedule | None:
    name = item.scalar("name")
    if name is not None:
        check_name(item, name)
    trigger = trigger_of(item)
    contract = _contract(item)
    jitter = item.duration("jitter", timedelta(0))
    moved_from = _moved_from(item, app)
    data = item.plain("input")
    if name is None or trigger is None or contract is None:
        return None
    if jitter:
        _check_jitter(item, trigger, jitter)
    return Schedule(
        name=ScheduleName(str(name.value)),
        trigger=trigger,
        contract=contract,
        enabled=item.boolean("enabled", True),
        overlap=item.choice("overlap", Overlap, Overlap.ALLOW),
        catch_up=item.choice("catch_up", CatchUp, CatchUp.LATEST),
        jitter=jitter,
        input=_canonical(data) if isinstance(data, dict) else None,
        moved_from=moved_from,
        description=item.text("description") or "",
        place=item.place("name"),
    )


def _moved_from(item: Fields, app: AppName) -> tuple[AppName, ScheduleName] | None:
    node = item.scalar("moved_from")
    if node is None:
        return None
    former_app, slash, former = str(node.value).partition("/")
    if not slash or not is_name(former_app) or not is_name(former):
        item.refuse(
            "moved_from", "RLY104", "moved_from names the former app and schedule", "write  moved_from: app/schedule"
        )
        return None
    if former_app == app and former == item.text("name"):
        item.refuse(
            "moved_from", "RLY104", "moved_from names this very schedule", "write its former name, or remove the key"
        )
    return AppName(former_app), ScheduleName(former)


def _check_moves(top: Fields, app: AppName) -> None:
    """A former name is given up, and by one schedule: with both in use nobody could say which of them goes on."""
    items = list(top.mappings("schedules"))
    names, takers = {item.text("name") for item in items}, set[str]()
    for item in items:
        written = item.text("moved_from") or ""
        former_app, _, former = written.partition("/")
        if former_app == app and former in names and former != item.text("name"):
            item.refuse(
                "moved_from",
                "RLY104",
                f'moved_from names "{former}", which is still a schedule of this app',
                "remove that schedule, or remove the key where both are to run",
            )
        elif written in takers:
            item.refuse(
                "moved_from", "RLY104", f"another schedule is moved from {written} already", "keep it in one of them"
            )
        takers |= {written} - {""}


def _check_jitter(item: Fields, trigger: Cron | Every, jitter: timedelta) -> None:
    gap = shortest_gap(trigger)
    if gap is not None and jitter * 2 >= gap:
        from relayctl.core.duration import format_duration

        item.refuse(
            "jitter",
            "RLY108",
            f"jitter must stay below half the shortest interval, which is {format_duration(gap)}",
            f"write less than {format_duration(gap / 2)}",
        )


def _canonical(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _unique(top: Fields, key: str, name: str, code: str, words: Callable[[str], str]) -> None:
    first: dict[str, ScalarNode] = {}
    for item in top.mappings(key):
        node = item.scalar(name)
        if node is None:
            continue
        text = str(node.value)
        if text not in first:
            first[text] = node
            continue
        line = top.document.source.position(first[text].start)[0]
        again = top.document.source.position(node.start)[0]
        shown = text if len(text) <= 63 else f"{text[:62]}…"
        item.add(
            code,
            node,
            words(shown),
            detail=f"on line {line} and again on line {again}",
            help="give one of them another name" if name == "name" else "give each event rule a handler of its own",
            path=(*item.path, name),
        )


def _runtime_needed(top: Fields) -> None:
    if top.has("runtime"):
        return
    for key in ("events", "schedules", "services"):
        for item in top.mappings(key):
            if key == "services" and not item.has("entrypoint"):
                continue
            entry = top.node.entries[key][0]
            top.problems.append(
                top.document.source.problem(
                    "RLY102",
                    entry.start,
                    entry.end,
                    f'the template has no "runtime", and {path_text(item.path)} needs one',
                    help="add  runtime: python   (or python3.12, node, exec)",
                    path=path_text((key,)),
                )
            )
            return
