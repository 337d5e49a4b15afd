"""One run of a handler as the pool takes it and gives it back: values only.

What an outcome means for retries and records is decided by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from relayctl.runners.output import NO_TAIL, Tail


class Outcome(Enum):
    """How a run ended. `INTERRUPTED` and `REFUSED` are not the handler's doing."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What to run. `key` names it in the pool (`<message>|<handler>`), `stdin` is the event's JSON.

    `variables` are the RELAY_* ones. `timeout_from` says what decided the timeout and only appears in a reason.
    """

    key: str
    app: str
    handler: str
    stdin: bytes = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    timeout_s: float
    label: str
    timeout_from: str = ""


class Telling(NamedTuple):
    """What a run that goes on has printed so far: how many bytes, and their end. `started_at` is monotonic seconds."""

    key: str
    started_at: float
    printed: int
    output: Tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended. Instants are monotonic seconds; `reason` and `output_tail` have their secrets masked.

    `started` is False when the handler never began. `output_bytes` counts everything it wrote, `unshown_bytes` what no
    line was given out for. The tail is the end of both streams, in the order in which they were read.
    """

    run: Run
    outcome: Outcome
    reason: str
    started_at: float
    finished_at: float
    exit_code: int | None = None
    signal: int | None = None
    output: Tail = field(default=NO_TAIL, repr=False)
    output_bytes: int = 0
    unshown_bytes: int = 0
    started: bool = True

    @property
    def output_tail(self) -> bytes:
        """The end of what it printed."""
        return self.output.data

    @property
    def duration_s(self) -> float:
        """Seconds from the start of the handler to the end that was seen."""
        return self.finished_at - self.started_at
