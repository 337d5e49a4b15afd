"""The entry point: finds the command, loads only its module, and turns whatever ends it into an exit code.

No command's logic lives here. Help comes from one static table, so that `--help` imports no command.
"""

from __future__ import annotations

import errno
import importlib
import keyword
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

from typer import main as typer_main
from typer._click.exceptions import ClickException, NoArgsIsHelpError, NoSuchOption
from typer.core import TyperGroup
from typer.exceptions import Abort, Exit

from relayctl import errors, settings
from relayctl.cli import exits
from relayctl.cli.exits import Code
from relayctl.cli.nearest import closest
from relayctl.cli.options import FLAGS, FORMATS, USUAL_FORMATS, shared_options, version_option, worker_options
from relayctl.cli.streams import prepare_streams, silence_closed
from relayctl.errors import os_reason

PROGRAM = "relayctl"

# The verbs in the order of the help page, each with the first line of its docstring; its module has the same name.
VERBS: Mapping[str, str] = {
    "init": "Scaffold an app, with editor and hook settings.",
    "validate": "Lint templates, offline.",
    "rule": "Explain a lint rule.",
    "inspect": "Say what schedules mean and when they fire next.",
    "explain": "Say what a cron expression means and when it fires.",
    "simulate": "Show what would fire in a window of time.",
    "plan": "Show what the templates would change in what runs.",
    "apply": "Publish the templates here as a release.",
    "releases": "List what was applied, the newest first, or show one release in full.",
    "rollback": "Put an earlier release's files and definitions in force again.",
    "mode": "Show how this namespace gets its desired state, or change that.",
    "status": "Show the live fleet: what is in sync, what is healthy, and who runs it.",
    "history": "Show how firings and event runs ended.",
    "why": "Say what became of a firing.",
    "logs": "Show what past runs printed, and what a running one prints.",
    "pause": "Pause a schedule in the whole fleet.",
    "resume": "End a schedule's pause.",
    "trigger": "Run a schedule now.",
    "dlq": "Look at the dead letters, replay or remove them.",
    "outbox": "Show what this machine could not publish yet.",
    "serve": "Run a worker on a directory, a repository or releases until told to stop.",
    "reconcile": "Make the workers here look at their apps now.",
    "health": "Ask the workers here whether scheduling is sound.",
    "emit": "Append an event to the stream.",
    "invoke": "Run a handler once.",
    "secret": "Keep values of secret references on this machine.",
    "import": "Turn a crontab, CronJobs or a workflow into an app.",
    "schema": "Print the JSON Schema of templates or settings, or check one.",
    "config": "Show the settings in force and where they come from.",
    "completion": "Print a shell's completion script.",
    "version": "Print versions.",
}


class Verbs(TyperGroup):
    """The group of all verbs; a verb's module is imported when that verb is run, asked for help or completed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the group's contract
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None:
            close = closest(name, self.list_commands(ctx))
            hint = f'did you mean "{close}"?' if close else f"{PROGRAM} --help lists the commands"
            raise errors.UsageError(f'no command "{exits.harmless(name)}"', help=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, VERBS[verb]) for verb in self.list_commands(ctx)])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        from typer._click.shell_completion import CompletionItem

        found = [verb for verb in self.list_commands(ctx) if verb.startswith(incomplete)]
        return [CompletionItem(verb, help=VERBS[verb]) for verb in found]


def root() -> Verbs:
    """The command tree, with no verb loaded."""
    return Verbs(
        name=PROGRAM,
        help="Recurring and event-driven work, kept in git and run once per due instant across a fleet.",
        params=[version_option()],
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line to its exit code; everything it has to say is printed."""
    prepare_streams()
    previous = signal.signal(signal.SIGTERM, _terminate)
    flags: dict[str, Any] = {}
    try:
        return _flushed(_invoke(list(arguments), flags))
    except BrokenPipeError:
        silence_closed()
        return Code.BROKEN_PIPE
    except KeyboardInterrupt:
        exits.complain("interrupted")
        return Code.INTERRUPTED
    except exits.Terminated:
        exits.complain("terminated")
        return Code.TERMINATED
    except OSError as error:
        return _unwritable(error) if _is_of_output(error) else _unexpected(error, flags)
    except Exception as error:  # noqa: BLE001 - the one place where the unforeseen ends
        return _unexpected(error, flags)
    finally:
        silence_closed()
        signal.signal(signal.SIGTERM, previous)


