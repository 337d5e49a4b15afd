"""`relayctl completion`: the script that a shell sources. It writes to stdout and touches no start-up file."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from relayctl.cli.verb import verb_app

app = verb_app()


class Shell(Enum):
    """The shells with a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish", metavar="SHELL")]
) -> None:
    """Print a shell's completion script.

    For this shell only: source <(relayctl completion bash). For good: put that line into its start-up file.
    """
    from typer._completion_shared import get_completion_script

    from relayctl.cli.desk import Desk
    from relayctl.settings import COMPLETION_VARIABLE

    script = get_completion_script(prog_name="relayctl", complete_var=COMPLETION_VARIABLE, shell=shell.value)
    Desk(context).deliver({"text": lambda: script + "\n"})
