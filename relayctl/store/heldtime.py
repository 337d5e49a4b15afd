"""A client for tests that hold the clock: the broker's time is what the holder says, wherever it is asked for.

What the server does by itself stays with its own clock: entry ids, the expiry of keys, the idle time of deliveries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

Instant = Callable[[], int]
"""The time as whoever holds the clock says it, in milliseconds since 1970."""


class HeldRedis(redis.Redis):
    """A client of one server whose time is held; `store.scripts` hands `instant_ms` to every step that asks for it."""

    def __init__(self, *, instant: Instant, **options: Any) -> None:
        super().__init__(**options)
        self.instant_ms = instant

    def time(self, **_options: Any) -> Any:
        """The held time, in the shape of the server's answer: seconds and microseconds."""
        seconds, ms = divmod(self.instant_ms(), 1000)
        return seconds, ms * 1000
