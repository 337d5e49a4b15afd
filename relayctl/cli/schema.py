"""`relayctl schema`: a bundled schema, of templates or of the settings file; or whether a copy of it is current."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from relayctl.cli.verb import verb_app
from relayctl.errors import os_reason

app = verb_app()


class Which(Enum):
    """What the schema is of."""

    TEMPLATE = "template"
    CONFIG = "config"


@app.command()
def schema(
    context: typer.Context,
    which: Annotated[
        Which, typer.Argument(metavar="[template|config]", help="of an app's template.yaml, or of relayctl.toml")
    ] = Which.TEMPLATE,
    check: Annotated[Path | None, typer.Option(metavar="FILE", help="compare FILE with the bundled schema")] = None,
) -> None:
    """Print the JSON Schema of templates or settings, or check one.

    With --check, a copy that differs from the bundled schema ends with exit code 1.
    """
    from relayctl.cli.desk import Desk
    from relayctl.cli.exits import Code, Ended
    from relayctl.templates.schema import CONFIG, TEMPLATE, schema_text

    desk, bundled = Desk(context), schema_text({Which.TEMPLATE: TEMPLATE, Which.CONFIG: CONFIG}[which])
    if check is None:
        desk.deliver({"json": lambda: bundled})
        return
    if _document(check) != json.loads(bundled):
        argument = "" if which is Which.TEMPLATE else f" {which.value}"
        desk.remark(
            f"{check}: differs from the bundled schema", f"  help: relayctl schema{argument} --output-file {check}"
        )
        raise Ended(Code.FINDINGS)
    desk.remark(f"{check}: current")


def _document(path: Path) -> object:
    from relayctl.errors import FileFailure, UsageError

    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        kind = UsageError if isinstance(error, FileNotFoundError) else FileFailure
        raise kind(f"{path}: cannot be read: {os_reason(error)}") from None
    except ValueError:
        return None
