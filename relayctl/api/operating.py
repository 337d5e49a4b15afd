"""What an operator may order: pauses, runs by hand, dead letters. What runs already is left alone."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from relayctl.api.place import target_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from relayctl.api.place import Place
    from relayctl.core.deadletter import DeadLetter, LetterFilter
    from relayctl.host.clock import Clock
    from relayctl.store.orders import Orders, Paused, Resumed, Started


@contextmanager
def orders(place: Place, clock: Clock | None = None) -> Iterator[Orders]:
    """A connection on which several orders and looks at their runs share one client. Raises as `observe`."""
    from relayctl.store.connect import connect
    from relayctl.store.keys import Keys
    from relayctl.store.orders import Orders

    client = connect(target_of(place, clock), client_name="relayctl-orders")
    try:
        yield Orders(client, Keys(place.namespace), place.min_replica_acks)
    finally:
        client.close()


def pause(
    place: Place,
    app: str,
    schedule: str,
    *,
    until: datetime | None = None,
    reason: str = "",
    by: str = "",
    clock: Clock | None = None,
) -> Paused:
    """Pause a schedule fleet-wide from the next second on, until that aware instant if any; `by` is user@host if empty.

    What is paused already stays so, with the new reason and end. Raises UnknownTarget, UsageError for an end that is
    over, Refused, or as `observe`.
    """
    with orders(place, clock) as desk:
        return desk.pause(app, schedule, until=until, by=_name(by), reason=reason)


def resume(place: Place, app: str, schedule: str, *, by: str = "", clock: Clock | None = None) -> Resumed:
    """End a schedule's pause, with no backlog; nothing where there is none. Raises UnknownTarget, Refused, or as
    `observe`.
    """
    with orders(place, clock) as desk:
        return desk.resume(app, schedule, by=_name(by))


def trigger(
    place: Place, app: str, schedule: str, *, key: str = "", by: str = "", clock: Clock | None = None
) -> Started:
    """Run a schedule now, out of band; the same key within 24 hours starts nothing more. It does not wait for the run.

    Where BrokerUnavailable leaves open whether it was started, the same call with the same key is safe. Raises as
    `pause`.
    """
    with orders(place, clock) as desk:
        return desk.trigger(app, schedule, key=key or secrets.token_hex(8), by=_name(by))


def force_due(
    place: Place,
    app: str,
    schedule: str,
    at: datetime | Literal["latest", "next"] = "latest",
    *,
    by: str = "",
    clock: Clock | None = None,
) -> Started:
    """Publish one firing of a schedule now, under its own identity: the latest due one, the next, or that of an aware
    instant. It does not wait for the run.

    A firing that was published before is not published again (`is_new` is False), and its own time finds one that was
    published here. Raises UnknownTarget, Refused where it does not fire then or is settled otherwise, or as `observe`.
    """
    with orders(place, clock) as desk:
        return desk.trigger_slot(app, schedule, at, by=_name(by), token=secrets.token_hex(8))


def dead_letters(
    place: Place, wanted: LetterFilter, *, limit: int, clock: Clock | None = None
) -> tuple[list[DeadLetter], int, int]:
    """The newest dead letters that the filter accepts, how many there are in all, and how many were evicted."""
    from relayctl.store.connect import connect
    from relayctl.store.dead_letters import DeadLetters
    from relayctl.store.keys import Keys

    client = connect(target_of(place, clock))
    try:
        letters = DeadLetters(client, Keys(place.namespace))
        return letters.newest(wanted, limit), *letters.counts()
    finally:
        client.close()


def _name(given: str) -> str:
    from relayctl.host.operator import operator

    return given or operator()
