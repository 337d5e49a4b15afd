"""How a namespace gets its desired state: from releases (push) or from files that its workers follow (pull).

Where no broker is named this starts the embedded one of the state directory for as long as it takes: the mode changes
only while no worker lives, and without a worker none runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relayctl.api.convergence import live_workers
from relayctl.core.counting import listed
from relayctl.errors import NoBroker, Refused
from relayctl.store.failure import translate
from relayctl.store.fleet import Fleet
from relayctl.store.releases import Releases

if TYPE_CHECKING:
    import redis

    from relayctl.api.place import Place
    from relayctl.host.clock import Clock

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeFound:
    """The mode now (push, pull, or None where nobody has decided), whether this changed it, and the last release."""

    mode: str | None
    is_changed: bool
    last_release: int


def look_at_mode(place: Place, clock: Clock, wanted: str | None = None) -> ModeFound:
    """The mode of a namespace; with `wanted` it becomes that.

    Refused while a worker lives that needs the present one; NoBroker where no broker is named and none was ever
    started on the state directory; else it raises as `api.observe`.
    """
    from relayctl.store.keys import Keys

    with _connected(place, clock) as client:
        keys = Keys(place.namespace)
        fleet, releases = Fleet(client, keys), Releases(client, keys)
        is_changed = wanted is not None and _switch(fleet, releases, place.namespace, wanted, client)
        return ModeFound(mode=fleet.mode(), is_changed=is_changed, last_release=releases.serial())


def _switch(fleet: Fleet, releases: Releases, namespace: str, wanted: str, client: redis.Redis) -> bool:
    mode = fleet.mode()
    if mode == wanted:
        return False
    with translate():
        seconds, micros = client.time()
    live = live_workers(fleet, int(seconds) * 1000 + int(micros) / 1000) if mode is not None else []
    if live:
        raise Refused(
            f"namespace {namespace} stays in {mode} mode, since workers live that need it: {listed(live, _MOST_NAMED)}",
            help=f"stop {'it' if len(live) == 1 else 'them'}, then run relayctl mode {wanted} again",
        )
    releases.set_mode(wanted, mode)
    return True


@contextmanager
def _connected(place: Place, clock: Clock) -> Iterator[redis.Redis]:
    from relayctl.broker.choose import resolve_broker
    from relayctl.broker.config import AOF_DIRECTORY
    from relayctl.host.state import StateDir
    from relayctl.store.connect import connect

    state = StateDir(place.state_dir)
    has_data = state.exists() and (state.broker_data / AOF_DIRECTORY).is_dir()
    try:
        choice = resolve_broker(explicit_url=place.redis_url, state=state, may_start=has_data, clock=clock)
    except NoBroker as error:
        if has_data:
            raise
        raise NoBroker(
            error.message,
            help="name one with --redis or RELAYCTL_REDIS_URL, or another state directory with --state-dir; "
            "a namespace without a mode gets one from its first relayctl serve, or serve --follow",
        ) from None
    try:
        client = connect(choice.target, client_name="relayctl-mode")
        try:
            yield client
        finally:
            client.close()
    finally:
        choice.close()
