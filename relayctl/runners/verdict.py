"""What a child's answer or exit says about its run, in an outcome and in words. Pure."""

from __future__ import annotations

import signal
from typing import NamedTuple

from relayctl.runners.invocation import Outcome
from relayctl.runners.process import Exit


class Verdict(NamedTuple):
    """How a run ended, before times and output are known."""

    outcome: Outcome
    reason: str
    exit_code: int | None = None
    signal: int | None = None


_SUCCEEDED = Verdict(Outcome.SUCCEEDED, "")


def of_answer(succeeded: bool, code: int | None, reason: str) -> Verdict:
    """What the child said of a handler that came back."""
    if succeeded:
        return _SUCCEEDED if code is None else Verdict(Outcome.SUCCEEDED, "", code)
    return Verdict(Outcome.FAILED, reason, code)


def of_exit(status: Exit, *, is_program: bool) -> Verdict:
    """What an exit without an answer says. A program's exit is its answer; a Python handler should have come back."""
    if status.signal is not None:
        return _of_signal(status.signal)
    if is_program:
        if status.code == 0:
            return Verdict(Outcome.SUCCEEDED, "", 0)
        return Verdict(Outcome.FAILED, f"exit code {status.code}", status.code)
    reason = f"the handler ended its process with exit code {status.code} before it returned"
    return Verdict(Outcome.FAILED, reason, status.code)


def _of_signal(number: int) -> Verdict:
    name = name_of(number)
    if number == signal.SIGKILL:
        reason = f"killed by {name}: by the kernel for want of memory, or by somebody"
        return Verdict(Outcome.LOST, reason, None, number)
    return Verdict(Outcome.FAILED, f"killed by {name}", None, number)


def name_of(number: int) -> str:
    """A signal's name, also of one that has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def shown_seconds(seconds: float) -> str:
    """A timeout as people write it: `6s`, `0.5s`."""
    return f"{seconds:g}s"
