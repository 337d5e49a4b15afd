"""The kept output of runs: what goes with their ends, and about once a second what they have printed so far.

Losing it is never an error of the run: whoever ends runs does not wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from relayctl.core.output import KeptOutput, output_of
from relayctl.errors import BrokerError
from relayctl.runners.invocation import Outcome
from relayctl.runners.output import Tail, legible
from relayctl.worker.executor import Executor
from relayctl.worker.ledger import SILENT_S, Finished, Printed, is_charged

if TYPE_CHECKING:
    from relayctl.store.outputs import Outputs

FLUSH_S = 1.0
MOST_AT_ONCE = 64
"""How many runs tell of their output in one pass, 16 KiB each at most; the others in the next one."""


class Printing:
    """Tells the broker what running attempts print. Owned by the loop that records ends."""

    def __init__(self, executor: Executor, outputs: Outputs, worker: str) -> None:
        self._executor = executor
        self._outputs = outputs
        self._worker = worker
        self._ask_at = 0.0
        self._unsent: list[Printed] = []

    def step(self, now: float) -> None:
        """Write what was gathered, and about once a second have more of it gathered; `now` is monotonic."""
        if not self._outputs.are_kept:
            return
        if now >= self._ask_at:
            self._ask_at = now + FLUSH_S
            self._executor.gather_output()
        self._unsent = self._unsent or self._executor.take_printed(MOST_AT_ONCE)
        if not self._unsent:
            return
        try:
            self._outputs.keep([(each.claim, self._so_far(each)) for each in self._unsent])
        except BrokerError:
            # In the next pass: a run that prints nothing more would bring nothing else along for a long time.
            return
        self._unsent = []

    def at_end(self, item: Finished, outcome: str, exit_text: str) -> KeptOutput | None:
        """What is kept with the end of a run; None where nothing is kept at all, or nothing can be of interest."""
        ended = item.ended
        is_dull = outcome == "succeeded" and not ended.output_bytes
        if not self._outputs.are_kept or (is_dull and ended.duration_s < SILENT_S):
            return None
        kept = replace(
            _with(output_of(item.claim, worker=self._worker, started_ms=item.started_ms), ended.output),
            finished_ms=item.finished_ms,
            outcome=outcome if is_charged(ended) else "interrupted",
            reason=ended.reason,
            exit=exit_text,
            printed=ended.output_bytes,
        )
        # Of a run that never began nothing is lost with an interruption.
        return None if ended.outcome in {Outcome.INTERRUPTED, Outcome.REFUSED} and not ended.started else kept

    def _so_far(self, each: Printed) -> KeptOutput:
        kept = output_of(each.claim, worker=self._worker, started_ms=each.started_ms)
        return replace(_with(kept, each.telling.output), printed=each.telling.printed)


def _with(kept: KeptOutput, tail: Tail) -> KeptOutput:
    text, is_cut = legible(tail.data, is_cut=tail.is_cut)
    return replace(kept, text=text, is_cut=is_cut, lines=tail.lines)
