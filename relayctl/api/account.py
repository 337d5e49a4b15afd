"""What became of firings and runs: how they ended, why, and what they printed. Looking changes nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from relayctl.api.place import target_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date, datetime

    from relayctl.api.place import Place
    from relayctl.host.clock import Clock
    from relayctl.store.inquiry import Fate, Inquiry, Past
    from relayctl.store.logs import Logs


def history(
    place: Place, app: str, name: str, *, limit: int = 20, failed_only: bool = False, clock: Clock | None = None
) -> Past:
    """How the firings of a schedule, or the event runs of a handler, ended: at most `limit`, the newest first.

    Raises UnknownTarget, or as `observe`.
    """
    with _inquiry(place, clock) as desk:
        return desk.past(app, name, limit=limit, failed_only=failed_only)


def why(
    place: Place, app: str, schedule: str, wanted: datetime | date | None = None, *, clock: Clock | None = None
) -> Fate:
    """What became of the firing at an instant, of those on a day in the schedule's zone, or of the last (None).

    Raises UnknownTarget, UsageError where it was never due, or as `observe`.
    """
    with _inquiry(place, clock) as desk:
        return desk.fate(app, schedule, wanted)


@contextmanager
def logs(place: Place, clock: Clock | None = None) -> Iterator[Logs]:
    """A connection on which runs and their kept output are looked at, again while they go on. Raises as `observe`."""
    from relayctl.store.connect import connect
    from relayctl.store.keys import Keys
    from relayctl.store.logs import Logs

    client = connect(target_of(place, clock), client_name="relayctl-logs")
    try:
        yield Logs(client, Keys(place.namespace))
    finally:
        client.close()


@contextmanager
def _inquiry(place: Place, clock: Clock | None) -> Iterator[Inquiry]:
    from relayctl.store.connect import connect
    from relayctl.store.inquiry import Inquiry
    from relayctl.store.keys import Keys

    client = connect(target_of(place, clock))
    try:
        yield Inquiry(client, Keys(place.namespace))
    finally:
        client.close()
