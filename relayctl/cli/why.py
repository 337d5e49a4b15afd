"""`relayctl why`: what became of one firing, and why."""

from __future__ import annotations

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
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.fleet import asked_of
    from relayctl.cli.when import parse_firing
    from relayctl.render import why as render

    name, at_sign, instant = target.partition("@")
    desk, place, app_name, schedule = asked_of(context, name)
    wanted = parse_firing(instant if at_sign else "latest", desk.now())
    found = api.why(place, app_name, schedule, wanted)
    shown = render.Why(
        app=app_name,
        schedule=schedule,
        now=found.now,
        zone=found.zone,
        firings=found.firings,
        more=found.more,
        moved_to="/".join(found.moved_to or ()),
    )
    desk.deliver({
        "text": lambda: harmless(render.text(shown, width=desk.look.width)),
        "json": lambda: to_json(render.document(shown)),
    })  # fmt: skip
