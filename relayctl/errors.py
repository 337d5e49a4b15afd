"""The one tree of errors. Each class says whether a retry can help and what kind of exit it means.

A user's mistake in a template is not an exception but a `core.problem.Problem`; exceptions are for what stops
the operation. A class docstring is the default message. Exit codes are assigned in `cli.exits` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class RelayError(Exception):
    """Something went wrong in relayctl."""

    is_retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, help: str | None = None) -> None:  # noqa: A002
        """`message` says what was found and expected, `help` the way out; neither may carry a secret."""
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.help = help
        super().__init__(self.message)
        if help:
            # For programs that do not catch it: Python prints notes below the message.
            self.add_note(f"help: {help}")

    def __str__(self) -> str:
        return self.message


class UsageError(RelayError):
    """The command line or the configuration cannot be used."""


class UnknownTarget(UsageError):
    """No app, schedule or handler has this name."""


class FileFailure(RelayError):
    """A file or directory could not be read or written."""


class SourceUnavailable(RelayError):
    """Where the apps come from cannot be asked now."""

    is_retryable: ClassVar[bool] = True


class SecretMissing(RelayError):
    """A secret reference has no value here."""


class NoTemplates(RelayError):
    """No templates were found."""


class InvalidTemplates(RelayError):
    """Templates have errors."""


class BrokerError(RelayError):
    """The broker refused or failed."""


class BrokerUnavailable(BrokerError):
    """The broker cannot be reached or cannot serve now."""

    is_retryable: ClassVar[bool] = True


class ReplyLost(BrokerUnavailable):
    """The broker may have done what it was asked: its answer was lost."""


class BrokerRefused(BrokerError):
    """The broker answered with an error that no retry cures."""


class ArgumentsRefused(BrokerRefused):
    """The broker will never take this command as it is, whatever its own state."""


class BrokerUnsuitable(BrokerError):
    """The broker is too old or is set up so that work could be lost."""


class BrokerDamaged(BrokerError):
    """The data of the embedded broker is damaged."""


class NoBroker(BrokerError):
    """No broker is configured and none can be started here."""


class StateBusy(RelayError):
    """Another process holds the lock."""


class Refused(RelayError):
    """A guard refused the change."""


class ModeConflict(Refused):
    """This namespace gets its desired state the other way."""


class RegistrationConflict(Refused):
    """Live workers hold another definition of a schedule."""


class RegistryChanged(RelayError):
    """The registry changed while a registration was prepared."""

    is_retryable: ClassVar[bool] = True


class StalePlan(RelayError):
    """The plan is out of date."""


class NotConverged(RelayError):
    """The fleet did not converge in time."""


class WorkerUnreachable(RelayError):
    """No worker answers on the control socket."""


class ConnectionLost(RelayError):
    """The connection to the worker was lost before the result came."""


class RequestRejected(RelayError):
    """The worker did not accept the request."""

    def __init__(
        self,
        message: str | None = None,
        *,
        help: str | None = None,  # noqa: A002
        reason: str = "",
        known: Sequence[str] = (),
    ) -> None:
        """`reason` is the word on the wire, by default the message; `known` are names that could have been given."""
        super().__init__(message, help=help)
        self.reason = reason or self.message
        self.known = tuple(known)


class BundleDamaged(RelayError):
    """The bundle of a release is not what was published."""


class NewerFormat(RelayError):
    """A record was written by a newer relayctl."""


def os_reason(error: OSError | RuntimeError) -> str:
    """What the system says of a file, a socket or a program, in the lower case of a sentence's middle.

    A RuntimeError is what `pathlib` raises: for a loop of links, or for a user who is not there.
    """
    if isinstance(error, RuntimeError):
        return "a loop of links" if "loop" in str(error) else str(error).lower()
    return (error.strerror or str(error) or "unknown error").lower()
