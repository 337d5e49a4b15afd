"""What a failure of the client library means: whether a retry can help, and the error of ours it becomes.

Library errors stop here. Nothing in it retries; that is for callers, who know what may be sent twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from redis import exceptions as library

from relayctl.errors import ArgumentsRefused, BrokerError, BrokerRefused, BrokerUnavailable, ReplyLost

if TYPE_CHECKING:
    from types import TracebackType

# Answers of a server that is short of something or changing its role; it takes the same command later.
_PASSING_CODES = frozenset(
    {
        "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "NOSCRIPT", "OOM", "READONLY",
        "TRYAGAIN", "UNBLOCKED",
    }
)  # fmt: skip
_REFUSED_LOGIN = (library.AuthenticationError, library.AuthorizationError)
_PASSING = (
    library.ConnectionError,
    library.TimeoutError,
    library.OutOfMemoryError,
    library.ReadOnlyError,
    library.ClusterDownError,
    library.ClusterError,
    library.TryAgainError,
    library.AskError,
    library.NoScriptError,
    library.SlotNotCoveredError,
    library.WatchError,
    # A reply cut short or mixed up: the connection is dropped, the next one is sound.
    library.InvalidResponse,
)
# Whitelisted: what is not known to be about the arguments is taken for the server's state, and costs no firing.
_ABOUT_KEY = re.compile(r"\bWRONGTYPE\b|@user_script:\d+|^user_script:")
_ABOUT_ARGUMENTS = re.compile(r"^user_script:|not an integer|not a valid|out of range|exceeds maximum|invalid .*length")
# In front of the system's words stand its number and the address, which our own sentence has already.
_CONNECTING = re.compile(r"^Error -?\d+ connecting to \S+\. (.)")


class NoPrimary(library.ConnectionError):
    """No Sentinel names a primary that is up; the text says what each of them answers."""

    def __init__(self, answers: str, *, way_out: str = "wait for the fail-over, or look at the Sentinels") -> None:
        super().__init__(answers)
        self.way_out = way_out


class SentinelRefused(library.AuthenticationError):
    """Every Sentinel refuses the login."""


LIBRARY_ERRORS = (library.RedisError, library.RedisClusterException)


def is_retryable(error: BaseException) -> bool:
    """Whether the same command can succeed later without anyone changing anything here."""
    if isinstance(error, BrokerError):
        return error.is_retryable
    if isinstance(error, _REFUSED_LOGIN):
        return False
    if isinstance(error, _PASSING):
        return True
    if isinstance(error, library.RedisClusterException):
        cause = _behind(error)
        # What the client says when no node of the cluster answers; why not, it says beneath.
        return "cannot be connected" in str(error) if cause is error else is_retryable(cause)
    if not isinstance(error, library.ResponseError):
        return False
    words = str(error).split()
    if isinstance(error, library.ExecAbortError):
        return any(word.strip(":") in _PASSING_CODES for word in words)
    return bool(words) and words[0].lstrip("-") in _PASSING_CODES


class translate:  # noqa: N801  used like a function: `with translate():`
    """Turn what the client library raises inside the block into BrokerUnavailable or BrokerRefused."""

    __slots__ = ("_broker",)

    def __init__(self, broker: str = "the broker") -> None:
        self._broker = broker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, LIBRARY_ERRORS):
            raise to_broker_error(error, self._broker) from error
        if isinstance(error, UnicodeEncodeError):
            # Met before anything was sent: an argument of a command line may hold any bytes.
            raise ArgumentsRefused("only UTF-8 can be sent to the broker", help="write it in UTF-8") from error


def to_broker_error(error: Exception, broker: str = "the broker") -> BrokerError:
    """The error of ours for a library error met at `broker` (a display text, without secrets)."""
    error = _behind(error)
    reason = _one_line(error)
    if isinstance(error, SentinelRefused):
        return BrokerRefused(
            f"{broker}: no Sentinel takes the login: {reason}",
            help="give sentinel_username and sentinel_password in the broker URL, percent-encoded",
        )
    if isinstance(error, NoPrimary):
        return BrokerUnavailable(f"{broker}: no Sentinel names a primary: {reason}", help=error.way_out)
    if isinstance(error, _REFUSED_LOGIN):
        return BrokerRefused(
            f"{broker} refused the user or the password",
            help="check the credentials in the broker URL; percent-encode special characters in them",
        )
    if isinstance(error, library.NoPermissionError):
        return BrokerRefused(
            f"{broker} forbids this user a command: {reason}",
            help="give the user the permissions that docs/operations.md lists",
        )
    if not is_retryable(error):
        refusal = ArgumentsRefused if _ABOUT_ARGUMENTS.search(reason) else BrokerRefused
        return refusal(f"{broker} refused a command: {reason}")
    if isinstance(error, library.BusyLoadingError):
        return BrokerUnavailable(f"{broker} is still loading its data", help="wait for it, then try again")
    if isinstance(error, library.TimeoutError):
        return BrokerUnavailable(f"{broker} did not answer in time", help="check its load and the network")
    if isinstance(error, (library.ConnectionError, library.RedisClusterException)):
        return BrokerUnavailable(f"{broker} cannot be reached: {reason}", help="check that it runs, and the URL")
    return BrokerUnavailable(f"{broker} cannot serve now: {reason}", help=_way_out(reason))


def refusal_of_key(reply: object, *keys: str) -> BrokerRefused | None:
    """The refusal, where an answer of a batch says that one of its own keys holds what it should not; else None.

    Raises the error of ours for any other failure: that is the server's, and meets the rest of the batch too.
    """
    if not isinstance(reply, Exception):
        return None
    error, reason = to_broker_error(reply), _one_line(_behind(reply))
    if isinstance(error, BrokerRefused) and _ABOUT_KEY.search(reason):
        return alien_record(reason, *keys)
    raise error


def alien_record(reason: str, *keys: str) -> BrokerRefused:
    """The error for a record that relayctl did not write, under one of these keys."""
    return BrokerRefused(
        f"{' or '.join(keys)} in the broker holds something that relayctl did not write there: {reason}",
        help="look at it and take it away (RENAME or DEL); what belongs there is written anew",
    )


def reply_lost(error: Exception) -> ReplyLost:
    """The error for a connection that failed between a command and its answer."""
    plain = to_broker_error(error)
    return ReplyLost(plain.message, help=plain.help)


def _behind(error: Exception) -> Exception:
    """What a client of a Cluster met at its nodes, where it says so."""
    cause = error.__cause__
    is_wrapped = isinstance(error, library.RedisClusterException) and isinstance(cause, library.RedisError)
    return cause if is_wrapped and isinstance(cause, Exception) else error


def _one_line(error: Exception) -> str:
    text = _CONNECTING.sub(lambda found: found[1].lower(), " ".join(str(error).split())).rstrip(". ")
    return text[:300] or type(error).__name__


def _way_out(reason: str) -> str:
    if reason.startswith("MISCONF"):
        return "free space on the broker's disk; it takes writes again by itself"
    if "maxmemory" in reason:
        return "give the broker more memory (maxmemory), or let the backlog drain"
    if "NOREPLICAS" in reason:
        return "bring a replica back, or lower min-replicas-to-write"
    return "try again in a moment"
