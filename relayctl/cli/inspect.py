"""`relayctl inspect`: what the schedules of the tree mean, when they fire, and where they come from."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from collections.abc import Mapping

    from relayctl.cli.desk import Desk
    from relayctl.core.running import Name
    from relayctl.render.inspect import Row
    from relayctl.render.live import Live
    from relayctl.templates.load import Loaded

app = verb_app()

_SHOWN = 40


class Sort(Enum):
    """The order of the table."""

    NEXT = "next"
    NAME = "name"
    RATE = "rate"


@app.command()
def inspect(
    context: typer.Context,
    target: Annotated[str | None, typer.Argument(metavar="[APP[/SCHEDULE]]", help="one app, or one schedule")] = None,
    count: Annotated[int, typer.Option("--next", min=1, max=1000, metavar="N", help="how many firings to list")] = 3,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="reckon from TIME, not from now")] = None,
    utc: Annotated[bool, typer.Option("--utc", help="show times in UTC")] = False,
    everything: Annotated[bool, typer.Option("--all", help=f"list every schedule, not the first {_SHOWN}")] = False,
    sort: Annotated[Sort, typer.Option(help="order of the table", case_sensitive=False)] = Sort.NEXT,
    offline: Annotated[bool, typer.Option("--offline", help="ask no broker: templates only")] = False,
) -> None:
    """Say what schedules mean and when they fire next.

    Where a broker is named or runs here, it adds how they stand in the fleet and how they last went.
    Broken templates are named on stderr and end with exit code 1; the others are shown all the same.
    """
    from relayctl.cli import tree
    from relayctl.cli.desk import Desk
    from relayctl.cli.exits import Code, Ended

    desk = Desk(context)
    now = desk.now(start)
    app_name, schedule = tree.split_target(target) if target else ("", "")
    if schedule:
        loaded = tree.load_one(desk, app_name, now)
        problems = loaded.problems
        if loaded.app is not None:
            live = {} if offline else _live(desk, [loaded])
            _deliver_detail(desk, loaded, schedule, now, count, live)
    else:
        apps = [tree.load_one(desk, app_name, now)] if app_name else list(tree.load(desk, now).apps)
        problems = tuple(problem for each in apps for problem in each.problems)
        live = {} if offline else _live(desk, apps)
        _deliver_table(desk, apps, now, sort, live, utc=utc, everything=everything, is_one=bool(app_name))
    if tree.say_broken(desk, problems):
        raise Ended(Code.FINDINGS)


def _live(desk: Desk, apps: list[Loaded]) -> dict[Name, Live]:
    """What the fleet says, as of now whatever `--from` says; nothing where no broker runs."""
    from relayctl import api
    from relayctl.cli.fleet import place_of
    from relayctl.core.standing import standings
    from relayctl.errors import BrokerUnavailable
    from relayctl.host.clock import SystemClock
    from relayctl.render.live import live_of

    clock = SystemClock()
    try:
        observation = api.observe_or_nothing(place_of(desk.settings), clock)
    except BrokerUnavailable as error:
        way_out = "or leave the fleet out: --offline"
        raise BrokerUnavailable(error.message, help=f"{error.help}\n{way_out}" if error.help else way_out) from error
    valid = [loaded.app for loaded in apps if loaded.app is not None]
    if observation is None:
        return {}
    now = clock.now()
    plan = api.plan_of(api.Desired.of_apps(valid), observation, now=now)
    broken = {worker.id: worker.broken for worker in observation.workers}
    unresolved = {worker.id: worker.unresolved for worker in observation.workers}
    standing = standings(observation.running, broken, now, unresolved=unresolved)
    return live_of(valid, observation.running, standing, plan, observation.release)


def _deliver_detail(
    desk: Desk, loaded: Loaded, schedule: str, now: datetime, count: int, live: Mapping[Name, Live]
) -> None:
    from relayctl.cli import tree
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.sources import handler_place
    from relayctl.cli.triggers import caveats_among
    from relayctl.core.forecast import forecast
    from relayctl.render import inspect as render

    if loaded.app is None:
        return
    found = next((row for row in render.rows_of([loaded.app], now, live) if row.schedule.name == schedule), None)
    if found is None:
        names = [f"{loaded.name}/{item.name}" for item in loaded.app.schedules]
        raise tree.unknown("schedule", f"{loaded.name}/{schedule}", names)
    detail = render.Detail(
        row=found,
        ahead=forecast(found.schedule.trigger, now, count=count),
        caveats=caveats_among(loaded.problems, found.schedule),
        handler_at=handler_place(loaded.directory, loaded.app.runtime, found.schedule.contract.handler),
        source=tree.place_of(loaded.app, schedule),
    )
    desk.deliver({
        "text": lambda: harmless(render.detail_text(detail, desk.look.width)),
        "json": lambda: to_json(render.detail_document(detail)),
    })  # fmt: skip


def _deliver_table(
    desk: Desk,
    apps: list[Loaded],
    now: datetime,
    sort: Sort,
    live: Mapping[Name, Live],
    *,
    utc: bool,
    everything: bool,
    is_one: bool,
) -> None:
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import harmless
    from relayctl.render import inspect as render

    valid = [loaded.app for loaded in apps if loaded.app is not None]
    if is_one and not valid:
        return
    rows = _sorted(render.rows_of(valid, now, live), sort, now)
    full = render.Table(rows=rows, now=now, total=len(rows))
    shown = render.Table(
        rows=rows if everything or is_one else rows[:_SHOWN],
        now=now,
        total=len(rows),
        zone=UTC if utc else None,
        apps=valid if is_one else (),
        counted=rows,
    )
    desk.deliver({
        "text": lambda: harmless(render.table_text(shown, desk.look.width)),
        "json": lambda: to_json(render.table_document(full)),
    })  # fmt: skip


def _sorted(rows: list[Row], sort: Sort, now: datetime) -> list[Row]:
    from relayctl.core.forecast import forecast

    if sort is Sort.NAME:
        return sorted(rows, key=lambda row: row.name)
    if sort is Sort.RATE:
        return sorted(rows, key=lambda row: (-forecast(row.schedule.trigger, now).runs, row.name))
    return sorted(rows, key=lambda row: (row.next_at is None, row.next_at or now, row.name))
