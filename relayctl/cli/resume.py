"""`relayctl resume`: ends a schedule's pause in the whole fleet. It makes up for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.store.orders import Resumed

app = verb_app()


@app.command()
def resume(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="APP/SCHEDULE", help="the schedule")],
) -> None:
    """End a schedule's pause.

    It goes on with its next firing. What the pause covered is closed as paused and does not run; `trigger --slot`
    runs one of these firings all the same.
    """
    from relayctl import api
    from relayctl.cli.desk import to_json
    from relayctl.cli.fleet import asked_of, warn_unreplicated

    desk, place, name, schedule = asked_of(context, target)
    resumed = api.resume(place, name, schedule)
    warn_unreplicated(desk, resumed.replicated)
    desk.deliver({"text": lambda: _text(resumed), "json": lambda: to_json(_document(resumed))})


def _text(resumed: Resumed) -> str:
    from relayctl.render.instants import utc_text

    name = f"{resumed.app}/{resumed.schedule}"
    following = f"next {utc_text(resumed.next_at)}" if resumed.next_at else "it has no further firing"
    if not resumed.was_paused:
        return f"{name} was not paused; {following}\n"
    counts = [f"{resumed.paused} closed as paused"] if resumed.paused else []
    counts += [f"{resumed.missed} from before the pause closed as missed"] if resumed.missed else []
    return f"{name} goes on; {'; '.join([*counts, following])}\n"


def _document(resumed: Resumed) -> dict[str, Any]:
    from relayctl.core.occurrence import instant_text

    return {
        "v": 1,
        "app": resumed.app,
        "schedule": resumed.schedule,
        "was_paused": resumed.was_paused,
        "closed_as_paused": resumed.paused,
        "closed_as_missed": resumed.missed,
        "replicated": resumed.replicated,
        "next": None if resumed.next_at is None else instant_text(resumed.next_at),
    }
