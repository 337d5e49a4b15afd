"""`relayctl init`: a first app, its schema, and what editors and hooks need. It never overwrites a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app
from relayctl.errors import os_reason

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk

app = verb_app()


@app.command()
def init(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="where the tree is to stand")] = Path(),
    editor: Annotated[bool | None, typer.Option(help="write the editor's schema mapping")] = None,
    hooks: Annotated[bool | None, typer.Option(help="write a pre-commit configuration")] = None,
) -> None:
    """Scaffold an app, with editor and hook settings.

    Existing files stay as they are. Without --editor and --hooks, a terminal is asked and a script is told.
    """
    from relayctl.cli import scaffold
    from relayctl.cli.desk import Desk
    from relayctl.templates.schema import TEMPLATE, schema_text

    desk = Desk(context)
    files = {**scaffold.APP, scaffold.SCHEMA_PATH: schema_text(TEMPLATE)}
    offers = ((editor, "--editor", scaffold.EDITOR), (hooks, "--hooks", scaffold.HOOKS))
    for choice, flag, offered in offers:
        if _is_wanted(desk, choice, flag, offered, directory):
            files |= offered
    written, kept = _write_new(directory, files)
    lines = [*(f"wrote {path}" for path in written), *(f"kept  {path}" for path in kept)]
    there = "" if directory == Path() else f" --apps {directory / 'apps'}"
    steps = [f"relayctl {step}{there}" for step in ("validate", "invoke hello/every-minute --local", "serve")]
    lines += ["", "next: " + "\n      ".join(steps)]
    desk.deliver({"text": lambda: "\n".join(lines) + "\n"})


def _is_wanted(desk: Desk, choice: bool | None, flag: str, offered: Mapping[str, str], directory: Path) -> bool:
    if choice is not None or all((directory / name).exists() for name in offered):
        return bool(choice)
    names = ", ".join(offered)
    if desk.may_ask:
        return typer.confirm(f"write {names}?", default=True, err=True)
    desk.remark(f"note: {names} not written; {flag} writes it")
    return False


def _write_new(directory: Path, files: Mapping[str, str]) -> tuple[list[Path], list[Path]]:
    from relayctl.errors import FileFailure

    written: list[Path] = []
    kept: list[Path] = []
    for name, text in files.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # "x" decides and creates in one step, so a file that appears meanwhile is safe too.
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            written.append(path)
        except FileExistsError:
            kept.append(path)
        except OSError as error:
            raise FileFailure(f"{path}: cannot be written: {os_reason(error)}") from None
    return written, kept
