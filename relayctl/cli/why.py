"""`relayctl why`: what became of one firing, and why."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

import typer

from relayctl.cli.verb import verb_app

app = verb_app()


@app.command()
def why(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(metavar="APP/SCHEDULE@INSTANT", help="a firing: an instant, a date, or latest"),
    ],
) -> None:
    """Say what became of a firing.

    An instant is written 2026-09-29T03:00:00Z, a day (in the schedule's zone) 2026-09-29, the last firing that was due
    latest.
    """
    from relayctl import api
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.fleet import place_of
    from relayctl.cli.tree import split_schedule
    from relayctl.host.clock import SystemClock
    from relayctl.render import why as render

    name, at_sign, instant = target.partition("@")
    desk = Desk(context)
    app_name, schedule = split_schedule(name)
    wanted = _wanted(instant if at_sign else "latest", desk.now())
    found = api.why(place_of(desk.settings), SystemClock(), app_name, schedule, wanted)
    shown = render.Why(
        app=app_name,
        schedule=schedule,
        now=found.now,
        zone=found.zone,
        firings=found.firings,
        more=found.more,
    )
    desk.deliver({
        "text": lambda: harmless(render.text(shown, width=desk.look.width)),
        "json": lambda: to_json(render.document(shown)),
    })  # fmt: skip


def _wanted(text: str, now: datetime) -> datetime | date | None:
    """The instant or day that was asked for; None is the last firing that was due."""
    from relayctl.cli.when import parse_instant

    if text in {"", "latest"}:
        return None
    at = parse_instant(text, now)
    return date.fromisoformat(text) if len(text) == len("2026-09-29") and text.count("-") == 2 else at
