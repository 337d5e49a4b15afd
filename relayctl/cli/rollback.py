"""`relayctl rollback`: publishes what an earlier release held as a release of its own, with the same guards."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relayctl.api.applying import ReleaseDesk
    from relayctl.sources.content import Content

app = verb_app()


@app.command()
def rollback(
    context: typer.Context,
    release: Annotated[int, typer.Argument(metavar="RELEASE", min=1, help="its number, as relayctl releases lists it")],
    yes: Yes = False,
    allow_empty: AllowEmpty = False,
    max_removals: MaxRemovals = None,
    lock_timeout: LockTimeout = LOCK_TIMEOUT,
    wait: Wait = True,
    timeout: Timeout = TIMEOUT,
    message: Message = "",
) -> None:
    """Put an earlier release's files and definitions in force again.

    It shows the plan and asks, as apply does. The new release has a number of its own.
    """
    from relayctl.cli.desk import Desk
    from relayctl.cli.publish import Order, carry_out

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
            terms=terms_of(
                yes=yes,
                allow_empty=allow_empty,
                max_removals=max_removals,
                lock_timeout=lock_timeout,
                wait=wait,
                timeout=timeout,
                message=message,
            ),
        ),
    )
