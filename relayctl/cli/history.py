"""`relayctl history`: how the firings of a schedule, or the event runs of a handler, ended, and which have not."""

from __future__ import annotations

from typing import Annotated

import typer

from relayctl.cli.verb import verb_app

app = verb_app()


@app.command()
def history(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="APP/NAME", help="a schedule of the app, or an event handler")],
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="at most so many records")] = 20,
    failed: Annotated[
        bool, typer.Option("--failed", help="only what did not succeed, or is to be tried again")
    ] = False,
) -> None:
    """Show how firings and event runs ended.

    What has not ended yet stands on top, then the newest record; 1,000 records or 30 days are kept, whichever is
    less.
    """
    from relayctl import api
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.fleet import place_of
    from relayctl.cli.tree import split_target
    from relayctl.errors import UsageError
    from relayctl.render import history as render

    name, wanted = split_target(target)
    if not wanted:
        raise UsageError(f'not a schedule or handler: "{target}"', help="write APP/SCHEDULE or APP/HANDLER")
    desk = Desk(context)
    found = api.history(place_of(desk.settings), name, wanted, limit=limit + 1, failed_only=failed)
    shown = render.History(
        app=found.app,
        name=found.name,
        is_schedule=found.is_schedule,
        zone=found.zone,
        records=found.records[:limit],
        now=found.now,
        unfinished=found.unfinished[:limit],
        is_cut=len(found.records) > limit,
        newer=found.newer,
        moved_from=["/".join(each) for each in found.moved_from],
        moved_to="/".join(found.moved_to or ()),
    )
    desk.deliver({
        "text": lambda: harmless(render.text(shown, width=desk.look.width)),
        "json": lambda: to_json(render.document(shown)),
    })  # fmt: skip
