"""`relayctl pause`: stops a schedule's firings in the whole fleet until it is resumed. What runs goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.store.orders import Paused

app = verb_app()


@app.command()
def pause(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="APP/SCHEDULE", help="the schedule")],
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="when it goes on by itself: an instant, a date or now+2h")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="why, for those who find it paused")] = "",
) -> None:
    """Pause a schedule in the whole fleet.

    Its firings from the next second on do not happen, and are not made up for later. Pausing it again renews reason
    and end; its beginning stays.
    """
    from relayctl import api
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.fleet import asked_of, warn_unreplicated
    from relayctl.cli.when import parse_instant
    from relayctl.errors import UsageError

    desk, place, name, schedule = asked_of(context, target)
    if len(reason) > _LONGEST_REASON or not reason.isprintable():
        raise UsageError(f"--reason is one line of at most {_LONGEST_REASON} characters")
    end = None if until is None else parse_instant(until, desk.now())
    paused = api.pause(place, name, schedule, until=end, reason=reason.strip())
    warn_unreplicated(desk, paused.replicated)
    desk.deliver({"text": lambda: harmless(_text(paused)), "json": lambda: to_json(_document(paused))})


_LONGEST_REASON = 200


def _text(paused: Paused) -> str:
    from relayctl.render.instants import utc_text

    name, since = f"{paused.app}/{paused.schedule}", utc_text(paused.paused_at)
    until = f", until {utc_text(paused.until)}" if paused.until else ""
    said = f"paused from {since} on" if paused.is_new else f"stays paused since {since}"
    way_back = "" if paused.until else f"; relayctl resume {name} ends it"
    return f"{name} {said}{until}{way_back}\n"


def _document(paused: Paused) -> dict[str, Any]:
    from relayctl.core.occurrence import instant_text

    return {
        "v": 1,
        "app": paused.app,
        "schedule": paused.schedule,
        "paused_at": instant_text(paused.paused_at),
        "until": None if paused.until is None else instant_text(paused.until),
        "by": paused.by,
        "reason": paused.reason,
        "was_paused": not paused.is_new,
        "replicated": paused.replicated,
    }
