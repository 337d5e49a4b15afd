"""`relayctl config show`: every setting, its value and where the value comes from, passwords masked."""

from __future__ import annotations

import typer

from relayctl.cli.verb import verb_app

app = verb_app("Show the settings in force and where they come from.")


@app.command()
def show(context: typer.Context) -> None:
    """Show the settings in force and where they come from."""
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import harmless
    from relayctl.render.config import Row, as_document, markdown, text
    from relayctl.settings import SETTINGS, Origin

    desk = Desk(context)
    settings = desk.settings
    rows = [
        Row(
            key=key,
            value=settings.shown(key),
            origin=str(settings.config) if settings.origins[key] is Origin.FILE else settings.origins[key].value,
            flag=setting.flag or "",
            variable=setting.variable,
            default=setting.default or "",
            help=setting.help,
        )
        for key, setting in SETTINGS.items()
    ]
    desk.deliver({
        "text": lambda: harmless(text(rows)),
        "json": lambda: to_json(as_document(rows)),
        "markdown": lambda: markdown(rows),
    })  # fmt: skip