def _invoke(arguments: list[str], flags: dict[str, Any]) -> int:
    tree = root()
    try:
        if settings.is_completing():
            _complete(tree)
        with tree.make_context(PROGRAM, arguments) as context:
            context.meta[FLAGS] = flags
            tree.invoke(context)
        return Code.OK
    except exits.Ended as end:
        return end.code
    except Exit as end:
        return end.exit_code
    except (Abort, EOFError):
        exits.complain("aborted: nothing was done")
        return Code.INTERRUPTED
    except NoArgsIsHelpError as error:
        exits.complain(error.format_message())
        return Code.USAGE
    except ClickException as error:
        exits.complain(*_click_lines(error))
        return Code.USAGE
    except errors.RelayError as error:
        exits.complain(*exits.lines_of(error))
        return exits.code_of(error)


def _click_lines(error: ClickException) -> list[str]:
    # The list of choices comes in lines of its own, indented by tabs.
    message = exits.harmless(" ".join(error.format_message().split()))
    lines = [f"error: {message[:1].lower()}{message[1:].removesuffix('.')}"]
    context = getattr(error, "ctx", None)
    if context is not None:
        lines.append(f"  help: {_early_option(error) or f'{context.command_path} --help'}")
    return lines


def _early_option(error: ClickException) -> str | None:
    """The way out for a shared option in front of the command, where many programs take theirs."""
    if not isinstance(error, NoSuchOption) or error.ctx is None or error.ctx.parent is not None:
        return None
    is_shared = any(error.option_name in option.opts for option in shared_options(()))
    return f"options stand behind the command: {PROGRAM} COMMAND {error.option_name}" if is_shared else None


def _complete(tree: Verbs) -> NoReturn:
    from typer import _completion_classes

    # The stock helper imports a whole terminal library to strip markup that our help does not use.
    _completion_classes._sanitize_help_text = lambda text: text
    _completion_classes.completion_init()
    tree._main_shell_completion({}, PROGRAM, settings.COMPLETION_VARIABLE)
    sys.exit(Code.OK)


def module_of(verb: str) -> str:
    """Where a verb is at home: the module of its name, with a line under it where that is a word of the language."""
    return f"relayctl.cli.{verb}_" if keyword.iskeyword(verb) else f"relayctl.cli.{verb}"


def _load(verb: str) -> Any:
    module = importlib.import_module(module_of(verb))
    command = typer_main.get_command(module.app)
    command.name = verb
    if getattr(module, "TAKES_WORKER_SETTINGS", False):
        command.params.extend(worker_options())
    _add_shared(command, FORMATS.get(verb, USUAL_FORMATS))
    return command


def _add_shared(command: Any, formats: Sequence[str]) -> None:
    """Shared options stand behind the last word of a command, so a group passes them on to its own commands."""
    if isinstance(command, TyperGroup):
        for child in command.commands.values():
            _add_shared(child, formats)
        return
    taken = [opt for param in command.params for opt in param.opts]
    command.params.extend(shared_options(taken, formats))


_TOLD_BY_OUTPUT = frozenset({Code.OK, Code.FINDINGS, Code.CHANGES})
"""Codes that say no more than to read the output; nobody can where it is lost."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise exits.Terminated


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return _unwritable(error) if code in _TOLD_BY_OUTPUT else code
    return code


def _is_of_output(error: OSError) -> bool:
    """Whether stdout did not take what was printed: files are told by their names, and connections fail otherwise."""
    return error.filename is None and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def _unwritable(error: OSError) -> int:
    exits.complain(f"error: the output cannot be written: {os_reason(error)}")
    return Code.FAILURE


def _unexpected(error: Exception, flags: Mapping[str, Any]) -> int:
    report = None
    if flags.get("verbose"):
        from relayctl.cli.report import write_report

        report = write_report(error)
    exits.complain(*exits.internal_lines(error, report))
    return Code.FAILURE
