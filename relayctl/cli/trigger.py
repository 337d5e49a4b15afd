"""`relayctl trigger`: runs a schedule now, out of band, or publishes one of its occurrences. It decides nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from datetime import datetime

    from relayctl.cli.desk import Desk
    from relayctl.store.orders import Orders, Started

app = verb_app()
_LONGEST_WAIT = timedelta(days=1)


@app.command()
def trigger(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="APP/SCHEDULE", help="the schedule")],
    slot: Annotated[
        str | None,
        typer.Option(metavar="next|latest|TIME", help="run this very firing, instead of a run beside the schedule"),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="the same key starts no second run within 24 hours")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="wait for the end of the run")] = False,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="how long --wait waits")] = "5m",
) -> None:
    """Run a schedule now.

    Works while it is paused, and does not resume it. With --slot the firing counts as done: its own time finds it
    published, and one that ran before runs no second time. With --wait a run that fails ends with code 3, and one
    that does not end in time with code 8.
    """
    from relayctl import api
    from relayctl.cli.fleet import asked_of
    from relayctl.cli.runend import await_end, deliver
    from relayctl.cli.when import parse_span
    from relayctl.errors import UsageError
    from relayctl.host.clock import SystemClock

    desk, place, name, schedule = asked_of(context, target)
    if slot is not None and key is not None:
        raise UsageError("--slot and --key exclude each other", help="a firing has its instant for a key")
    wanted = None if slot is None else _slot(desk, slot)
    within = parse_span(timeout, "--timeout", longest=_LONGEST_WAIT)
    clock = SystemClock()
    with api.orders(place, clock) as orders:
        started = _start(orders, name, schedule, wanted, key)
        deliver(desk, [(started, await_end(orders, clock, started, within) if wait else None)])


def _slot(desk: Desk, slot: str) -> datetime | str:
    from relayctl.cli.when import parse_instant

    return slot if slot in {"next", "latest"} else parse_instant(slot, desk.now())


def _start(orders: Orders, name: str, schedule: str, wanted: datetime | str | None, key: str | None) -> Started:
    import secrets

    from relayctl.errors import BrokerUnavailable
    from relayctl.host.operator import operator

    token = secrets.token_hex(8)
    if wanted is not None:
        return orders.trigger_slot(name, schedule, wanted, by=operator(), token=token)
    chosen = key or token
    try:
        return orders.trigger(name, schedule, key=chosen, by=operator())
    except BrokerUnavailable as error:
        # The order may have arrived all the same.
        raise BrokerUnavailable(
            f"{error.message}; whether the run was started is not known",
            help=f"relayctl trigger {name}/{schedule} --key {chosen} starts it once at most",
        ) from error
