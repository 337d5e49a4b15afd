"""`relayctl serve`: the worker. It only turns settings and flags into a worker process and a log."""

from __future__ import annotations

from typing import Annotated

import typer

from relayctl.cli.verb import verb_app

TAKES_WORKER_SETTINGS = True
app = verb_app()


@app.command()
def serve(
    context: typer.Context,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="APP", help="run only this app; may be repeated")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="run what relayctl apply publishes")] = False,
    once: Annotated[bool, typer.Option("--once", help="catch up, run what is due, and end")] = False,
    force_polling: Annotated[
        bool, typer.Option("--force-polling", help="look for changes by polling, for file systems without events")
    ] = False,
) -> None:
    """Run a worker on a directory, a repository or releases until told to stop.

    SIGTERM or Ctrl-C drains: nothing new is claimed, what runs may end within --drain; a second one, or SIGQUIT, skips
    the wait. SIGHUP looks at the source at once, unless the terminal was closed: that stops the worker too.
    """
    import sys

    from relayctl.cli.desk import Desk
    from relayctl.cli.log import LogListener
    from relayctl.core.facts import Level
    from relayctl.host.clock import SystemClock
    from relayctl.worker.process import Serving, serve

    desk = Desk(context)
    settings = desk.settings
    form = settings.log_format
    if form == "auto":
        form = "text" if sys.stderr.isatty() else "json"
    clock = SystemClock()
    level = Level.DEBUG if desk.is_verbose else Level.WARNING if desk.is_quiet else Level.INFO
    log = LogListener(sys.stderr, form, clock, level=level)
    serving = Serving(only=tuple(only or ()), is_following=follow, is_once=once, is_polling=force_polling)
    serve(settings, serving, clock=clock, emit=log.emit)
