"""`relayctl plan`: what the templates here would change in what runs. Reads only."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.api import Desired, Observation
    from relayctl.cli.desk import Desk
    from relayctl.core.diff import Plan
    from relayctl.render.plan import Setting
    from relayctl.templates.load import LoadedTree

app = verb_app()


@app.command()
def plan(
    context: typer.Context,
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="APP[/NAME]", help="show only this; may be repeated")
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="end with 10 when there are changes")
    ] = False,
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
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.fleet import place_of
    from relayctl.core.duration import parse_duration
    from relayctl.host.clock import SystemClock
    from relayctl.render import plan as render

    desk, clock = Desk(context), SystemClock()
    began, now = clock.monotonic(), desk.now()
    tree = trees.load(desk, now)
    observation = api.observe_or_nothing(place_of(desk.settings), clock)
    made = api.plan(_desired(tree), observation, now=now, horizon=parse_duration(horizon))
    shown = replace(made, changes=render.filtered(made.changes, target or ()))
    setting = _setting(desk, tree, observation, shown, concise, clock.monotonic() - began)
    desk.deliver({
        "text": lambda: render.text(shown, setting),
        "json": lambda: to_json(render.document(shown, setting)),
    })  # fmt: skip
    if trees.say_broken(desk, tree.problems):
        raise Ended(Code.FINDINGS)
    if detailed_exitcode and made.has_changes:
        raise Ended(Code.CHANGES)


def _desired(tree: LoadedTree) -> Desired:
    from relayctl.api import Desired

    return Desired(
        apps=[(loaded.app, loaded.digest) for loaded in tree.apps if loaded.app is not None],
        broken=[loaded.name for loaded in tree.apps if loaded.app is None],
    )


def _setting(
    desk: Desk, tree: LoadedTree, observation: Observation | None, plan: Plan, concise: bool, took_s: float
) -> Setting:
    from relayctl.core.diff import removal_guard
    from relayctl.render.plan import Setting
    from relayctl.render.status import running_words

    schedules = sum(len(app.schedules) for app in tree.valid())
    apps = len(tree.valid())
    return Setting(
        desired=f"{desk.settings.apps}/ at {tree.digest[:8]} · {apps} apps, {schedules} schedules",
        running=running_words(None, None, desk.settings.namespace)
        if observation is None
        else running_words(len(observation.workers), observation.mode, observation.namespace),
        took=timedelta(seconds=took_s),
        concise=concise,
        guard=removal_guard(plan),
    )
