"""`relayctl outbox`: the firings that this machine tried to publish and could not. It changes nothing."""

from __future__ import annotations

import typer

from relayctl.cli.verb import verb_app

app = verb_app("Show what this machine could not publish yet.")


@app.command("ls")
def list_rows(context: typer.Context) -> None:
    """List what waits in the state directory to be published, the oldest firing first.

    A question mark behind a count says that the answer to an attempt was lost, so that it may have won.
    """
    from relayctl.cli.desk import Desk, to_json
    from relayctl.host.clock import SystemClock
    from relayctl.host.outbox import Outbox
    from relayctl.host.state import StateDir
    from relayctl.render import outbox as render

    desk = Desk(context)
    state = StateDir(desk.settings.state_dir)
    outbox = Outbox(state.outbox, SystemClock(), None)
    try:
        # Asking must not make a database where no worker has ever run.
        rows = outbox.rows() if state.outbox.exists() else []
    finally:
        outbox.close()
    desk.deliver({
        "text": lambda: render.text(rows, desk.now(), width=desk.look.width),
        "json": lambda: to_json(render.document(rows)),
    })  # fmt: skip
