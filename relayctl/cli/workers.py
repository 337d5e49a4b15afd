"""Asks the workers of this machine over their control sockets: all that live on the state directory in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayctl.errors import RelayError, WorkerUnreachable

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.host.requests import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one worker said, or the error instead; `place` is its socket's name."""

    place: str
    outcome: Result | RelayError


def sockets(desk: Desk) -> list[Path]:
    """The sockets of the workers here. Raises RequestRejected when the state directory is another user's."""
    from relayctl.host.clock import SystemClock
    from relayctl.host.socketfile import sockets_of
    from relayctl.host.state import StateDir

    return sockets_of(StateDir(desk.settings.state_dir), SystemClock())


def ask_all(desk: Desk, name: str, request: Mapping[str, Any], *, within_s: float) -> list[Answer]:
    """The answers of all workers here, each waited for at most `within_s`; a socket whose worker just left is skipped.

    Raises RequestRejected when the state directory is another user's.
    """
    from relayctl.host.client import submit

    answers = []
    for path in sockets(desk):
        try:
            outcome: Result | RelayError = submit(path, name, request, within_s=within_s)
        except RelayError as error:
            if isinstance(error, WorkerUnreachable) and not path.exists():
                continue
            outcome = error
        answers.append(Answer(place=path.name, outcome=outcome))
    return answers


def no_worker(desk: Desk) -> WorkerUnreachable:
    """The error when there is nobody to ask."""
    return WorkerUnreachable(
        f"no worker runs on the state directory {desk.settings.state_dir}",
        help="start one with relayctl serve, or name another directory with --state-dir (RELAYCTL_STATE_DIR)",
    )
