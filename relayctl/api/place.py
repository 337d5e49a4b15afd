"""Where the fleet is that is asked: a broker or the state directory of an embedded one, and a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to look: an explicit broker URL, or the embedded broker of a state directory; and the namespace.

    Settings and environment variables are not read. Orders wait until `min_replica_acks` replicas hold them, and say
    whether that was so.
    """

    redis_url: str | None = None
    state_dir: Path = Path(".relayctl")
    namespace: str = "relay"
    min_replica_acks: int = 0


def target_of(place: Place, clock: Clock | None = None) -> Target:
    """The broker of a place. Raises UsageError for an unreadable URL, NoBroker where none is named and none runs."""
    from relayctl.broker.choose import resolve_broker
    from relayctl.host.clock import SystemClock
    from relayctl.host.state import StateDir

    state, clock = StateDir(place.state_dir), clock or SystemClock()
    return resolve_broker(explicit_url=place.redis_url, state=state, may_start=False, clock=clock).target
