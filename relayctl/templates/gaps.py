"""How close two firings of a trigger can come. Sampled from a fixed date on, so that the answer needs no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from relayctl.core.cron import Cron, Every

_SINCE_S = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
_WINDOW_S = 5 * 366 * 86_400
_MOST_FIRINGS = 3_000


@lru_cache(maxsize=4096)
def shortest_gap(trigger: Cron | Every) -> timedelta | None:
    """The shortest time between two firings, clock changes included; None when it fires less than twice.

    Looks at 3,000 firings or five years, and at the days around every clock change of two years.
    """
    if isinstance(trigger, Every):
        return timedelta(seconds=trigger.seconds)
    shortest = _walk(trigger, _SINCE_S, _SINCE_S + _WINDOW_S, _MOST_FIRINGS)
    begin = datetime.fromtimestamp(_SINCE_S, UTC)
    for effect in trigger.transitions_affecting(begin, begin + timedelta(days=731)):
        at = int(effect.shift_at.timestamp())
        around = _walk(trigger, at - 2 * 86_400, at + 2 * 86_400, _MOST_FIRINGS)
        if around is not None and (shortest is None or around < shortest):
            shortest = around
    return None if shortest is None else timedelta(seconds=shortest)


def _walk(trigger: Cron, since: int, until: int, most: int) -> int | None:
    shortest: int | None = None
    before = trigger.next_after_s(since)
    for _ in range(most):
        if before is None or before > until:
            break
        after = trigger.next_after_s(before)
        if after is None:
            break
        if shortest is None or after - before < shortest:
            shortest = after - before
            if shortest <= 60:
                break
        before = after
    return shortest
