"""`relayctl apply`: publishes the templates here as a release, and waits until the fleet has taken it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from datetime import timedelta

app = verb_app()


@app.command()
def apply(
    context: typer.Context,
    planfile: Annotated[Path | None, typer.Argument(help="a plan that plan --out saved: only what it says")] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="do not ask")] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="also where nothing is left")] = False,
    max_removals: Annotated[
        int | None,
        typer.Option("--max-removals", metavar="N", min=0, help="remove up to N schedules [5, or a fifth of all]"),
    ] = None,
    lock_timeout: Annotated[
        str, typer.Option("--lock-timeout", metavar="DURATION", help="how long to wait for another apply")
    ] = "30s",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until every live worker has it")] = True,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="how long to wait for them")] = "60s",
    message: Annotated[str, typer.Option("--message", metavar="TEXT", help="why; releases shows it")] = "",
) -> None:
    """Publish the templates here as a release.

    It shows the plan and asks. A release is the whole tree or nothing: definitions, files and all. Workers that run
    with --follow take it; a namespace whose workers follow files needs none.
    """
    from relayctl.cli.desk import Desk
    from relayctl.cli.planfile import read_plan
    from relayctl.cli.publish import Order, carry_out
    from relayctl.core.removal import Limits
    from relayctl.host.clock import SystemClock
    from relayctl.sources.content import content_of

    desk, clock = Desk(context), SystemClock()
    saved = None if planfile is None else read_plan(planfile)
    command = "relayctl apply" if planfile is None else f"relayctl apply {planfile.name}"
    carry_out(
        desk,
        Order(
            read=lambda _: content_of(desk.settings.apps, clock, max_bytes=desk.settings.max_bundle_bytes),
            command=command,
            wanted=command,
            limits=Limits(max_removals=max_removals, allow_empty=allow_empty),
            is_agreed=yes,
            lock_timeout=span(lock_timeout, "--lock-timeout"),
            waits=span(timeout, "--timeout") if wait else None,
            message=message,
            saved=saved,
        ),
    )


def span(text: str, flag: str) -> timedelta:
    """A duration of a day at most; zero is one too."""
    from datetime import timedelta

    from relayctl.cli.publish import LONGEST
    from relayctl.cli.when import parse_span

    return timedelta(0) if text in {"0", "0s"} else parse_span(text, flag, longest=LONGEST)
