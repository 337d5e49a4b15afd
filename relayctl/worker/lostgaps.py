"""Closes as missed what was due between the last that is known of a schedule and its new beginning in a lost registry.

Where nobody remembers a schedule it begins anew, and its account would say nothing of the time before. It decides
neither what is known nor that it was lost: the registrar does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from relayctl.core.account import STATE_LOST, Closing, span_between
from relayctl.core.definition import Generation
from relayctl.core.due import Timeline
from relayctl.core.facts import Emit, Missed
from relayctl.core.lifecycle import Verdict
from relayctl.core.occurrence import from_epoch
from relayctl.errors import BrokerRefused
from relayctl.store.closings import Wish

if TYPE_CHECKING:
    from relayctl.store.closings import Closings
    from relayctl.worker.agenda import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What is not known of one schedule: its firings by `spec` after `after` (epoch seconds) and before `until_ms`."""

    spec: str
    after: int
    until_ms: int

    @property
    def timeline(self) -> Timeline:
        """The definition, in force in the gap alone."""
        begin_ms = (self.after + 1) * 1000
        return Timeline([Generation(gen=1, hash="", spec=self.spec, from_ms=begin_ms, to_ms=self.until_ms)])


class LostGaps:
    """Gaps that wait to be closed. Used by the reconciler's thread alone."""

    def __init__(self, closings: Closings, now_ms: Callable[[], int], emit: Emit) -> None:
        self._closings = closings
        self._now_ms = now_ms
        self._emit = emit
        self._open: dict[Name, Gap] = {}

    def note(self, name: Name, gap: Gap) -> None:
        """Remember a gap until it is closed; what was known first of a schedule reaches back furthest."""
        self._open.setdefault(name, gap)

    def close(self) -> None:
        """Close what is open, each as one range. Raises BrokerError, and keeps what is left for the next time."""
        for name, gap in list(self._open.items()):
            if self._close(name, gap):
                del self._open[name]

    def _close(self, name: Name, gap: Gap) -> bool:
        """Whether that is done; not where a key of the schedule holds what it should not."""
        timeline = gap.timeline
        span = span_between(timeline, gap.after, -(-gap.until_ms // 1000))
        if span is None:
            return True
        closing = Closing(span=span, verdict=Verdict.MISSED, reason=STATE_LOST)
        wish = Wish(app=name[0], schedule=name[1], closing=closing, narrow=partial(span_between, timeline))
        [closed] = self._closings.close([wish], now_ms=self._now_ms())
        if isinstance(closed, BrokerRefused):
            return False
        if closed:
            self._emit(
                Missed(
                    app=name[0],
                    schedule=name[1],
                    first_at=from_epoch(span.first),
                    last_at=from_epoch(span.last),
                    count=closed,
                    reason=STATE_LOST,
                )
            )
        return True
