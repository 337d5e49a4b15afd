"""How often a stored spec fires within a window, counted once for all who ask. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from relayctl.core.definition import Firing
from relayctl.core.description import Fields
from relayctl.core.forecast import count_runs
from relayctl.core.occurrence import epoch_seconds


@lru_cache(maxsize=16_384)
def count_firings(spec: str, after: int, until: int) -> int:
    """The firings later than `after` and not later than `until`, both in epoch seconds; none of a disabled one."""
    trigger = Firing.from_spec(spec).trigger
    return 0 if trigger is None else count_runs(trigger, after, until)


class Counter:
    """Counts the firings of a schedule within a horizon."""

    def __init__(self, now: datetime, horizon: timedelta, counted: Mapping[str, int]) -> None:
        self._start = epoch_seconds(now)
        self._end = self._start + int(horizon.total_seconds())
        self._counted = counted

    def __call__(self, fields: Fields | None) -> int:
        if fields is None:
            return 0
        spec = fields["spec"]
        found = self._counted.get(spec)
        return count_firings(spec, self._start, self._end) if found is None else found
