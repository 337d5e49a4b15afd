"""`relayctl dlq`: what used up its attempts or could never run: look at it, let it run again, or take it out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.errors import RelayError
    from relayctl.store.orders import Orders, Started

app = verb_app("Look at the dead letters, replay or remove them.")

Letter = Annotated[str, typer.Argument(metavar="ID", help="a letter, as dlq ls names it")]
Letters = Annotated[list[str], typer.Argument(metavar="ID...", help="letters, as dlq ls names them")]
_LONGEST_WAIT = timedelta(days=1)


@app.command("ls")
def list_letters(
    context: typer.Context,
    of_app: Annotated[str, typer.Option("--app", metavar="APP", help="of this app only")] = "",
    schedule: Annotated[str, typer.Option(metavar="NAME", help="of this schedule: NAME or APP/NAME")] = "",
    handler: Annotated[str, typer.Option(metavar="NAME", help="of this handler")] = "",
    reason: Annotated[str, typer.Option(metavar="WORD", help="with this reason, such as exhausted or lost")] = "",
    since: Annotated[str | None, typer.Option(metavar="TIME", help="not older than that: an instant or now-2h")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="at most so many")] = 50,
) -> None:
    """List dead letters, the newest first."""
    from relayctl import api
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.fleet import place_of
    from relayctl.cli.when import parse_instant
    from relayctl.core.deadletter import LetterFilter
    from relayctl.render import dlq as render

    desk = Desk(context)
    wanted = LetterFilter(
        **_names(of_app, schedule),
        handler=handler,
        reason=reason,
        since=None if since is None else parse_instant(since, desk.now()),
    )
    letters, total, evicted = api.dead_letters(place_of(desk.settings), wanted, limit=limit)
    desk.deliver({
        "text": lambda: harmless(
            render.text(letters, desk.now(), total=total, evicted=evicted, width=desk.look.width)
        ),
        "json": lambda: to_json(render.document(letters, total=total, evicted=evicted)),
    })  # fmt: skip


@app.command()
def show(context: typer.Context, letter: Letter) -> None:
    """Show one dead letter: why, how often it was tried, what it printed last, its contract and its event."""
    from relayctl import api
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.fleet import place_of
    from relayctl.core.lifecycle import Slot
    from relayctl.host.clock import SystemClock
    from relayctl.render import dlq as render

    desk = Desk(context)
    with api.orders(place_of(desk.settings), SystemClock()) as orders:
        found = orders.letter(letter)
    kept = None
    if found.app and found.slot:
        with api.logs(place_of(desk.settings), SystemClock()) as logs:
            kept = logs.last_attempt(found.app, Slot(found.slot), found.message)
    desk.deliver({
        "text": lambda: harmless(render.show_text(found, kept)),
        "json": lambda: to_json(render.show_document(found, kept)),
    })  # fmt: skip


@app.command()
def replay(
    context: typer.Context,
    letters: Letters,
    wait: Annotated[bool, typer.Option("--wait", help="wait for the ends of the runs")] = False,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="how long --wait waits for each")] = "5m",
) -> None:
    """Run what dead letters stand for once more.

    Each is a new series of attempts under the template that is live now. A letter goes when its run succeeds, and
    stays when it fails. One that cannot be replayed does not keep the others from it.
    """
    from relayctl import api
    from relayctl.cli.desk import Desk
    from relayctl.cli.exits import Ended, code_of
    from relayctl.cli.fleet import place_of
    from relayctl.cli.runend import await_end, deliver
    from relayctl.cli.when import parse_span
    from relayctl.errors import RelayError
    from relayctl.host.clock import SystemClock

    desk, clock = Desk(context), SystemClock()
    within = parse_span(timeout, "--timeout", longest=_LONGEST_WAIT)
    with api.orders(place_of(desk.settings), clock) as orders:
        answers = [_replay(desk, orders, letter) for letter in letters]
        runs = [answer for answer in answers if not isinstance(answer, RelayError)]
        if runs:
            deliver(desk, [(run, await_end(orders, clock, run, within) if wait else None) for run in runs])
    for answer in answers:
        if isinstance(answer, RelayError):
            raise Ended(code_of(answer))


def _replay(desk: Desk, orders: Orders, letter: str) -> Started | RelayError:
    from relayctl.cli.exits import lines_of
    from relayctl.errors import RelayError
    from relayctl.host.operator import operator

    try:
        return orders.replay(letter, by=operator())
    except RelayError as error:
        desk.complain(*lines_of(error))
        return error


@app.command("rm")
def remove(context: typer.Context, letters: Letters) -> None:
    """Take dead letters out for good; what they stand for does not run again."""
    from relayctl import api
    from relayctl.cli.desk import Desk
    from relayctl.cli.fleet import place_of
    from relayctl.host.clock import SystemClock

    desk = Desk(context)
    with api.orders(place_of(desk.settings), SystemClock()) as orders:
        for letter in letters:
            orders.remove(letter)
            desk.remark(f"dead letter {letter}: removed")


def _names(of_app: str, schedule: str) -> dict[str, str]:
    from relayctl.errors import UsageError

    app_part, slash, name = schedule.rpartition("/")
    if slash and of_app not in {"", app_part}:
        raise UsageError(f"--app {of_app} and --schedule {schedule} name two apps")
    return {"app": of_app or app_part, "schedule": name}
