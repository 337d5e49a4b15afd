"""`relayctl explain`: what any expression means and when it fires, without files and without a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from relayctl.cli.verb import verb_app

app = verb_app()


@app.command(context_settings={"allow_extra_args": True})
def explain(
    context: typer.Context,
    cron: Annotated[str, typer.Argument(metavar="CRON", help='five fields or a descriptor, in quotes: "0 3 * * *"')],
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="IANA time zone")] = "UTC",
    count: Annotated[int, typer.Option("--next", min=1, max=1000, metavar="N", help="how many firings to list")] = 3,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="reckon from TIME, not from now")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="show how croniter would fire the same line")] = False,
) -> None:
    """Say what a cron expression means and when it fires.

    Put it in quotes, or the shell replaces each * by the names of files.
    An expression that cannot be used or never fires ends with exit code 1, the reason and the way out.
    """
    from relayctl.cli.compare import by_croniter
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.triggers import caveats_of, parse_trigger
    from relayctl.core.forecast import forecast
    from relayctl.errors import UsageError
    from relayctl.render import explain as render

    if context.args:
        raise UsageError("an expression is one argument", help='put it in quotes: relayctl explain "0 3 * * *"')
    desk = Desk(context)
    now = desk.now(start)
    trigger = parse_trigger(cron, timezone)
    ahead = forecast(trigger, now, count=count)
    explained = render.Explained(
        trigger=trigger,
        ahead=ahead,
        caveats=caveats_of(trigger, now),
        other=by_croniter(trigger, now, count) if compare else None,
    )
    desk.deliver({
        "text": lambda: render.text(explained, desk.look.width),
        "json": lambda: to_json(render.as_document(explained)),
    })  # fmt: skip
    if not trigger.can_fire:
        raise Ended(Code.FINDINGS)
