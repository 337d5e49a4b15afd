"""One emit for several listeners: logs, counters, tests. It tells facts and keeps none."""

from __future__ import annotations

from contextlib import suppress

from relayctl.core.facts import Emit, Fact


def fan_out(*listeners: Emit) -> Emit:
    """An emit that tells each listener in order; one that fails is passed over, for a loop must not die of it."""

    def emit(fact: Fact) -> None:
        for listener in listeners:
            # Nobody is left who could be told of a listener that fails.
            with suppress(Exception):
                listener(fact)

    return emit
