"""How often a stored spec fires within a window, counted once for all who ask. Decides nothing."""

from __future__ import annotations

from functools import lru_cache

from relayctl.core.definition import Firing
from relayctl.core.forecast import count_runs


@lru_cache(maxsize=16_384)
def count_firings(spec: str, after: int, until: int) -> int:
    """The firings later than `after` and not later than `until`, both in epoch seconds; none of a disabled one."""
    trigger = Firing.from_spec(spec).trigger
    return 0 if trigger is None else count_runs(trigger, after, until)
