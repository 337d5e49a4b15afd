"""`relayctl version`: the versions that matter when two hosts disagree."""

from __future__ import annotations

import typer

from relayctl.cli.verb import verb_app

app = verb_app()


@app.command()
def version(context: typer.Context) -> None:
    """Print versions."""
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.versions import versions

    found = versions()
    formats = found["formats"]
    lines = [f"relayctl {found['relayctl']}"]
    lines += [f"  {name:<10} {value}" for name, value in found.items() if isinstance(value, str) and name != "relayctl"]
    lines.append("  formats    " + ", ".join(f"{name} {value}" for name, value in formats.items()))
    Desk(context).deliver({"text": lambda: "\n".join(lines) + "\n", "json": lambda: to_json({"v": 1, **found})})
