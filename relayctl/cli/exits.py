"""What ends a command, as an exit code and as lines on stderr. The only place that assigns exit codes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import IntEnum
from types import TracebackType

from relayctl import errors
from relayctl.render.escapes import escape


class Code(IntEnum):
    """The exit codes of every command."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    FAILURE = 3
    STALE = 5
    LOCKED = 6
    REFUSED = 7
    NOT_CONVERGED = 8
    NO_TEMPLATES = 9
    CHANGES = 10
    INTERRUPTED = 130
    # What a shell reports for a program whose reader closed the pipe.
    BROKEN_PIPE = 141
    TERMINATED = 143


# A class stands for its subclasses too, the nearest one decides.
TABLE: Mapping[type[errors.RelayError], Code] = {
    errors.RelayError: Code.FAILURE,
    errors.UsageError: Code.USAGE,
    errors.FileFailure: Code.FAILURE,
    errors.SourceUnavailable: Code.FAILURE,
    errors.SecretMissing: Code.FAILURE,
    errors.NoTemplates: Code.NO_TEMPLATES,
    errors.InvalidTemplates: Code.FINDINGS,
    errors.BrokerError: Code.FAILURE,
    errors.NoBroker: Code.FAILURE,
    errors.StateBusy: Code.LOCKED,
    errors.Refused: Code.REFUSED,
    errors.ModeConflict: Code.REFUSED,
    errors.RegistrationConflict: Code.REFUSED,
    errors.RegistryChanged: Code.STALE,
    errors.StalePlan: Code.STALE,
    errors.NotConverged: Code.NOT_CONVERGED,
    errors.WorkerUnreachable: Code.FAILURE,
    errors.ConnectionLost: Code.FAILURE,
    errors.RequestRejected: Code.FAILURE,
    errors.NewerFormat: Code.FAILURE,
    errors.BundleDamaged: Code.FAILURE,
}


class Terminated(BaseException):
    """SIGTERM arrived while a command ran that does not drain."""


class Ended(Exception):
    """The command is done and has printed what it had to say."""

    def __init__(self, code: Code) -> None:
        self.code = code
        super().__init__(code.name)


def code_of(error: errors.RelayError) -> Code:
    """The exit code of one of our errors."""
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def lines_of(error: errors.RelayError) -> list[str]:
    """What the user reads: the error, then the way out."""
    message = harmless(error.message)
    lines = [f"error: {message}"]
    if error.help:
        first, *rest = harmless(error.help).splitlines() or [""]
        lines += [f"  help: {first}", *(f"        {line}" for line in rest)]
    return lines


def internal_lines(error: BaseException, report: str | None) -> list[str]:
    """An unexpected failure in one line: its type and place, never its text, which may hold a secret."""
    line = f"error: internal error: {type(error).__name__} in {_place(error.__traceback__)}"
    if report is not None:
        return [line, f"  help: the report is in {report}"]
    return [line, "  help: run the command again with -v to have a report written"]


def harmless(text: str) -> str:
    """Text that may be printed raw: control characters shown as escapes, line breaks kept."""
    return "".join(char if char.isprintable() or char == "\n" else escape(char) for char in text)


def complain(*lines: str) -> None:
    """Write lines to stderr; a stderr that is gone is no reason for another error."""
    try:
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _place(trace: TracebackType | None) -> str:
    place = "relayctl"
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module.startswith("relayctl"):
            place = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
