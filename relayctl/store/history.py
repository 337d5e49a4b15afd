"""The records of ended firings and event runs, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from relayctl.core.running import LastRun
from relayctl.store.failure import translate

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys


class History:
    """Reads history streams. Raises BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def last(self, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], LastRun]:
        """The newest record of each (app, schedule) that has one, in one round trip."""
        wanted = list(names)
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            for app, schedule in wanted:
                pipeline.xrevrange(self._keys.history_of_schedule(app, schedule), count=1)
            replies: list[Any] = pipeline.execute()
        return {name: _last(reply[0][1]) for name, reply in zip(wanted, replies, strict=True) if reply}


def _last(record: Mapping[str, str]) -> LastRun:
    return LastRun(
        verdict=record.get("verdict", ""),
        reason=record.get("reason", ""),
        scheduled_at=record.get("scheduled_at", ""),
        attempts=int(record.get("attempts") or 0),
        took_ms=int(record.get("finished") or 0) - int(record.get("started") or 0),
    )
