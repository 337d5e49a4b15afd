"""The terms on which `apply` and `rollback` publish: the options that both take, and what these mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from relayctl.core.removal import Limits

_LONGEST = timedelta(days=1)

Yes = Annotated[bool, typer.Option("-y", "--yes", help="do not ask")]
AllowEmpty = Annotated[bool, typer.Option("--allow-empty", help="also where nothing is left")]
MaxRemovals = Annotated[
    int | None,
    typer.Option("--max-removals", metavar="N", min=0, help="remove up to N schedules [5, or a fifth of all]"),
]
LockTimeout = Annotated[
    str, typer.Option("--lock-timeout", metavar="DURATION", help="how long to wait for another apply")
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="wait until every live worker has it")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="how long to wait for them")]
Message = Annotated[str, typer.Option("--message", metavar="TEXT", help="why; releases shows it")]

LOCK_TIMEOUT = "30s"
TIMEOUT = "60s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What was agreed to and how long may be waited; `waits` is None where nobody waits for workers."""

    limits: Limits
    is_agreed: bool
    lock_timeout: timedelta
    waits: timedelta | None
    message: str = ""


def terms_of(
    *,
    yes: bool,
    allow_empty: bool,
    max_removals: int | None,
    lock_timeout: str,
    wait: bool,
    timeout: str,
    message: str,
) -> Terms:
    """What the options say. UsageError for a time that is none, or longer than a day."""
    from relayctl.core.removal import Limits

    return Terms(
        limits=Limits(max_removals=max_removals, allow_empty=allow_empty),
        is_agreed=yes,
        lock_timeout=_span(lock_timeout, "--lock-timeout"),
        waits=_span(timeout, "--timeout") if wait else None,
        message=message,
    )


def _span(text: str, flag: str) -> timedelta:
    from relayctl.cli.when import parse_span

    return timedelta(0) if text in {"0", "0s"} else parse_span(text, flag, longest=_LONGEST)
