"""What became of runs that a command started: waits for their ends within a bound, and says how each went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import timedelta

    from relayctl.cli.desk import Desk
    from relayctl.host.clock import Clock
    from relayctl.store.orders import Orders, RunState, Started

_LOOK_EVERY_S = 0.2
_WELL = frozenset({"succeeded"})


def await_end(orders: Orders, clock: Clock, started: Started, within: timedelta) -> RunState:
    """Look until the run has ended or the time is up; how far it is then."""
    import threading

    until = clock.monotonic() + within.total_seconds()
    never = threading.Event()
    while True:
        state = orders.state_of(started)
        if state.is_over or clock.monotonic() >= until:
            return state
        clock.wait(never, _LOOK_EVERY_S)


def deliver(desk: Desk, runs: Sequence[tuple[Started, RunState | None]]) -> None:
    """Print what was started and, where it was waited for, how it ended; a bad end becomes the exit code."""
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import Code, Ended, harmless
    from relayctl.cli.fleet import warn_unreplicated

    if any(started.replicated is False for started, _ in runs):
        warn_unreplicated(desk, replicated=False)
    documents = [_document(*run) for run in runs]
    desk.deliver({
        "text": lambda: harmless("".join(f"{line}\n" for run in runs for line in _lines(*run))),
        "json": lambda: to_json({"v": 1, "runs": documents}),
    })  # fmt: skip
    states = [state for _, state in runs if state is not None]
    if any(not state.is_over for state in states):
        raise Ended(Code.NOT_CONVERGED)
    if any(state.state not in _WELL for state in states):
        raise Ended(Code.FAILURE)


def _lines(started: Started, state: RunState | None) -> list[str]:
    how = "started" if started.is_new else "was started before"
    lines = [f"{started.id} {how} as message {started.message}"]
    if state is None:
        return lines
    words = {"waiting": "still waiting to run", "running": "still running", "forgotten": "ended; its record is gone"}
    text = words.get(state.state, state.state)
    reason = state.record.get("reason", "")
    if reason and state.state not in _WELL:
        text += f": {reason}"
    attempts = f" (attempt {state.attempts})" if state.attempts else ""
    return [*lines, f"{text}{attempts}"]


def _document(started: Started, state: RunState | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "app": started.app,
        "schedule": started.slot.schedule,
        "id": started.id,
        "message": started.message,
        "is_new": started.is_new,
        "replicated": started.replicated,
    }
    if state is not None:
        document |= {
            "state": state.state,
            "is_over": state.is_over,
            "attempts": state.attempts,
            "reason": state.record.get("reason", ""),
        }
    return document
