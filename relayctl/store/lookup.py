"""Finds the schedule or handler that a name means, among all that the broker and its live workers know of."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from relayctl.core.counting import listed
from relayctl.errors import UnknownTarget
from relayctl.store.definitions import Definitions
from relayctl.store.fleet import Fleet
from relayctl.store.history import History

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys

_MOST_LISTED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a name means: a schedule, or an app's event handler."""

    app: str
    name: str
    is_schedule: bool


class Lookup:
    """Asks over one client. Raises UnknownTarget, with the nearest name, BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._definitions = Definitions(client, keys)
        self._history = History(client, keys)
        self._fleet = Fleet(client, keys)

    def schedule(self, app: str, name: str) -> Found:
        """The schedule of this name, removed ones included while anything is known of them."""
        if self._definitions.heads([(app, name)]):
            return Found(app=app, name=name, is_schedule=True)
        raise _unknown("schedule", f"{app}/{name}", self._schedules())

    def any(self, app: str, name: str) -> Found:
        """The schedule of this name, else the event handler."""
        if self._definitions.heads([(app, name)]):
            return Found(app=app, name=name, is_schedule=True)
        handlers = self._handlers()
        if f"{app}/{name}" in handlers or self._history.has_handler(app, name):
            return Found(app=app, name=name, is_schedule=False)
        raise _unknown("schedule or handler", f"{app}/{name}", [*self._schedules(), *handlers])

    def _schedules(self) -> list[str]:
        return sorted(f"{app}/{name}" for app, name in self._definitions.all_names())

    def _handlers(self) -> list[str]:
        """The event handlers of what live workers run."""
        reports = self._fleet.running(record.id for record in self._fleet.records())
        return sorted(
            {f"{app}/{name}" for apps in reports.values() for app, item in apps.items() for name in item.events}
        )


def _unknown(kind: str, name: str, known: list[str]) -> UnknownTarget:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        hint = f'did you mean "{close[0]}"?'
    elif known:
        hint = f"there {'is' if len(known) == 1 else 'are'}: {listed(known, _MOST_LISTED)}"
    else:
        hint = "the broker knows of no schedule; relayctl status shows what runs"
    return UnknownTarget(f'no {kind} "{name}"', help=hint)
