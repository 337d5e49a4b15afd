"""`relayctl schema`: the bundled template schema, or a check that a copy of it is current."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from relayctl.cli.verb import verb_app

app = verb_app()


@app.command()
def schema(
    context: typer.Context,
    check: Annotated[Path | None, typer.Option(metavar="FILE", help="compare FILE with the bundled schema")] = None,
) -> None:
    """Print the template's JSON Schema, or check it.

    With --check, a copy that differs from the bundled schema ends with exit code 1.
    """
    from relayctl.cli.desk import Desk
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.schemas import TEMPLATE, schema_text

    desk, bundled = Desk(context), schema_text(TEMPLATE)
    if check is None:
        desk.deliver({"json": lambda: bundled})
        return
    if _document(check) != json.loads(bundled):
        desk.remark(f"{check}: differs from the bundled schema", f"  help: relayctl schema --output-file {check}")
        raise Ended(Code.FINDINGS)
    desk.remark(f"{check}: current")


def _document(path: Path) -> object:
    from relayctl.errors import FileFailure, UsageError

    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        kind = UsageError if isinstance(error, FileNotFoundError) else FileFailure
        raise kind(f"{path}: cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    except ValueError:
        return None
