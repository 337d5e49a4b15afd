"""`relayctl apply`: publishes the templates here as a release, and waits until the fleet has taken it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relayctl.cli.terms import (
    LOCK_TIMEOUT,
    TIMEOUT,
    AllowEmpty,
    LockTimeout,
    MaxRemovals,
    Message,
    Timeout,
    Wait,
    Yes,
    terms_of,
)
from relayctl.cli.verb import verb_app

app = verb_app()


@app.command()
def apply(
    context: typer.Context,
    planfile: Annotated[Path | None, typer.Argument(help="a plan that plan --out saved: only what it says")] = None,
    yes: Yes = False,
    allow_empty: AllowEmpty = False,
    max_removals: MaxRemovals = None,
    lock_timeout: LockTimeout = LOCK_TIMEOUT,
    wait: Wait = True,
    timeout: Timeout = TIMEOUT,
    message: Message = "",
) -> None:
    """Publish the templates here as a release.

    It shows the plan and asks. A release is the whole tree or nothing: definitions, files and all. Workers that run
    with --follow take it; a namespace whose workers follow files needs none.
    """
    from relayctl.cli.desk import Desk
    from relayctl.cli.planfile import read_plan
    from relayctl.cli.publish import Order, carry_out
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
            terms=terms_of(
                yes=yes,
                allow_empty=allow_empty,
                max_removals=max_removals,
                lock_timeout=lock_timeout,
                wait=wait,
                timeout=timeout,
                message=message,
            ),
            saved=saved,
        ),
    )
