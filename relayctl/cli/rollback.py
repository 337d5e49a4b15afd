"""`relayctl rollback`: publishes what an earlier release held as a release of its own, with the same guards."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relayctl.api.applying import ReleaseDesk
    from relayctl.sources.content import Content

app = verb_app()


@app.command()
def rollback(
    context: typer.Context,
    release: Annotated[int, typer.Argument(metavar="RELEASE", min=1, help="its number, as relayctl releases lists it")],
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
    """Put an earlier release's files and definitions in force again.

    It shows the plan and asks, as apply does. The new release has a number of its own.
    """
    from relayctl.cli.apply import span
    from relayctl.cli.desk import Desk
    from relayctl.cli.publish import Order, carry_out
    from relayctl.core.removal import Limits

    desk = Desk(context)

    @contextmanager
    def read(releases: ReleaseDesk) -> Iterator[Content]:
        found = releases.release(release)
        with releases.content_of(found, max_bytes=desk.settings.max_bundle_bytes) as content:
            yield content

    carry_out(
        desk,
        Order(
            read=read,
            command=f"relayctl rollback {release}",
            wanted=f"relayctl rollback {release}",
            limits=Limits(max_removals=max_removals, allow_empty=allow_empty),
            is_agreed=yes,
            lock_timeout=span(lock_timeout, "--lock-timeout"),
            waits=span(timeout, "--timeout") if wait else None,
            message=message,
        ),
    )
