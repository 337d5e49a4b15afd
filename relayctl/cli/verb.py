"""How a verb's module makes its command: one Typer object without markup, completion options or pretty tracebacks."""

from __future__ import annotations

import typer


def verb_app(help_text: str | None = None) -> typer.Typer:
    """The object that holds one command, or with `help_text` a group of them."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=help_text is not None,
        help=help_text,
    )
    if help_text is not None:
        # A group of one command would otherwise become that command.
        app.callback()(_group)
    return app


def _group() -> None:
    return None
