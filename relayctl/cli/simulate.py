"""`relayctl simulate`: what would fire in a window of time, by the templates alone. Nothing runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.core.load import Window

app = verb_app()

_LISTED = 200
_MOST_DAYS = 400


class By(Enum):
    """How firings are shown."""

    FIRING = "firing"
    MINUTE = "minute"
    HOUR = "hour"
    WEEK = "week"


@app.command()
def simulate(
    context: typer.Context,
    target: Annotated[str | None, typer.Argument(metavar="[APP[/SCHEDULE]]", help="one app, or one schedule")] = None,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="look at what is later than TIME")] = "now",
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="and not later than TIME [a day on; by week a week]")
    ] = None,
    by: Annotated[By, typer.Option(help="list firings, count them, or draw a week of hours")] = By.FIRING,
    everything: Annotated[bool, typer.Option("--all", help=f"list every firing, not the first {_LISTED}")] = False,
) -> None:
    """Show what would fire in a window of time."""
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.tree import named_triggers, say_broken
    from relayctl.core.load import density, firings
    from relayctl.render import simulate as render

    desk = Desk(context)
    window = _window(desk.now(start), end, timedelta(weeks=1) if by is By.WEEK else timedelta(days=1))
    schedules, problems = named_triggers(desk, target, window.after)
    found = density(schedules, window)
    listed = firings(schedules, window)
    rows = list(listed if everything else islice(listed, _LISTED))
    width = desk.look.width
    draw = {
        By.FIRING: lambda: render.listing(rows, found, width),
        By.MINUTE: lambda: render.counts(found.by_minute, found, width),
        By.HOUR: lambda: render.counts(found.by_hour(), found, width),
        By.WEEK: lambda: render.picture(found, width),
    }
    document = partial(render.as_document, rows, found, with_minutes=by is By.MINUTE)
    desk.deliver({"text": draw[by], "json": lambda: to_json(document())})
    if say_broken(desk, problems):
        raise Ended(Code.FINDINGS)


def _window(after: datetime, end: str | None, usual: timedelta) -> Window:
    from relayctl.cli.when import parse_instant
    from relayctl.core.load import Window
    from relayctl.errors import UsageError

    until = after + usual if end is None else parse_instant(end, after)
    if until <= after:
        raise UsageError("--to is not later than --from", help="write --to now+7d, or a later instant")
    if until > after + timedelta(days=_MOST_DAYS):
        raise UsageError(f"the window is longer than {_MOST_DAYS} days", help="look at a part of it")
    return Window(after=after, until=until)
