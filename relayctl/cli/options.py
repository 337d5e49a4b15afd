"""The options that every command accepts behind its name, made from the settings table. They decide nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from typer.core import TyperOption

from relayctl import __version__
from relayctl.settings import SETTINGS, Setting

FLAGS = "relayctl.flags"
"""Where a command line's shared options are kept while it runs."""

USUAL_FORMATS = ("text", "json")
FORMATS: Mapping[str, tuple[str, ...]] = {
    "init": ("text",),
    "validate": ("text", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown"),
    "rule": ("text", "json", "markdown"),
    "plan": ("text", "json", "jsonl", "markdown"),
    "apply": ("text", "json", "jsonl"),
    "rollback": ("text", "json", "jsonl"),
    "logs": ("text", "json", "jsonl"),
    "schema": ("json",),
    "config": ("text", "json", "markdown"),
    "completion": ("text",),
}
"""What `--format` offers by verb, where it is not the usual; written down here so that help computes no output."""


def given(context: Any) -> dict[str, Any]:
    """What was given on the command line, by name; empty where nothing was."""
    found: dict[str, Any] = context.meta.setdefault(FLAGS, {})
    return found


def shared_options(taken: Iterable[str], formats: Iterable[str] = USUAL_FORMATS) -> list[TyperOption]:
    """The shared options of one command, without those that the command declares itself."""
    options = [*_output_options(formats), *(setting_option(row) for row in SETTINGS.values() if row.is_shared)]
    names = set(taken)
    return [option for option in options if names.isdisjoint(option.opts)]


def worker_options() -> list[TyperOption]:
    """The settings that only a worker takes."""
    return [setting_option(row) for row in SETTINGS.values() if not row.is_shared]


def version_option() -> TyperOption:
    """`relayctl --version`, the short answer; the command of that name tells more."""

    def tell(context: Any, _param: Any, value: Any) -> None:
        if value and not context.resilient_parsing:
            sys.stdout.write(f"relayctl {__version__}\n")
            context.exit()

    return TyperOption(
        param_decls=["version", "--version"],
        help="Show the version and exit.",
        is_flag=True,
        is_eager=True,
        default=False,
        expose_value=False,
        callback=tell,
    )


def setting_option(row: Setting) -> TyperOption:
    """A row of the settings table as an option; its text is parsed later, with all sources known."""
    if row.is_switch:
        return _option(row.key, [row.flag or ""], row.help, is_flag=True)
    help_text = row.help if row.default in {None, "auto"} else f"{row.help} [{row.default}]"
    return _option(row.key, [row.flag or ""], help_text, metavar=row.metavar)


def _output_options(formats: Iterable[str]) -> list[TyperOption]:
    return [
        _option("format", ["--format"], f"form of the output: {', '.join(formats)}", metavar="FORMAT"),
        _option("output_file", ["--output-file"], "write the output to FILE", metavar="FILE"),
        _option("json_file", ["--json-file"], "write it to FILE as JSON as well", metavar="FILE"),
        _option("quiet", ["-q", "--quiet"], "say less", is_flag=True),
        _option("verbose", ["-v", "--verbose"], "say more; after an internal error, write a report", is_flag=True),
        _option("no_input", ["--no-input"], "never ask", is_flag=True),
        _option("config", ["--config"], "settings file [relayctl.toml, where there is one]", metavar="FILE"),
    ]


def _option(
    name: str, opts: list[str], help_text: str, *, metavar: str | None = None, is_flag: bool = False
) -> TyperOption:
    def keep(context: Any, _param: Any, value: Any) -> Any:
        if value is not None and value is not False:
            given(context)[name] = value
        return value

    return TyperOption(
        param_decls=[f"shared_{name}", *opts],
        help=help_text,
        metavar=metavar,
        type=None if is_flag else str,
        is_flag=is_flag or None,
        default=False if is_flag else None,
        callback=keep,
        expose_value=False,
    )
