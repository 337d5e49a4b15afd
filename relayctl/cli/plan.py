"""`relayctl plan`: what the templates here would change in what runs. Reads only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relayctl.api import Observation
    from relayctl.cli.desk import Desk
    from relayctl.core.diff import Plan
    from relayctl.render.plan import Setting
    from relayctl.templates.load import LoadedTree

app = verb_app()

_LONGEST_HORIZON = timedelta(days=366)


@app.command()
def plan(
    context: typer.Context,
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="APP[/NAME]", help="show only this; may be repeated")
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="end with 10 when changes are shown")
    ] = False,
    show_unchanged: Annotated[bool, typer.Option("--show-unchanged", help="list what stays as it is too")] = False,
    horizon: Annotated[
        str, typer.Option("--horizon", metavar="DURATION", help="over which firings are counted")
    ] = "24h",
    concise: Annotated[bool, typer.Option("--concise", help="one line per change")] = False,
) -> None:
    """Show what the templates would change in what runs.

    Without a live worker it compares with the registry's last state; without a broker nothing runs and all is new.
    """
    from relayctl import api
    from relayctl.cli import tree as trees
    from relayctl.cli.desk import Desk
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.fleet import place_of
    from relayctl.cli.when import parse_span
    from relayctl.host.clock import SystemClock

    desk, clock = Desk(context), SystemClock()
    span = parse_span(horizon, "--horizon", longest=_LONGEST_HORIZON)
    began, now = clock.monotonic(), desk.now()
    tree = trees.load(desk, now)
    observation = api.observe_or_nothing(place_of(desk.settings), clock)
    whole = api.plan(api.desired_of(tree), observation, now=now, horizon=span)
    shown = _narrowed(whole, target or ())
    setting = _setting(desk, tree, observation, whole, took=timedelta(seconds=clock.monotonic() - began))
    _deliver(desk, shown, setting, concise, show_unchanged)
    if trees.say_broken(desk, tree.problems):
        raise Ended(Code.FINDINGS)
    if detailed_exitcode and shown.has_changes:
        raise Ended(Code.CHANGES)


def _narrowed(whole: Plan, targets: Sequence[str]) -> Plan:
    from relayctl.cli import tree as trees

    known = whole.names()
    for target in targets:
        trees.split_target(target)
        if target not in known:
            raise trees.unknown("app, schedule, event rule or service", target, known)
    return whole.narrowed(targets)


def _setting(desk: Desk, tree: LoadedTree, observation: Observation | None, whole: Plan, took: timedelta) -> Setting:
    from relayctl import api
    from relayctl.core.diff import removal_guard
    from relayctl.render.plan import Setting
    from relayctl.render.status import counted, running_words

    valid = tree.valid()
    apps, schedules = counted(len(valid), "app"), counted(sum(len(app.schedules) for app in valid), "schedule")
    guard = removal_guard(whole)
    return Setting(
        desired=f"{desk.settings.apps}/ at {tree.digest[:8]} · {apps}, {schedules}",
        running=running_words(None, None, desk.settings.namespace)
        if observation is None
        else " · ".join(
            (
                running_words(len(observation.workers), observation.mode, observation.namespace),
                *(f"of a newer relayctl: {words}" for words in observation.newer),
            )
        ),
        took=took,
        width=desk.look.width,
        guard=f"{guard}: relayctl reconcile --accept-removals {tree.digest}" if guard else "",
        limits=""
        if observation is None
        else api.limits_not_kept({app.name: app.resources.declared for app in valid}, observation.workers),
    )


def _deliver(desk: Desk, shown: Plan, setting: Setting, concise: bool, show_unchanged: bool) -> None:
    from dataclasses import replace

    from relayctl.cli.desk import to_json
    from relayctl.render import plan as render
    from relayctl.render import plandocument

    setting = replace(setting, is_concise=concise, shows_unchanged=show_unchanged)
    desk.deliver({
        "text": lambda: render.text(shown, setting),
        "json": lambda: to_json(plandocument.document(shown, setting)),
        "jsonl": lambda: plandocument.stream(shown, setting),
        "markdown": lambda: render.markdown(shown, setting),
    })  # fmt: skip
