"""How often a stored spec fires within a window, counted firing by firing and kept for the next one who asks."""

from __future__ import annotations

from functools import lru_cache

from relayctl.core.cron import Cron, Every
from relayctl.core.definition import Firing


@lru_cache(maxsize=16_384)
def count_firings(spec: str, after: int, until: int) -> int:
    """The firings later than `after` and not later than `until`, both in epoch seconds."""
    trigger = Firing.from_spec(spec).trigger
    if trigger is None:
        return 0
    if isinstance(trigger, Every):
        return until // trigger.seconds - after // trigger.seconds
    return _walk(trigger, after, until)


def _walk(trigger: Cron, after: int, until: int) -> int:
    count, at = 0, trigger.next_after_s(after)
    while at is not None and at <= until:
        count += 1
        at = trigger.next_after_s(at)
    return count
